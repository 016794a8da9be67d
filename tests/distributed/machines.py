"""Several machines on this one: namespaces with an address and memory of their own, and wires between.

They are as if made from one image: all have the same host name, and the same address in a network of containers. What a machine runs, its interfaces and its files in /dev/shm are gone when the `with` ends, or the process that made it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv")
_NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")
_LIMIT = 60.0
"""Seconds that a command may take."""


def why_not() -> str:
    """Why machines cannot be made here; empty if they can."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {missing[0]}, by which machines are simulated"
    made = subprocess.run(
        ["unshare", *_NAMESPACES, "--fork", "ip", "link", "add", "wire0", "type", "veth", "peer", "name", "wire1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT,
    )
    return f"no namespaces for networks here: {made.stderr.strip()}" if made.returncode else ""


class Machine:
    """One machine: a process that keeps its namespaces, until its input ends."""

    def __init__(self, setup: str):
        """`setup` is what its shell runs at first."""
        self._keeper = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc", "sh", "-ec"]
            + [f"{setup}\necho ready\nexec cat >/dev/null"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._keeper.stdout is not None
        said = self._keeper.stdout.readline()
        if said != "ready\n":
            self.close()
            raise OSError(f"no machine: {said}")
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text()
        self.process = int(children)

    def command(self, *command: str) -> list[str]:
        """What runs a command there; it ends with who has started it."""
        enter = ["nsenter", "--target", str(self.process), *_NAMESPACES, f"--wd={os.getcwd()}"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *command]

    def wire(self, *command: str) -> str:
        """What `ip` or `tc` says, run on its interfaces."""
        enter = ["nsenter", "--target", str(self.process), "--net"]
        return subprocess.run([*enter, *command], check=True, capture_output=True, text=True, timeout=_LIMIT).stdout

    def close(self) -> None:
        """Ends all that runs there."""
        self._keeper.kill()
        self._keeper.communicate()


class Network:
    """Machines at 10.77.0.1, 10.77.0.2..., each with one wire to a switch."""

    def __init__(self, switch: Machine, machines: Sequence[Machine]):
        self._switch, self.machines = switch, machines
        switch.wire("ip", "link", "add", "bridge", "type", "bridge")
        switch.wire("ip", "link", "set", "bridge", "up")
        for k, machine in enumerate(machines):
            ends = (f"wire{k}", "type", "veth", "peer", "name", "eth0", "netns", str(machine.process))
            switch.wire("ip", "link", "add", *ends)
            switch.wire("ip", "link", "set", f"wire{k}", "master", "bridge", "up")
            machine.wire("ip", "address", "add", f"{self.address(k)}/24", "dev", "eth0")
            machine.wire("ip", "link", "set", "eth0", "up")
            machine.wire("ip", "link", "set", "lo", "up")

    @staticmethod
    def address(number: int) -> str:
        """Of a machine."""
        return f"10.77.0.{number + 1}"

    def cut(self, number: int) -> None:
        """Unplugs a machine's wire."""
        self._switch.wire("ip", "link", "set", f"wire{number}", "down")

    def mend(self, number: int) -> None:
        """Plugs it in again."""
        self._switch.wire("ip", "link", "set", f"wire{number}", "up")

    def limit(self, number: int, rate: str, waiting: str) -> None:
        """What comes to a machine comes no faster; what would have to wait for longer is lost."""
        queue = ("tbf", "rate", rate, "burst", "64kb", "latency", waiting)
        self._switch.wire("tc", "qdisc", "replace", "dev", f"wire{number}", "root", *queue)

    def counts(self, number: int) -> dict[str, int]:
        """What came through the limit of a machine: `bytes`, and how many packets were lost, `drops`."""
        return json.loads(self._switch.wire("tc", "-s", "-j", "qdisc", "show", "dev", f"wire{number}"))[0]

    def free(self, number: int) -> None:
        """Takes the limit away."""
        self._switch.wire("tc", "qdisc", "delete", "dev", f"wire{number}", "root")


_SETUP = """
hostname {name}
mount -t tmpfs tmpfs /dev/shm
mount --bind {folder}/boot_id /proc/sys/kernel/random/boot_id
mount --bind {folder}/hosts /etc/hosts
ip link add container type veth peer name docker0
ip address add 172.17.0.1/16 dev docker0
ip link set docker0 up
ip link set container up
# who has sent into a network that was down tries again each second, where Linux can be told so
! test -e /proc/sys/net/ipv4/tcp_rto_max_ms || echo 1000 >/proc/sys/net/ipv4/tcp_rto_max_ms
"""
_NAME = "machine"


@contextmanager
def network(count: int) -> Iterator[Network]:
    """So many machines with a network."""
    with ExitStack() as stack:

        def machine(setup: str) -> Machine:
            made = Machine(setup)
            stack.callback(made.close)
            return made

        def numbered(number: int) -> Machine:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")  # by which programs tell machines apart
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{Network.address(number)} {_NAME}\n")
            return machine(_SETUP.format(name=_NAME, folder=folder))

        yield Network(machine("hostname switch"), [numbered(k) for k in range(count)])
