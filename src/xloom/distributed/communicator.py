"""MPI, begun by all processes at once; afterwards it moves bytes only."""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from xloom.distributed import library, network, pmi
from xloom.distributed.control_variable import set_control_variable
from xloom.distributed.key_value_store import KeyValueStore, gather
from xloom.errors import DistributedError

# the standard ABI's numbers
COMM_WORLD = 0x101
COMM_SELF = 0x102
BYTE = 0x247
ERRORS_RETURN = 0x143
REQUEST_NULL = 0x180
THREAD_MULTIPLE = 4096
TAG_UB = 501

_SHARED_MEMORY = "/dev/shm/mpich_shm_"
"""How the files begin in which MPICH's processes of a machine have memory in common."""


class Communicator:
    """All processes of the program, numbered as the program numbers them."""

    def __init__(self, handle: int, ranks: tuple[int, ...], most_tag: int):
        self.handle = handle
        self.ranks = ranks
        """MPI's numbers of the processes."""
        self.most_tag = most_tag


def connect(store: KeyValueStore, process: int, count: int, timeout: float, patience: float) -> Communicator:
    """Begins MPI, with all `count` processes, which tell each other through `store` how to be reached within `timeout`
    seconds; later a process of another machine that takes nothing for so many seconds of `patience` is dead.

    Under a launcher that speaks with MPI (mpiexec, srun --mpi=pmi2) it is begun as that says.
    """
    mpi = library.library()
    chosen: Collection[str] | None = None
    if not _is_begun(mpi):
        if pmi.has_launcher():
            _begin(mpi)
            atexit.register(_end)  # launchers take a process that does not for one that has failed
        else:
            hosts = network.exchange(store, process, count, timeout)
            variables = network.choice(hosts, process, timeout)
            mapping = network.mapping(hosts)
            with network.chosen(variables) as chosen, pmi.answering(store, process, mapping, count, timeout):
                _begin(mpi)
    rank, size = ctypes.c_int(), ctypes.c_int()
    world = ctypes.c_void_p(COMM_WORLD)
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    told = gather(store, "mpi", process, count, {"rank": rank.value, "size": size.value}, timeout)
    ranks = tuple(each["rank"] for each in told)
    if sorted(ranks) != list(range(count)) or any(each["size"] != count for each in told):
        raise DistributedError(
            f"there are {count} processes, to which MPI gives ranks {ranks} of {[each['size'] for each in told]}",
            hint="start as many processes with the launcher as the program says that there are, or use no launcher",
        )
    communicator = _duplicate(mpi, world, ranks)
    if chosen is not None:
        gather(store, "mapped", process, count, {}, timeout)
        _remove_names_of_shared_memory()
    if chosen is not None and network.TRIES in chosen:
        set_control_variable(network.TRIES, network.tries(patience))
    return communicator


def _is_begun(mpi: Any) -> bool:
    begun = ctypes.c_int()
    mpi.MPI_Initialized(ctypes.byref(begun))
    if not begun.value:
        return False
    level = ctypes.c_int()
    mpi.MPI_Query_thread(ctypes.byref(level))
    _check_level(level.value)
    return True


def _begin(mpi: Any) -> None:
    level = ctypes.c_int()
    number = mpi.MPI_Init_thread(None, None, ctypes.c_int(THREAD_MULTIPLE), ctypes.byref(level))
    if number:
        hint = "are all processes started by one mpiexec, or with one coordinator? docs/distributed.md says how"
        raise DistributedError(f"MPI cannot begin: {error_text(number)}", hint=hint)
    _check_level(level.value)
    # what MPI says of no communicator is raised on one of these, where it ends the process unless told otherwise
    for handle in (COMM_WORLD, COMM_SELF):
        mpi.MPI_Comm_set_errhandler(ctypes.c_void_p(handle), ctypes.c_void_p(ERRORS_RETURN))


def _remove_names_of_shared_memory() -> None:
    """All have it mapped: it goes with the last of them, though none ends MPI, which would take its name away."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for name in {line.split()[-1] for line in lines if _SHARED_MEMORY in line}:
        Path(name).unlink(missing_ok=True)


def _end() -> None:
    """Ends MPI, unless somebody has: waits until all processes do."""
    mpi, ended = library.library(), ctypes.c_int()
    mpi.MPI_Finalized(ctypes.byref(ended))
    if not ended.value:
        mpi.MPI_Finalize()


def _check_level(level: int) -> None:
    if level < THREAD_MULTIPLE:
        raise DistributedError(
            f"this MPI serves one thread at a time (level {level}), and devices have a thread each",
            hint="ask for MPI_THREAD_MULTIPLE where MPI is begun",
        )


def _duplicate(mpi: Any, world: ctypes.c_void_p, ranks: tuple[int, ...]) -> Communicator:
    handle = ctypes.c_void_p()
    number = mpi.MPI_Comm_dup(world, ctypes.byref(handle))
    if number or handle.value is None:
        hint = "start all processes again: MPI cannot be used further after an error"
        raise DistributedError(f"MPI gives no communicator: {error_text(number)}", hint=hint)
    mpi.MPI_Comm_set_errhandler(handle, ctypes.c_void_p(ERRORS_RETURN))
    value, is_set = ctypes.POINTER(ctypes.c_int)(), ctypes.c_int()
    mpi.MPI_Comm_get_attr(handle, ctypes.c_int(TAG_UB), ctypes.byref(value), ctypes.byref(is_set))
    return Communicator(handle.value, ranks, value.contents.value if is_set.value else (1 << 15) - 1)


def error_text(number: int) -> str:
    """What MPI says of an error."""
    text, size = ctypes.create_string_buffer(512), ctypes.c_int()
    library.library().MPI_Error_string(ctypes.c_int(number), text, ctypes.byref(size))
    return text.value.decode("utf-8", "replace") or f"error {number}"


@lru_cache(maxsize=1)
def addresses() -> dict[str, int]:
    """The functions that native code calls."""
    names = ("MPI_Isend", "MPI_Irecv", "MPI_Test", "MPI_Cancel", "MPI_Request_free", "MPI_Improbe", "MPI_Mrecv")
    mpi = library.library()
    return {name: ctypes.cast(getattr(mpi, name), ctypes.c_void_p).value or 0 for name in names}
