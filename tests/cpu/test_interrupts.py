"""A signal is heard while native code runs: what its handler raises ends the run, and the next one is right."""

import subprocess
import sys
from pathlib import Path

EXPECTED = """a count stopped True
no count stopped True
threads stopped True
Python stopped True
both stopped True
steps stopped True
blocks stopped True
SIGINT after a handler that returns [True]
wait stopped
"""


def test_signals_end_runs():
    script = Path(__file__).with_name("interrupted.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (EXPECTED, "", 0)
