"""LLVM IR of turns: the runs of a device's programs follow each other, in whichever thread each of them is.

A run takes a ticket in the moment in which it gets its number, and has its turn when those before it have ended. So the
caller's thread may run a program by itself where nothing else is under way, and no run overtakes another one.
"""

from __future__ import annotations

from xloom.distributed.records import BRIEF, RUN, TURNS


def turns_ir() -> str:
    """`xloom_turn_try`, `_take`, `_wait` and `_end`; the functions of `host_ir` are in the same module."""
    return f"""
define internal void @lock_turns(ptr %turns) {{
entry:
  br label %look
look:
  %seen = cmpxchg ptr %turns, i64 0, i64 1 acquire monotonic
  %is.locked = extractvalue {{ i64, i1 }} %seen, 1
  br i1 %is.locked, label %locked, label %yield
yield:
  call i32 @sched_yield()
  br label %look
locked:
  ret void
}}

; Another run with %n processes: counts it in what is %shared by all runs, and notes the numbers as the run's own.
define internal void @count_run(ptr %shared, ptr %own, ptr %processes, i64 %n) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %process ]
  %are.left = icmp ult i64 %k, %n
  br i1 %are.left, label %process, label %end
process:
  %process.place = getelementptr i64, ptr %processes, i64 %k
  %p = load i64, ptr %process.place
  %shared.place = getelementptr i64, ptr %shared, i64 %p
  %own.place = getelementptr i64, ptr %own, i64 %p
  %before = load i64, ptr %shared.place
  %number = add i64 %before, 1
  store i64 %number, ptr %shared.place
  store i64 %number, ptr %own.place
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}}

; The next run: its ticket, if it waits for its turn and %tickets is 1.
define i64 @xloom_turn_take(ptr %turns, ptr %shared, ptr %own, ptr %processes, i64 %n, i64 %tickets) {{
  call void @lock_turns(ptr %turns)
  %next.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("next")}
  %ticket = load i64, ptr %next.place
  %next = add i64 %ticket, %tickets
  store i64 %next, ptr %next.place
  call void @count_run(ptr %shared, ptr %own, ptr %processes, i64 %n)
  store atomic i64 0, ptr %turns release, align 8
  ret i64 %ticket
}}

; Begin a brief run, unless another one is under way or waits, or a process is gone: whether it has begun.
define i32 @xloom_turn_try(ptr %brief) {{
entry:
  %turns.place = getelementptr i8, ptr %brief, i64 {BRIEF.offset("turns")}
  %turns = load ptr, ptr %turns.place
  %run.place = getelementptr i8, ptr %brief, i64 {BRIEF.offset("run")}
  %run = load ptr, ptr %run.place
  call void @lock_turns(ptr %turns)
  %stop.place = getelementptr i8, ptr %run, i64 {RUN.offset("is_stopped")}
  %stop = load atomic i64, ptr %stop.place monotonic, align 8
  %goes = icmp eq i64 %stop, 0
  %next.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("next")}
  %ticket = load i64, ptr %next.place
  %current.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("current")}
  %current = load atomic i64, ptr %current.place acquire, align 8
  %is.idle = icmp eq i64 %ticket, %current
  %begins = and i1 %goes, %is.idle
  br i1 %begins, label %begin, label %done
begin:
  %next = add i64 %ticket, 1
  store i64 %next, ptr %next.place
  %shared.place = getelementptr i8, ptr %brief, i64 {BRIEF.offset("shared")}
  %shared = load ptr, ptr %shared.place
  %own.place = getelementptr i8, ptr %run, i64 {RUN.offset("numbers")}
  %own = load ptr, ptr %own.place
  %processes.place = getelementptr i8, ptr %brief, i64 {BRIEF.offset("processes")}
  %processes = load ptr, ptr %processes.place
  %n.place = getelementptr i8, ptr %brief, i64 {BRIEF.offset("num_processes")}
  %n = load i64, ptr %n.place
  call void @count_run(ptr %shared, ptr %own, ptr %processes, i64 %n)
  br label %done
done:
  %has.begun = zext i1 %begins to i32
  store atomic i64 0, ptr %turns release, align 8
  ret i32 %has.begun
}}

define void @xloom_turn_wait(ptr %turns, i64 %ticket) {{
entry:
  %current.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("current")}
  br label %look
look:
  %current = load atomic i64, ptr %current.place acquire, align 8
  %is.current = icmp eq i64 %current, %ticket
  br i1 %is.current, label %done, label %rest
rest:
  %low = trunc i64 %current to i32
  call void @sleep(ptr %current.place, i32 %low)
  br label %look
done:
  ret void
}}

; The run whose turn it is has ended.
define void @xloom_turn_end(ptr %turns) {{
  %current.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("current")}
  %before = atomicrmw add ptr %current.place, i64 1 seq_cst
  %now = add i64 %before, 1
  %next.place = getelementptr i8, ptr %turns, i64 {TURNS.offset("next")}
  %next = load atomic i64, ptr %next.place seq_cst, align 8
  %is.last = icmp eq i64 %next, %now
  br i1 %is.last, label %done, label %others
others:
  call void @wake_all(ptr %current.place)
  br label %done
done:
  ret void
}}
"""
