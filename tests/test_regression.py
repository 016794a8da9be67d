"""`make bench-regression`: another version is found, and what takes longer than with it is named."""

import shutil
import zipfile
from pathlib import Path

import click
import pytest

import xloom
from benchmarks import regression
from benchmarks.regression import Side, SideError, compare, judged, report, source_of

ROOT = Path(__file__).parent.parent


def test_a_checkout_a_wheel_and_a_commit_are_versions(tmp_path):
    with source_of(str(ROOT)) as source:
        assert source == ROOT / "src"
    wheel = tmp_path / "xloom-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("xloom/__init__.py", "")
    with source_of(str(wheel)) as source:
        assert (source / "xloom" / "__init__.py").exists()
    with pytest.raises(click.ClickException, match="no-such is no wheel, checkout or commit"), source_of("no-such"):
        pass


def test_a_version_that_waits_has_lost_and_one_that_fails_too(tmp_path, capsys):
    slow = tmp_path / "slow" / "xloom"
    slow.mkdir(parents=True)
    (slow / "__init__.py").write_text(
        "import time\nfrom_stablehlo = bytes\ndef compile(module): return lambda *a: time.sleep(0.05)\n"
    )
    quick = tmp_path / "quick" / "xloom"
    shutil.copytree(slow, quick)
    (quick / "__init__.py").write_text((slow / "__init__.py").read_text().replace("0.05", "0.001"))
    before, now = (Side(tmp_path / name, tmp_path / "cache") for name in ("quick", "slow"))
    figures = judged(before, now, "dispatch/empty", tmp_path, 3, 1.1)
    assert figures[-1] > 3
    (quick / "__init__.py").write_text("from_stablehlo = bytes\ndef compile(module): raise OSError('broken')\n")
    broken = Side(tmp_path / "quick", tmp_path / "cache")
    with pytest.raises(SideError, match="OSError: broken"):
        compare(broken, now, "dispatch/empty", tmp_path, 3)
    for side in (before, now, broken):
        side.close()
    assert report({"a": [1.0, 1.05, 1.05], "b": figures, "c": "broken"}, "main", 1.1) == ["b", "c"]
    assert "lost: b: " in capsys.readouterr().out


def test_the_set_is_of_programs_that_there_are():
    from benchmarks.programs import PROGRAMS

    assert set(regression.STABLE) <= PROGRAMS.keys()
    assert Path(xloom.__file__).parent == ROOT / "src" / "xloom"
