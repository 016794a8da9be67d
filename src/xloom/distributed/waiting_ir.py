"""LLVM IR that waits for a message: looks a few times, then gives the processor away, then sleeps between looks."""

from __future__ import annotations

from xloom.distributed.failures_ir import FACTOR
from xloom.distributed.records import MPI_FAILED, PEER_FAILED, RUN, STOPPED, TIMED_OUT
from xloom.distributed.struct_ir import field

LOOKS = 16
"""How often who waits looks without a pause, some 2 microseconds: whom it waits for may need this processor."""
CHECKED = 64
"""At every so many looks it asks the time, and whether a process has failed."""
YIELDING = 2_000_000
"""Nanoseconds after which who waits sleeps between looks; until then it only gives the processor away."""
PER_BYTE = 10
"""So many nanoseconds more for each byte that is under way: MPI moves these on only when it is called."""
LONG = 100_000_000
"""Nanoseconds after which the sleeps are long."""
SHORT_SLEEP, LONG_SLEEP = 50_000, 1_000_000
"""Nanoseconds."""
STANDSTILL = 250_000_000
"""So many nanoseconds at most pass between two looks, unless the process or its machine has stood still: more than that
is no patience of the process, as the others may have stood still with it."""


def waiting_ir() -> str:
    """`wait_for`."""
    return f"""
declare i64 @llvm.umin.i64(i64, i64)

; Nanoseconds since *%start as far as the process ran; those at the last look are *%looked, or -1 before the first one.
define internal i64 @waited_awake(ptr %start, ptr %looked) {{
  %total = call i64 @waited(ptr %start)
  %before = load i64, ptr %looked
  %is.first = icmp slt i64 %before, 0
  %since = select i1 %is.first, i64 %total, i64 %before
  %gap = sub i64 %total, %since
  %ran = call i64 @llvm.umin.i64(i64 %gap, i64 {STANDSTILL})
  %still = sub i64 %gap, %ran
  %began = load i64, ptr %start
  %later = add i64 %began, %still
  store i64 %later, ptr %start
  %awake = sub i64 %total, %still
  store i64 %awake, ptr %looked
  ret i64 %awake
}}

; Wait for a request: 0, or an error; that a peer has failed is PEER_FAILED and {FACTOR} times
; its number from 1 on. Since when it waits is at %start, or 0 is there before that had to be known. It does not sleep
; before nanosecond %awake of that.
define internal i64 @wait_for(ptr %run, ptr %record, ptr %request, ptr %start, i64 %awake) {{
entry:
  %flag = alloca i32
  %sleep = alloca [2 x i64]
  %looked = alloca i64
  store i64 -1, ptr %looked
  store i64 0, ptr %sleep
  %sleep.nanoseconds = getelementptr i64, ptr %sleep, i64 1
  br label %test
test:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %again ]
  %sleeps = phi i1 [ false, %entry ], [ %sleeps.next, %again ]
  store i32 0, ptr %flag
  %number = call i32 @MPI_Test(ptr %request, ptr %flag, ptr null)
  %failed = icmp ne i32 %number, 0
  br i1 %failed, label %error, label %look
look:
  %set = load i32, ptr %flag
  %is.done = icmp ne i32 %set, 0
  br i1 %is.done, label %done, label %pace
pace:
  %turn.next = add i64 %turn, 1
  %is.early = icmp ult i64 %turn.next, {LOOKS}
  br i1 %is.early, label %spin, label %later
spin:
  call void @pause()
  br label %again
later:
  %place = and i64 %turn.next, {CHECKED - 1}
  %is.due = icmp eq i64 %place, 0
  %is.checked = or i1 %is.due, %sleeps
  br i1 %is.checked, label %check, label %yield
check:
  %stop.place = getelementptr i8, ptr %run, i64 {RUN.offset("is_stopped")}
  %stop = load atomic i64, ptr %stop.place monotonic, align 8
  %is.stopped = icmp ne i64 %stop, 0
  br i1 %is.stopped, label %stopped, label %clock
clock:
  %waited = call i64 @waited_awake(ptr %start, ptr %looked)
{field("timeout", "run", RUN, "timeout")}
  %is.late = icmp ugt i64 %waited, %timeout
  br i1 %is.late, label %late, label %ask
ask:
  %broken = call i64 @failed_peer(ptr %run, ptr %record)
  %are.well = icmp slt i64 %broken, 0
  br i1 %are.well, label %rest, label %peer.failed
rest:
  %is.short = icmp ult i64 %waited, %awake
  br i1 %is.short, label %yield, label %nap
yield:
  call i32 @sched_yield()
  br label %again
nap:
  %asleep = sub i64 %waited, %awake
  %is.long = icmp ugt i64 %asleep, {LONG}
  %length = select i1 %is.long, i64 {LONG_SLEEP}, i64 {SHORT_SLEEP}
  store i64 %length, ptr %sleep.nanoseconds
  call i32 @nanosleep(ptr %sleep, ptr null)
  br label %again
again:
  %sleeps.next = phi i1 [ false, %spin ], [ false, %yield ], [ true, %nap ]
  br label %test
done:
  ret i64 0
error:
  call void @note_number(ptr %run, i32 %number)
  ret i64 {MPI_FAILED}
stopped:
  ret i64 {STOPPED}
peer.failed:
  %whose.place = add i64 %broken, 1
  %whose = mul i64 %whose.place, {FACTOR}
  %which = add i64 %whose, {PEER_FAILED}
  ret i64 %which
late:
  ret i64 {TIMED_OUT}
}}
"""
