"""Starts processes that find each other by `jax.distributed`, each with devices of its own."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.distributed.machines import Network


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def until_killed(pattern: str, command: Sequence[str]) -> list[str]:
    """What runs a script, with arguments, until it has printed what matches a pattern."""
    return [sys.executable, str(Path(__file__).with_name("killed.py")), pattern, *command]


def start(
    script: Path,
    arguments: Sequence[str] = (),
    count: int = 2,
    devices: int = 2,
    network: Network | None = None,
    killed: tuple[int, str] | None = None,
    **environment: str,
) -> list[subprocess.Popen[str]]:
    """`script PROCESS COUNT ADDRESS arguments...` in each of `count` processes, here or on a machine of a network.

    The one that is `killed`, by its number, is so when it has printed what matches a pattern."""
    address = f"{network.address(0) if network else 'localhost'}:{free_port()}"
    variables = {**os.environ, "JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": str(devices), **environment}

    def command(process: int) -> list[str]:
        local = [str(script), str(process), str(count), address, *arguments]
        local = until_killed(killed[1], local) if killed and process == killed[0] else [sys.executable, *local]
        return network.machines[process % len(network.machines)].command(*local) if network else local

    return [
        subprocess.Popen(
            command(process),
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(count)
    ]


def finish(processes: Sequence[subprocess.Popen[str]], timeout: float = 1500) -> list[tuple[int, str, str]]:
    """The exit status of each process, what it said, and its errors."""
    try:
        found = [(*process.communicate(timeout=timeout), process) for process in processes]
        return [(process.returncode, out, err) for out, err, process in found]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
