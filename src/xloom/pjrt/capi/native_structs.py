"""Layouts of the native run time's structures, whose fields have eight bytes each and are found by name."""

from __future__ import annotations

from xloom.llvm.struct_layout import StructLayout

PREFIX = "xloom_pjrt_"
"""What the names of the plugin's native functions start with."""

BUFFER = StructLayout("device", "memory", "type", "dims", "num_dims", "nbytes", "is_host", "itemsize", "layout")
"""What all buffers of one shape in one memory share."""

LAYOUT = StructLayout("text", "size", "deleter")
"""How arrays lie in memory, as HLO text writes it: its handle is the address."""

CELL = StructLayout("record", "lock", "state", "storage", "data", "external", "event", "next")
"""A buffer: its handle is the address. `external` counts the references to its array from outside.

`event` is that of the run that makes the array, if Python's thread does. `next` chains destroyed cells.
"""
HAS_DATA, DELETED, IN_PYTHON = 1, 2, 4
"""The flags of a cell's state: its array is there, it was deleted, and there is a `Buffer` of Python's for it."""

STORAGE = StructLayout("references", "kind", "owner", "raw", "nbytes", "next")
"""The memory of an array, which several cells and Python's arrays may refer to.

`nbytes` are those of an array that follows, else 0. `raw` is what `free` is given of a smaller one than MAPPED_BYTES;
`next` chains larger ones that are kept for later arrays.
"""
MAPPED_BYTES = 1 << 16
"""Bytes of an array that is mapped by itself and kept: malloc gives smaller ones again with their pages."""
OWN, LENT, OF_PYTHON, GIVEN = range(4)
"""Kinds of storage: the array follows; it is the host's, and `owner` the event for its end; `owner` is an object; it is
one that nothing else refers to, so that results may lie in its memory."""
DATA_OFFSET = 64
"""Where the array follows a storage's fields, and how it is aligned."""

EVENT = StructLayout("references", "lock", "is_done", "waiting", "error", "is_asked")
"""`error` is Python's handle of what went wrong, or 0; `is_asked`, whether a caller asks for a result of the run."""
WAITING = StructLayout("function", "user", "next")
"""A callback of an event."""
READY = 16
"""The handle of an event that is ready, without an error."""
NATIVE_EVENT = 8
"""Added to the address of an EVENT in its handle; handles of Python's futures are multiples of 16."""

EXECUTABLE = StructLayout("num_replicas", "num_partitions", "num_outputs", "name", "name_size")
"""What C programs ask of each executable."""

PLAN = StructLayout(
    "is_native",
    "is_watched",
    "main",
    "constants",
    "arena",
    "num_devices",
    "num_arguments",
    "num_results",
    "num_donated",
    "arguments",
    "results",
    "participant",
    "begin",
    "brief",
    "end",
    "turns",
)
"""A loaded executable on one of its devices; those of all lie together, and the first one's address is its handle.

Unless `is_native`, which the first says for all, Python runs it. One that is watched is not native after a run of LONG.

`participant` is a further argument of programs of several devices. The last four are of one between processes: the
functions that begin and end a run where none is under way, and what these are told."""
TOOK_LONG = 2
"""`is_watched` of a program after such a run."""
ARGUMENT = StructLayout("record", "is_donated")
RESULT = StructLayout("record", "nbytes", "donated_argument")
"""`donated_argument` is the number of the argument whose memory the result may take, or -1."""

USER_DATA = 4
"""How many keys with data a memory has room for."""
MEMORY = StructLayout(
    "vtable",
    "id",
    "kind_id",
    "kind",
    "kind_size",
    *(f"{w}{k}" for k in range(USER_DATA) for w in ("key", "data")),
)
"""A memory: its handle is the address."""
