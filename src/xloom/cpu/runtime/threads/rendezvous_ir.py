"""LLVM IR of the rendezvous of devices: barriers that sleep, and pointers that participants leave for each other.

Its memory has, for each collective of a program, a cell for each group of devices and a pointer for each device. A cell
is a barrier: the count of those who are there, and a generation that changes when all are. The generation's sign bit
says that a participant will never come.
"""

from __future__ import annotations

CELL_BYTES = 64
"""A cache line, so that groups do not disturb each other."""

PARTICIPANT_WORDS = 7
"""What a device knows, as 64-bit words: `xloom_rendezvous_wait`, the rendezvous' memory, its number among all, replica,
partition, how many devices there are, and the run among several processes, or 0."""
WAIT, MEMORY, NUMBER, REPLICA, PARTITION, DEVICES, RUN = range(PARTICIPANT_WORDS)

EXCHANGE, RECORDS = range(2)
"""Of a run among several processes: a function `i32 (run, record, pointers)` that brings here what members in other
processes have, and says 0; and a table of records by collective, then by group, whose first word is how many members
are in this process."""

SPINS = 50
"""How often a member looks before it sleeps: a microsecond, as others may need the processor to get here."""


def rendezvous_bytes(collectives: int, devices: int) -> int:
    """The bytes that a rendezvous needs for so many collectives of so many devices."""
    return collectives * devices * (CELL_BYTES + 8)


def rendezvous_ir() -> str:
    """`xloom_rendezvous_wait`, `_break` and `_prepare`; the functions of `host_ir` are in the same module."""
    return f"""
; A device leaves its pointer for collective number %op, if it has one, and waits for all %size members of its group. 0
; when all are there, 1 when a participant will never come. The last of those who leave a pointer, where members are in
; other processes, gets theirs.
define i32 @xloom_rendezvous_wait(ptr %participant, i64 %op, i64 %group, i64 %size, ptr %mine) {{
entry:
  %memory.place = getelementptr i64, ptr %participant, i64 {MEMORY}
  %memory = load ptr, ptr %memory.place
  %number.place = getelementptr i64, ptr %participant, i64 {NUMBER}
  %number = load i64, ptr %number.place
  %devices.place = getelementptr i64, ptr %participant, i64 {DEVICES}
  %devices = load i64, ptr %devices.place
  %row = mul i64 %devices, {CELL_BYTES + 8}
  %start = mul i64 %op, %row
  %cells = getelementptr i8, ptr %memory, i64 %start
  %cell.at = mul i64 %group, {CELL_BYTES}
  %cell = getelementptr i8, ptr %cells, i64 %cell.at
  %there = getelementptr i8, ptr %cell, i64 4
  %left.at = mul i64 %devices, {CELL_BYTES}
  %left = getelementptr i8, ptr %cells, i64 %left.at
  %run.place = getelementptr ptr, ptr %participant, i64 {RUN}
  %run = load ptr, ptr %run.place
  %is.alone = icmp eq ptr %run, null
  %leaves = icmp eq ptr %mine, null
  br i1 %is.alone, label %known, label %some
some:
  %records.place = getelementptr ptr, ptr %run, i64 {RECORDS}
  %records = load ptr, ptr %records.place
  %records.op = mul i64 %op, %devices
  %record.number = add i64 %records.op, %group
  %record.place = getelementptr ptr, ptr %records, i64 %record.number
  %record = load ptr, ptr %record.place
  %here = load i64, ptr %record
  br label %known
known:
  %members = phi i64 [ %size, %entry ], [ %here, %some ]
  %of.others = phi ptr [ null, %entry ], [ %record, %some ]
  br i1 %leaves, label %look.first, label %leave
leave:
  %place = getelementptr ptr, ptr %left, i64 %number
  store ptr %mine, ptr %place
  br label %look.first
look.first:
  %generation = load atomic i32, ptr %cell acquire, align 4
  %is.broken = icmp slt i32 %generation, 0
  br i1 %is.broken, label %broken, label %enter
enter:
  %stays.here = icmp eq ptr %of.others, null
  %opens = or i1 %stays.here, %leaves
  %is.one = icmp eq i64 %members, 1
  br i1 %is.one, label %only, label %arrive
only: ; no other thread of this process watches the cell
  br i1 %opens, label %met, label %exchange
arrive:
  %before = atomicrmw add ptr %there, i32 1 acq_rel
  %count = add i32 %before, 1
  %members.32 = trunc i64 %members to i32
  %all = icmp eq i32 %count, %members.32
  br i1 %all, label %last, label %watch
last:
  br i1 %opens, label %open, label %exchange
exchange:
  %function.place = getelementptr ptr, ptr %run, i64 {EXCHANGE}
  %function = load ptr, ptr %function.place
  %failed = call i32 %function(ptr %run, ptr %of.others, ptr %left)
  %is.here = icmp eq i32 %failed, 0
  br i1 %is.here, label %here.all, label %broken
here.all:
  br i1 %is.one, label %met, label %open
open:
  store atomic i32 0, ptr %there monotonic, align 4
  %old = atomicrmw add ptr %cell, i32 1 release
  call void @wake_all(ptr %cell)
  %was.broken = icmp slt i32 %old, 0
  br i1 %was.broken, label %broken, label %met
watch:
  %turn = phi i32 [ 0, %arrive ], [ %turn.next, %again ]
  call void @pause()
  %seen = load atomic i32, ptr %cell acquire, align 4
  %same = icmp eq i32 %seen, %generation
  br i1 %same, label %again, label %look
again:
  %turn.next = add i32 %turn, 1
  %more = icmp ult i32 %turn.next, {SPINS}
  br i1 %more, label %watch, label %rest
rest:
  call void @sleep(ptr %cell, i32 %generation)
  br label %look
look:
  %now.there = load atomic i32, ptr %cell acquire, align 4
  %still = icmp eq i32 %now.there, %generation
  br i1 %still, label %rest, label %changed
changed:
  %passed = and i32 %now.there, 2147483647
  %only.broken = icmp eq i32 %passed, %generation
  br i1 %only.broken, label %broken, label %met
met:
  ret i32 0
broken:
  ret i32 1
}}

; Once, before anybody waits.
define void @xloom_rendezvous_prepare() {{
  call void @prepare_sleep()
  ret void
}}

; Tell all who wait in the rendezvous' cells, a row of %devices cells a collective, and all who come, that it is over.
define void @xloom_rendezvous_break(ptr %memory, i64 %collectives, i64 %devices) {{
entry:
  %row = mul i64 %devices, {CELL_BYTES + 8}
  br label %next.row
next.row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.done ]
  %rows.left = icmp ult i64 %r, %collectives
  br i1 %rows.left, label %next.cell, label %done
next.cell:
  %c = phi i64 [ 0, %next.row ], [ %c.next, %mark ]
  %cells.left = icmp ult i64 %c, %devices
  br i1 %cells.left, label %mark, label %row.done
mark:
  %row.at = mul i64 %r, %row
  %cell.at = mul i64 %c, {CELL_BYTES}
  %at = add i64 %row.at, %cell.at
  %cell = getelementptr i8, ptr %memory, i64 %at
  atomicrmw or ptr %cell, i32 -2147483648 release
  call void @wake_all(ptr %cell)
  %c.next = add i64 %c, 1
  br label %next.cell
row.done:
  %r.next = add i64 %r, 1
  br label %next.row
done:
  ret void
}}
"""
