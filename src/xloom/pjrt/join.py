"""Joining other processes. Nothing imports this until there are some."""

from __future__ import annotations

import atexit
import uuid

from xloom.cpu.runtime.threads.pool import pool
from xloom.distributed import communicator, library
from xloom.distributed.key_value_store import KeyValueStore
from xloom.distributed.network import machine
from xloom.distributed.processor_share import processor_share
from xloom.distributed.run import Processes
from xloom.distributed.timeout import seconds
from xloom.distributed.topology import LocalTopology, exchange_topology
from xloom.environment import NUM_THREADS
from xloom.pjrt.process_topology import ProcessTopology
from xloom.process_identity import ProcessIdentity, identify
from xloom.thread_count import usable_processors

START = 300.0
"""Seconds in which all processes must have begun, as many as JAX gives them."""


def join(store: KeyValueStore, platform: str, process: int, count: int, devices: int) -> ProcessTopology:
    """This process as one of `count`, all of which join. Raises DistributedError if they do not in time."""
    local = LocalTopology(devices, library.find().why_not, machine(), usable_processors())
    told = exchange_topology(store, platform, process, count, local, START)
    if not NUM_THREADS.text:
        pool().limit(processor_share(told, process))  # more threads would wait for other processes' to leave
    counts = [each.devices for each in told]
    if not process:
        store.put(f"run/{platform}", uuid.uuid4().hex)
    identify(ProcessIdentity(process, count, store.get(f"run/{platform}", START)))
    for number, each in enumerate(told):
        if each.why_no_mpi:
            return ProcessTopology(process, counts, why_not=f"process {number} has no MPI: {each.why_no_mpi}")
    patience = seconds()
    connected = Processes(communicator.connect(store, process, count, START, patience), process, patience, counts)
    atexit.register(connected.leave)
    return ProcessTopology(process, counts, connected)
