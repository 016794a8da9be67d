"""What native code is told of a collective, as structures."""

from __future__ import annotations

from xloom.llvm.struct_layout import StructLayout

RUN = StructLayout(
    "exchange",
    "records",
    "numbers",
    "is_stopped",
    "timeout",
    "error",
    "error_record",
    "error_peer",
    "error_number",
    "waited",
    "their_header",
    "is_open",
)
"""A run of a program. `exchange` is the native function, `records` a table of RECORD's by collective, then by group.

`numbers` counts by process the runs that this one has in common with it. The `error` is one of those below, and that
of peer `error_peer` of a record; `error_number` is MPI's. It `is_open` if MPI may still write to what it computes."""
TIMED_OUT, STOPPED, MPI_FAILED, MISMATCH, PEER_FAILED, NO_MEMORY = range(1, 7)

RECORD = StructLayout(
    "local_size",
    "num_peers",
    "peers",
    "staging",
    "staging_bytes",
    "device",
    "num_pointers",
    "pointers",
    "num_devices",
    "devices",
    "header",
    "requests",
    "owners",
)
"""One collective of one group, as a process sees it: how many members are here and the number of the first `device`,
which processes have others, and what the staging memory is like in which operands arrive that belong nowhere else.
`requests` and `owners` are offsets there."""

PEER = StructLayout(
    "process",
    "rank",
    "tag",
    "data_tag",
    "num_sent",
    "sent",
    "num_received",
    "received",
    "sent_bytes",
    "received_bytes",
    "sends_packed",
    "receives_packed",
    "message_out",
    "message_in",
    "packed_out",
    "packed_in",
    "header_bytes",
    "is_one_way",
    "lane",
    "is_answered",
)
"""What goes to another process, and comes from there. `sent` and `received` are tables of SEGMENT's; the four from
`message_out` on are offsets in the staging memory. `header_bytes` are those of the headers that it is sent: with their
text until one of it has come that fits, which shows that it has the text itself. `is_one_way` if little goes to it and
nothing comes from it, or the reverse; whether this time that `is_answered` depends on the LANE."""

LANE = StructLayout("run", "unanswered")
"""The last run of a program that had messages between two devices (see `Tags`), and how many have gone one way since
both sides had a header of the other."""
UNANSWERED = 32
"""So many messages at most go one way before who sends waits: the other side's memory holds them until it comes."""

SEGMENT = StructLayout("device", "operand", "offset", "nbytes", "count", "stride")
"""Blocks of an operand of a device."""

STAGING = StructLayout("memory", "nbytes")
"""Memory that the members of a group in this process have for what comes from others."""

POINTER_AT = StructLayout("at", "target", "base")
"""The offset in the staging memory of a pointer, and that of what it points to: there, or, where `base` is not 0, from
that of the pointers which the device has left, counted from 1."""
DEVICE_AT = StructLayout("device", "at")
"""A device of another process, and the offset of the table of its operands."""

HEADER = StructLayout("collective", "program", "run", "nbytes", "follow")
"""How a message begins. Within its `nbytes` a text may say what it is, or why the sender's run has failed; so many
messages of data `follow` it at once."""
ENDED = (1 << 64) - 1
"""In place of a collective, in the message that a process takes part in no further run."""
HEADER_BYTES = 512
"""With a text."""
INLINE = 1 << 13
"""So many bytes at most come in the same message as the header, which they are copied for."""
FIRST_BYTES = HEADER_BYTES + INLINE
EAGER = 1 << 16
"""So many bytes at most follow the header at once, as MPI takes them before the other side asks for them; more go when
its header has come."""
LONGEST = 1 << 30
"""Bytes of a message; MPI counts them in 32 bits."""

TURNS = StructLayout("lock", "next", "current")
"""Of the runs of a device: the ticket of the next one that begins, and of that whose turn it is."""
BRIEF = StructLayout("turns", "run", "shared", "processes", "num_processes")
"""A program that the caller's thread runs by itself, time and again with one RUN.

`shared` counts by process the runs of all programs; `processes` are those of this one."""
