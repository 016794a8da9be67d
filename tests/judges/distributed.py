"""JAX's tests of several processes on xloom and on XLA:CPU, which uses Gloo: a test passes if it does in all of them.

    python -m tests.judges.distributed --from <checkout of jax-ml/jax at jax-v0.10.2> [--files array_test,...]

Verdicts are kept in the folder `--out`, from which a later call goes on where an earlier one has stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.judges.suite_runner import concluded, python

FILES = [
    "all_gather_test",
    "all_reduce_test",
    "all_to_all_test",
    "array_test",
    "axis_index_test",
    "colocated_python_test",
    "device_id_test",
    "host_callback_test",
    "key_value_store_test",
    "multihost_utils_test",
    "pjit_test",
    "pmap_test",
    "socket_transfer_test",
    "thread_guard_test",
    "wait_barrier_test",
]
"""Those that are not about a TPU or a GPU."""
_LINE = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] (\w+\.\w+)", re.M)
_ENVIRONMENT = {
    "cpu": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    "xloom": {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "2"},
}
_PATIENCE = (
    "--heartbeat_timeout=120",
    "--shutdown_timeout=120",
    "--barrier_timeout=120",
    "--initialization_timeout=120",
)
"""Seconds."""


def said(folder: Path, processes: int) -> dict[str, str]:
    """The verdict on each test that all processes began: the worst of theirs."""
    order = ["RUN", "FAILED", "SKIPPED", "OK"]
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for process in range(processes):
        text = "\n".join((folder / f"jax_{process}_{name}.log").read_text() for name in ("stderr", "stdout"))
        verdicts = {name: verdict for verdict, name in _LINE.findall(text)}
        for name, verdict in verdicts.items():
            counts[name] += 1
            found[name] = min(found.get(name, "OK"), verdict, key=order.index)
    return {name: verdict if counts[name] == processes else "RUN" for name, verdict in found.items()}


def run(checkout: Path, file: str, side: str, processes: int, timeout: float, folder: Path, only: str = "") -> str:
    """Runs a file, or one of its tests; says how it ended."""
    shutil.rmtree(folder, ignore_errors=True)  # logs of an earlier call are not this one's
    folder.mkdir(parents=True)
    # what tests leave out on the CPU they leave out here; many processes on few cores miss JAX's heartbeats of 5 s
    arguments = [f"--num_processes={processes}", "--extra_test_args=--jax_test_dut=cpu", *_PATIENCE]
    arguments += [only] if only else []
    environment = {**os.environ, **_ENVIRONMENT[side], "TEST_UNDECLARED_OUTPUTS_DIR": str(folder)}
    with (folder / "launcher.log").open("wb") as log:
        child = subprocess.Popen(
            python(Path(f"tests/multiprocess/{file}.py"), *arguments),
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return f"exit status {child.wait(timeout)}"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return f"no end after {timeout:g} s"


def verdicts(checkout: Path, file: str, side: str, processes: int, timeout: float, out: Path) -> dict[str, str]:
    """The tests of a file: all at once, then those alone that were not reached or in which processes ended."""
    kept = out / f"{file}.{side}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    folder = out.resolve() / f"{file}.{side}"
    run(checkout, file, side, processes, timeout, folder)
    found = said(folder, processes)
    for name in [name for name, verdict in found.items() if verdict == "RUN"]:
        alone = folder / name
        ended = run(checkout, file, side, processes, timeout, alone, name)
        found[name] = said(alone, processes).get(name, "RUN")
        if found[name] == "RUN":
            print(f"  {side} {name}: {ended}, see {alone}")
    kept.write_text(json.dumps(found, indent=1))
    return found


def compare(file: str, ours: dict[str, str], theirs: dict[str, str]) -> Counter[str]:
    """Counts of one file; prints what passes on XLA:CPU and not here."""
    counts: Counter[str] = Counter()
    counts["reference"] = sum(verdict == "OK" for verdict in theirs.values())
    counts["crash"] = sum(verdict == "RUN" for verdict in ours.values())
    for name in sorted(ours.keys() | theirs.keys()):
        mine, reference = ours.get(name, "absent"), theirs.get(name, "absent")
        counts["here"] += mine == "OK"
        if reference == "OK":
            counts["pass"] += mine == "OK"
            if mine != "OK":
                print(f"  {mine} {name}")
    print(f"{file}: {_line(counts)}", flush=True)
    return counts


def _line(counts: Counter[str]) -> str:
    return (
        f"{counts['pass']} of {counts['reference']} that pass on XLA:CPU, {counts['here']} in all, "
        f"{counts['crash']} without an end"
    )


def main() -> int:
    """Judges, and prints a line a file; 1 if any test ended its process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True, type=Path)
    parser.add_argument("--files", default=",".join(FILES), help="names of files, separated by commas")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a file may take, or a test alone")
    parser.add_argument("--out", default=Path("distributed"), type=Path, help="folder for verdicts")
    options = parser.parse_args()
    table: dict[str, Counter[str]] = {}
    for file in options.files.split(","):
        arguments = (options.processes, options.timeout, options.out)
        theirs, ours = (verdicts(options.checkout, file, side, *arguments) for side in ("cpu", "xloom"))
        table[file] = compare(file, ours, theirs)
    return concluded(table, _line, None)


if __name__ == "__main__":
    sys.exit(main())
