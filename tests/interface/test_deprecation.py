"""Names that are to go work as before, and warn at the line that uses them."""

import sys
import types
import warnings

import pytest

from xloom import deprecation


@deprecation.deprecated(instead="sum", gone="0.3")
def add(a, b=1):
    """Adds."""
    return a + b


def test_a_function_warns_where_it_is_called():
    with pytest.warns(DeprecationWarning, match=r"add is deprecated, and goes with xloom 0.3: use sum") as caught:
        assert add(2, b=3) == 5
    assert caught[0].filename == __file__
    assert add.__name__ == "add" and add.__doc__ == "Adds.\n\nDeprecated, and gone with xloom 0.3: use sum."


def test_a_name_that_has_become_another(monkeypatch):
    module = types.ModuleType("old_home")
    monkeypatch.setitem(sys.modules, "old_home", module)
    vars(module).update(fresh=7)
    names = {"stale": "fresh", "moved": "math.tau"}
    vars(module)["__getattr__"] = deprecation.renamed("old_home", names, gone="0.2")
    with pytest.warns(DeprecationWarning, match=r"old_home.stale .* use old_home.fresh") as caught:
        assert module.stale == 7
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"old_home.moved .* use math.tau"):
        assert module.moved > 6
    with pytest.raises(AttributeError, match="module 'old_home' has no attribute 'never'"):
        _ = module.never


def test_nothing_of_ours_uses_what_is_to_go():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        import xloom

        for name in xloom.__all__:
            getattr(xloom, name)
