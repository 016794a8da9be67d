"""A user's program of the public interface passes pyright in strict mode."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pytest

import xloom
from tests.interface import test_as_a_user


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="there is no pyright")
def test_pyright_is_content_with_a_users_program(tmp_path):
    # an environment that has xloom installed, as pyright reads less into the types of packages than into one's own
    packages = tmp_path / "env/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "all.pth").write_text(f"{Path(xloom.__file__).parents[1]}\n{get_path('purelib')}\n")
    (tmp_path / "env/pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\nversion = 3.11\n")
    settings = {"pythonVersion": "3.11", "venvPath": ".", "venv": "env", "exclude": ["env"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    (tmp_path / "program.py").write_text(Path(test_as_a_user.__file__).read_text())
    command = [sys.executable, "-m", "pyright", "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_packages_say_that_they_have_types():
    assert (Path(xloom.__file__).parent / "py.typed").exists()
