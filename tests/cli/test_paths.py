"""The commands of `make paths` print what it waits for: each that needs no framework, in this environment."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.judges.paths import CALL, PATHS, ROOT
from xloom.cli.main import cli

STEPS = {
    f"{name}-{k}": (path, *step) for name, path in PATHS.items() if not path.extra for k, step in enumerate(path.steps)
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step(tmp_path, monkeypatch, name):
    path, step, pattern = STEPS[name]
    monkeypatch.chdir(tmp_path)
    for file in path.files:
        shutil.copy(ROOT / "examples" / file, tmp_path)
    (tmp_path / "call.hlo").write_text(CALL)
    program, *arguments = shlex.split(step)
    if program == "python":
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
        assert re.search(pattern, done.stdout)
    else:
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0 and re.search(pattern, done.output), done.output
