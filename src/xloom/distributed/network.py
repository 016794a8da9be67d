"""By which network MPI reaches other machines: a choice that holds where the environment makes none.

MPICH's own choice is UCX, which ends a process that sends to one that has died, and of libfabric the fastest interface,
which may be one that leads to containers only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from xloom.distributed.key_value_store import KeyValueStore, gather
from xloom.errors import DistributedError

_ADDRESS_OF = 0x8915
"""SIOCGIFADDR: which address of IPv4 an interface has."""
_FLAGS_OF = 0x8913
"""SIOCGIFFLAGS: what state an interface is in."""
_RUNS = 0x40
"""IFF_RUNNING: it has found the other end of its wire."""
_AGAIN = 0.01
"""Seconds after which an interface that does not run yet is asked again."""
TRIES = "MPIR_CVAR_CH4_OFI_MAX_EAGAIN_RETRY"
"""The variable that says how often MPI tries to send; without an end to it, a send to who has died never returns."""
_TRIES_A_SECOND = 40_000
"""About."""
_LONGEST = 25
"""Seconds after which a process that takes nothing is dead, however patient others are."""
_DISCARD = 9
"""A port: which one does not matter to a route."""


@dataclass(frozen=True)
class Host:
    """What a process tells of the machine that it runs on."""

    machine: str
    """The same in processes that have memory in common."""
    addresses: Sequence[tuple[str, str]] = ()
    """Interfaces, and their addresses of IPv4."""
    has_rdma: bool = False
    """Whether there is a network that MPI knows better than this module."""


def machine() -> str:
    """What is the same in processes that have memory in common, and no others."""
    boot, memory = Path("/proc/sys/kernel/random/boot_id"), Path("/dev/shm")
    started = boot.read_text().strip() if boot.exists() else ""
    device = memory.stat().st_dev if memory.exists() else 0
    return f"{socket.gethostname()} {started} {device}"


def here() -> Host:
    """This machine."""
    has_rdma = any(Path("/dev/infiniband").glob("uverbs*"))
    return Host(machine(), tuple(_addresses()), has_rdma)


def _addresses() -> Iterator[tuple[str, str]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                found = _asked(asked, _ADDRESS_OF, name)
            except OSError:  # it has none
                continue
            address = socket.inet_ntoa(found[4:8])
            if not address.startswith("127."):
                yield name, address


def _asked(by: socket.socket, question: int, name: str) -> bytes:
    """What Linux says of an interface: a struct ifreq, from what follows the name."""
    return fcntl.ioctl(by, question, struct.pack("256s", name.encode()[:15]))[16:]


def exchange(store: KeyValueStore, process: int, count: int, timeout: float) -> list[Host]:
    """The machines of all processes."""
    return [Host(**fields) for fields in gather(store, "machine", process, count, asdict(here()), timeout)]


def mapping(hosts: Sequence[Host]) -> str:
    """Which processes are on one machine, as MPICH asks: blocks of a node, a number of nodes, and of processes each.

    By itself it compares names of hosts, which machines made from one image have in common."""
    nodes: dict[str, int] = {}
    runs = [
        (nodes.setdefault(machine, len(nodes)), len(list(each)))
        for machine, each in groupby(host.machine for host in hosts)
    ]
    blocks: list[tuple[int, int, int]] = []
    for node, size in runs:
        first, count, before = blocks[-1] if blocks else (0, 0, 0)
        if blocks and (node, size) == (first + count, before):
            blocks[-1] = (first, count + 1, size)
        else:
            blocks.append((node, 1, size))
    return f"(vector,{','.join(f'({first},{count},{size})' for first, count, size in blocks)})"


def tries(patience: float) -> int:
    """How often MPI tries to send before who takes nothing is dead, after some `patience` seconds, or _LONGEST."""
    return round(min(patience, _LONGEST) * _TRIES_A_SECOND)


def choice(hosts: Sequence[Host], process: int, timeout: float) -> dict[str, str]:
    """Variables of the environment by which MPICH and libfabric choose, as MPI begins within `timeout` seconds."""
    if len({host.machine for host in hosts}) == 1 or any(host.has_rdma for host in hosts):
        return {}
    found = {
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        # what has been sent must arrive though the sender computes, and calls nothing of MPI's
        "MPIR_CVAR_CH4_OFI_ENABLE_DATA_AUTO_PROGRESS": "1",
        # the last process may begin much later than the first: until then a process that takes nothing is not dead
        TRIES: str(round(timeout * _TRIES_A_SECOND)),
        "FI_PROVIDER": "tcp",
    }
    name = _interface(hosts, process)
    if not name:
        return found
    _await(name, timeout)
    return {**found, "FI_TCP_IFACE": name}


def _interface(hosts: Sequence[Host], process: int) -> str:
    """That from which packets to another machine leave; empty if none is found."""
    own = hosts[process]
    machines = {host.machine: host for host in hosts}
    counts = Counter(address for host in machines.values() for _, address in host.addresses)
    names = {address: name for name, address in own.addresses if counts[address] == 1}
    for host in machines.values():
        if host.machine == own.machine:
            continue
        for _, address in host.addresses:
            # what several machines have leads to none of them
            if counts[address] == 1 and (source := _source(address)) in names:
                return names[source]
    return ""


def _await(name: str, timeout: float) -> None:
    """Waits until an interface runs: Linux says so up to a second after it is up, and until then MPI has no address
    there, which ends its processes. Raises DistributedError after `timeout` seconds."""
    end = time.monotonic() + timeout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        while not struct.unpack_from("H", _asked(asked, _FLAGS_OF, name))[0] & _RUNS:
            if time.monotonic() > end:
                raise DistributedError(
                    f"{name}, by which other machines are reached, has not run for {timeout:.1f} s",
                    hint="is its cable plugged in? `ip link` says what state it is in",
                )
            time.sleep(_AGAIN)


def _source(address: str) -> str:
    """The address that packets to another one come from; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, _DISCARD))
        except OSError:  # nothing leads there
            return ""
        return asked.getsockname()[0]


@contextmanager
def chosen(variables: dict[str, str]) -> Iterator[Collection[str]]:
    """The environment in which MPI begins, and which variables it has of these; what it says already stays."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield added
    finally:
        for name in added:
            os.environ.pop(name, None)
