"""LLVM IR of the rendezvous of devices: barriers that sleep, and pointers that participants leave for each other.

Its memory has, for each collective of a program, a cell for each group of devices and a pointer for each device. A cell
is a barrier: the count of those who are there, and a generation that changes when all are. The generation's sign bit
says that a participant will never come.
"""

from __future__ import annotations

CELL_BYTES = 64
"""A cache line, so that groups do not disturb each other."""

PARTICIPANT_WORDS = 6
"""What a device knows, as 64-bit words: `xloom_rendezvous_wait`, the rendezvous' memory, its number among all, replica,
partition, and how many devices there are."""
WAIT, MEMORY, NUMBER, REPLICA, PARTITION, DEVICES = range(PARTICIPANT_WORDS)

SPINS = 50
"""How often a member looks before it sleeps: a microsecond, as others may need the processor to get here."""


def rendezvous_bytes(collectives: int, devices: int) -> int:
    """The bytes that a rendezvous needs for so many collectives of so many devices."""
    return collectives * devices * (CELL_BYTES + 8)


def rendezvous_ir() -> str:
    """`xloom_rendezvous_wait`, `_break` and `_prepare`; the functions of `host_ir` are in the same module."""
    return f"""
; A device leaves its pointer for collective number %op, and waits for all %size members of its group. 0 when all are
; there, 1 when a participant will never come.
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
  %place = getelementptr ptr, ptr %left, i64 %number
  store ptr %mine, ptr %place
  %generation = load atomic i32, ptr %cell acquire, align 4
  %is.broken = icmp slt i32 %generation, 0
  br i1 %is.broken, label %broken, label %arrive
arrive:
  %before = atomicrmw add ptr %there, i32 1 acq_rel
  %count = add i32 %before, 1
  %size.32 = trunc i64 %size to i32
  %all = icmp eq i32 %count, %size.32
  br i1 %all, label %open, label %watch
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
