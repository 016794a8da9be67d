"""LLVM IR that finds out which short programs, and passes of loops, one thread does faster as a whole.

A step that two threads share leaves half of what it writes in the other core's cache, from where each line takes longer
than its own thread saved, if a step that one thread does reads it next: a sort, a scatter, small factors. The trials of
steps see none of it; where cores are far apart, those of a loop find that each waits for the others. So short programs
are timed both ways, too, now and again, and short passes of a loop are as programs are.
"""

from __future__ import annotations

from xloom.cpu.runtime.threads.record_ir import Record

BEGIN_RUN, BEGIN_PASS, END_RUN = "xloom_begin_run", "xloom_begin_pass", "xloom_end_run"
"""What programs call, and passes of their loops; the last gets what the first returned."""
PROGRAMS = 256
"""Programs that are remembered. Of two with one place, each is found out anew when it follows the other."""
SHORT_NS = 5_000_000
"""Programs that take longer are shared: trials would cost more, and lines between caches little."""
FIRST_RUNS = 24
"""Runs before the first trial, in which steps have theirs, and in which most programs have ended."""
WARM_RUNS = 3
"""Each way is tried that often before it is timed: data move to the caches of those who read it."""
TIMED_RUNS = 16
TIMED_NS = 60_000
"""Then so often, and at least that long."""
CLEARLY = 5, 4
"""Times what a program takes shared: if its first runs alone all take longer, the trial is over."""
GAIN = 31, 32
"""Of the time shared, what running alone must come below."""
REST_NS, REST_RUNS = 400_000_000, 384
"""Rests between trials are twice as long each time, until they take so long and so many runs."""
REACH = 1 << 20
"""Bytes between the frames of a program and of what it calls, at most: stacks of other threads are farther away."""

_SETTLED, _SHARED, _ALONE = range(3)
_RECORD = Record("Program", "program", ("key", "stage", "alone", "left", "rest", "runs", "sum", "least", "shared"))
_FIELDS, _load, _store = _RECORD.fields, _RECORD.load, _RECORD.store


def program_autotuning_ir(finds_out: bool) -> str:
    """`BEGIN_RUN` and `END_RUN` of a program, and `@runs_alone` whether one does that calls this.

    None does unless this `finds_out`. Needs `@added` of the trials of steps.
    """
    begun = "\n  ".join(
        _store(str(value), field, field)
        for field, value in {"alone": 0, "stage": _SETTLED, "left": FIRST_RUNS, "rest": FIRST_RUNS}.items()
    )
    return f"""
{_RECORD.declaration}
; The frame of a program that one thread does, or null.
@lonely = internal global ptr null, align 128

declare ptr @llvm.frameaddress.p0(i32)

{_RECORD.table(PROGRAMS)}

; Where is remembered what is known of a program; of a new one nothing.
define internal ptr @program(ptr %main) {{
  %key = ptrtoint ptr %main to i64
  {_RECORD.found(PROGRAMS, begun)}
}}

; Begin to run a program one way.
define internal void @try_program(ptr %program, i64 %stage) {{
  {_store("0", "runs", "runs")}
  {_store("0", "sum", "sum")}
  {_store(str((1 << 63) - 1), "least", "least")}
  {_store("%stage", "stage", "stages")}
  ret void
}}

; Whether one thread is to do this run, and whether it is part of a trial.
define internal {{ i1, i1 }} @alone(ptr %program) {{
  {_load("stage", "stage")}
  %is.settled = icmp eq i64 %stage, {_SETTLED}
  br i1 %is.settled, label %settled, label %trial
trial:
  %second = icmp eq i64 %stage, {_ALONE}
  %tried = insertvalue {{ i1, i1 }} {{ i1 false, i1 true }}, i1 %second, 0
  ret {{ i1, i1 }} %tried
settled:
  {_load("left", "left")}
  %fewer = sub i64 %left, 1
  store atomic i64 %fewer, ptr %left.place monotonic, align 8
  %over = icmp slt i64 %fewer, 0
  br i1 %over, label %again, label %known
again:
  call void @try_program(ptr %program, i64 {_SHARED})
  br label %known
known:
  {_load("found", "alone")}
  %is.alone = icmp ne i64 %found, 0
  %how = insertvalue {{ i1, i1 }} zeroinitializer, i1 %is.alone, 0
  ret {{ i1, i1 }} %how
}}

; From now on a program runs that way; a run took so long.
define internal void @settle(ptr %program, i64 %alone, i64 %time) {{
  {_store("%alone", "alone", "alone.to")}
  {_load("rest", "rest")}
  {_store("%rest", "left", "left")}
  %twice = mul i64 %rest, 2
  %lasts = mul i64 %rest, %time
  %is.brief = icmp ult i64 %lasts, {REST_NS}
  %are.few = icmp ult i64 %rest, {REST_RUNS}
  %grows = or i1 %is.brief, %are.few
  %longer = select i1 %grows, i64 %twice, i64 %rest
  store atomic i64 %longer, ptr %rest.place monotonic, align 8
  {_store(str(_SETTLED), "stage", "stage")}
  ret void
}}

; A run of a trial took so long.
define internal void @note_run(ptr %program, i64 %time) {{
  {_load("stage", "stage")}
  %is.shared = icmp eq i64 %stage, {_SHARED}
  {_load("shared", "shared")}
  {_load("earlier", "runs")}
  %runs = add i64 %earlier, 1
  store atomic i64 %runs, ptr %earlier.place monotonic, align 8
  %is.warm = icmp ugt i64 %runs, {WARM_RUNS}
  br i1 %is.warm, label %count, label %heat
heat:
  {_load("shortest", "least")}
  %shorter = call i64 @llvm.umin.i64(i64 %shortest, i64 %time)
  store atomic i64 %shorter, ptr %shortest.place monotonic, align 8
  %is.last = icmp eq i64 %runs, {WARM_RUNS}
  br i1 %is.last, label %judge, label %leave
judge:
  store atomic i64 {(1 << 63) - 1}, ptr %shortest.place monotonic, align 8
  %their.most = mul i64 %shared, {CLEARLY[0]}
  %its.least = mul i64 %shorter, {CLEARLY[1]}
  %is.slow = icmp ugt i64 %its.least, %their.most
  %is.alone = xor i1 %is.shared, true
  %is.clear = and i1 %is.alone, %is.slow
  br i1 %is.clear, label %share, label %leave
count:
  %sum = call i64 @added(ptr %program, i64 {_FIELDS.index("sum")}, i64 %time)
  %timed = sub i64 %runs, {WARM_RUNS}
  %many = icmp uge i64 %timed, {TIMED_RUNS}
  %long = icmp uge i64 %sum, {TIMED_NS}
  %enough = and i1 %many, %long
  br i1 %enough, label %end, label %leave
leave:
  ret void
end:
  %mean = udiv i64 %sum, %timed
  br i1 %is.shared, label %half, label %whole
half:
  store atomic i64 %mean, ptr %shared.place monotonic, align 8
  %is.short = icmp ult i64 %mean, {SHORT_NS}
  br i1 %is.short, label %other, label %share
share:
  call void @settle(ptr %program, i64 0, i64 %time)
  ret void
other:
  call void @try_program(ptr %program, i64 {_ALONE})
  ret void
whole:
  %here = mul i64 %mean, {GAIN[1]}
  %there = mul i64 %shared, {GAIN[0]}
  %is.faster = icmp ult i64 %here, %there
  %alone = zext i1 %is.faster to i64
  call void @settle(ptr %program, i64 %alone, i64 %mean)
  ret void
}}

; Whether the program that calls this is done by one thread: its frame is near.
define internal i1 @runs_alone() {{
  %frame = load atomic ptr, ptr @lonely monotonic, align 8
  %is.none = icmp eq ptr %frame, null
  br i1 %is.none, label %no, label %some
no:
  ret i1 false
some:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %at = ptrtoint ptr %here to i64
  %its = ptrtoint ptr %frame to i64
  %distance = sub i64 %its, %at
  %shifted = add i64 %distance, {REACH}
  %is.near = icmp ult i64 %shifted, {2 * REACH}
  ret i1 %is.near
}}

; A run of a program begins; returns the time if it is one of a trial, otherwise 0, or 1 more where one thread does it.
define i64 @{BEGIN_RUN}(ptr %main) {{
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %several = icmp ugt i64 %limit, 1
  %occupied = load atomic i32, ptr @busy monotonic, align 4
  %is.free = icmp eq i32 %occupied, 0
  %counted = and i1 %several, %is.free
  %counts = and i1 %counted, {str(finds_out).lower()}
  br i1 %counts, label %look, label %leave
leave:
  ret i64 0
look:
  %program = call ptr @program(ptr %main)
  %how = call {{ i1, i1 }} @alone(ptr %program)
  %is.alone = extractvalue {{ i1, i1 }} %how, 0
  %is.timed = extractvalue {{ i1, i1 }} %how, 1
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %mark = select i1 %is.alone, ptr %frame, ptr null
  store atomic ptr %mark, ptr @lonely monotonic, align 8
  %bit = zext i1 %is.alone to i64
  br i1 %is.timed, label %time, label %known
known:
  ret i64 %bit
time:
  %now = call i64 @now()
  %even = and i64 %now, -2
  %begun = or i64 %even, %bit
  ret i64 %begun
}}

; A pass of a loop begins, of a run that one thread does or not.
define i64 @{BEGIN_PASS}(ptr %loop) {{
  %is.alone = call i1 @runs_alone()
  br i1 %is.alone, label %leave, label %begin
leave:
  ret i64 0
begin:
  %begun = call i64 @{BEGIN_RUN}(ptr %loop)
  ret i64 %begun
}}

; A run of a program ends, or a pass, of which that was said when it began.
define void @{END_RUN}(ptr %main, i64 %begun) {{
  %bit = trunc i64 %begun to i1
  br i1 %bit, label %forget, label %look
forget:
  store atomic ptr null, ptr @lonely monotonic, align 8
  br label %look
look:
  %is.timed = icmp ugt i64 %begun, 1
  br i1 %is.timed, label %note, label %leave
note:
  %to = call i64 @now()
  %time = sub i64 %to, %begun
  %program = call ptr @program(ptr %main)
  call void @note_run(ptr %program, i64 %time)
  br label %leave
leave:
  ret void
}}
"""
