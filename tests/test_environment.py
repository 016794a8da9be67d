"""Variables of the environment: declared in one place, and read through it."""

import re
from pathlib import Path

from xloom import environment
from xloom.environment import OTHERS, VARIABLES, Variable

SOURCE = Path(environment.__file__).parent


def test_what_is_named_anywhere_is_declared():
    declared = {v.name for v in VARIABLES}
    assert set(OTHERS).isdisjoint(VARIABLES)
    assert {*VARIABLES, *OTHERS} == {v for v in vars(environment).values() if isinstance(v, Variable)}
    for path in SOURCE.rglob("*.py"):
        named = re.findall(r"\bXLOOM_[A-Z_]+\b", path.read_text("utf-8"))
        assert declared.issuperset(named), path


def test_variables_are_read_through_their_declarations():
    found = [str(p) for p in SOURCE.rglob("*.py") if re.search(r"environ\S*XLOOM_", p.read_text("utf-8"))]
    assert not found


def test_text(monkeypatch):
    monkeypatch.setenv("XLOOM_LOG", " pjrt ")
    assert environment.LOG.text == "pjrt"
    monkeypatch.delenv("XLOOM_LOG")
    assert environment.LOG.text == ""
