"""A few mutants of each format that is read; `make judge-malformed` tries many."""

import pytest

from tests.judges.malformed import FORMATS, cases_of


@pytest.mark.parametrize("name", [name for name, chosen in FORMATS.items() if not name.startswith("stablehlo")])
def test_mutants(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    assert [message for _, run in cases_of((name, 0, 12)) if (message := run())] == []
