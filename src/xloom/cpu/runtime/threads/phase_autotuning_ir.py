"""LLVM IR that finds out which phases threads are to share: each is timed both ways, and runs the faster one then on.

What sharing costs depends on whether workers are awake, where the data lie and who else wants the processors; what it
brings, on how long the step takes. Both are measured where they count, in the step itself, now and again. So is the
time from one run to the next: where each pass of a loop shares its data with others, what runs alone there waits for
them. The steps of a loop try each way in the same passes, as these take equal times for all of them.
"""

from __future__ import annotations

from xloom.cpu.runtime.threads.record_ir import Record

SITES = 1024
"""Steps that are remembered. Of two with one place, each is found out anew when it follows the other."""
WARM_NS = 60_000
"""Each way is tried that long before it is timed: workers wake up, and data move to their caches."""
TIMED_NS = 60_000
RUNS = 4
"""Then that long, and at least so many runs."""
OUTLIER = 4
"""Of the shortest time, what a longer one counts for at most: something else had the processor."""
LONG_NS = 4_000
"""Steps that take as long on all threads are shared. Trials of longer ones were wrong too often where others had a
processor for a while, and cost more than the few that gain by running alone bring."""
GAIN = 15, 16
"""Of the time alone, what sharing must come below: it takes several processors."""
LOSS = 33, 32
"""Of the time from run to run when alone, what it must not come above."""
PARTS = 8
"""Of the time from run to run, a step that takes one such part of it, or more, is shared where that time gains: so the
steps of a loop are shared or not together. Each by itself, some would not, and move all data to and fro."""
PASS_NS = 1_000_000
"""What a longer time from run to run counts for."""
FIRST_REST = 64
"""Runs between the first trial and the second. From then on twice as many, while they take less than `REST_NS`: so the
steps of a loop begin their trials together, as one that is shared by itself waits for data of those that are not."""
REST_NS = 64 * 2 * (WARM_NS + TIMED_NS)
"""So much time that trials take little of it, and that what a disturbed one found is soon found out anew."""

_SHARED, _ALONE, _SETTLED = range(3)
_RECORD = Record(
    "Site",
    "site",
    (
        "key", "stage", "shares", "left", "rest", "begun", "warm", "runs",
        "sum", "least", "shared", "pass_sum", "pass_least", "pass_shared",
    ),
)  # fmt: skip
_FIELDS, _load, _store = _RECORD.fields, _RECORD.load, _RECORD.store


def phase_autotuning_ir() -> str:
    """`@site` of a step, `@shares` whether it is to be shared now, and `@note` of the time that it took.

    Threads that come to a site at once may lose a time, or have one too many.
    """
    begun = f"""{_store(str(FIRST_REST), "rest", "rest")}
  call void @begin(ptr %site)"""
    return f"""
{_RECORD.declaration}
declare ptr @llvm.returnaddress(i32)
declare i64 @llvm.fshl.i64(i64, i64, i64)

declare ptr @aligned_alloc(i64, i64)

{_RECORD.table(SITES)}

; Where is remembered what is known of a step; of a new one nothing.
define internal ptr @site(ptr %caller, ptr %task, i64 %count) {{
  %from = ptrtoint ptr %caller to i64
  %to = ptrtoint ptr %task to i64
  %turned = call i64 @llvm.fshl.i64(i64 %to, i64 %to, i64 20)
  %both = xor i64 %from, %turned
  %counted = mul i64 %count, -7046029254386353131
  %key = xor i64 %both, %counted
  {_RECORD.found(SITES, begun)}
}}

; Begin a trial.
define internal void @begin(ptr %site) {{
  {_store("0", "begun", "begun")}
  call void @try(ptr %site, i64 {_SHARED})
  ret void
}}

; Begin to run a step one way.
define internal void @try(ptr %site, i64 %stage) {{
  {_store("0", "warm", "warm")}
  {_store("0", "runs", "runs")}
  {_store("0", "sum", "sum")}
  {_store(str((1 << 63) - 1), "least", "least")}
  {_store("0", "pass_sum", "pass.sum")}
  {_store(str((1 << 63) - 1), "pass_least", "pass.least")}
  {_store("%stage", "stage", "stages")}
  ret void
}}

; Whether to share this run, and whether it is part of a trial.
define internal {{ i1, i1 }} @shares(ptr %site) {{
  {_load("stage", "stage")}
  %is.settled = icmp eq i64 %stage, {_SETTLED}
  br i1 %is.settled, label %settled, label %trial
trial:
  %first = icmp eq i64 %stage, {_SHARED}
  %tried = insertvalue {{ i1, i1 }} {{ i1 false, i1 true }}, i1 %first, 0
  ret {{ i1, i1 }} %tried
settled:
  {_load("left", "left")}
  %fewer = sub i64 %left, 1
  store atomic i64 %fewer, ptr %left.place monotonic, align 8
  %over = icmp slt i64 %fewer, 0
  br i1 %over, label %again, label %known
again:
  call void @begin(ptr %site)
  br label %known
known:
  {_load("shares", "shares")}
  %is.shared = icmp ne i64 %shares, 0
  %found = insertvalue {{ i1, i1 }} zeroinitializer, i1 %is.shared, 0
  ret {{ i1, i1 }} %found
}}

; A run of a trial was between these times.
define internal void @note(ptr %site, i64 %from, i64 %to) {{
  %time = sub i64 %to, %from
  {_load("begun", "begun")}
  store atomic i64 %from, ptr %begun.place monotonic, align 8
  %since = sub i64 %from, %begun
  %clipped = call i64 @llvm.umin.i64(i64 %since, i64 {PASS_NS})
  %is.known = icmp ne i64 %begun, 0
  %pass = select i1 %is.known, i64 %clipped, i64 %time
  {_load("warm", "warm")}
  %is.warm = icmp uge i64 %warm, {WARM_NS}
  br i1 %is.warm, label %count, label %heat
heat:
  %warmer = add i64 %warm, %pass
  store atomic i64 %warmer, ptr %warm.place monotonic, align 8
  ret void
count:
  %sum = call i64 @added(ptr %site, i64 {_FIELDS.index("sum")}, i64 %time)
  %passes = call i64 @added(ptr %site, i64 {_FIELDS.index("pass_sum")}, i64 %pass)
  {_load("earlier", "runs")}
  %runs = add i64 %earlier, 1
  store atomic i64 %runs, ptr %earlier.place monotonic, align 8
  %many = icmp uge i64 %runs, {RUNS}
  %long = icmp uge i64 %passes, {TIMED_NS}
  %enough = and i1 %many, %long
  br i1 %enough, label %end, label %leave
leave:
  ret void
end:
  %mean = udiv i64 %sum, %runs
  %pass.mean = udiv i64 %passes, %runs
  {_load("stage", "stage")}
  %is.shared = icmp eq i64 %stage, {_SHARED}
  br i1 %is.shared, label %half, label %whole
half:
  {_store("%mean", "shared", "shared.to")}
  {_store("%pass.mean", "pass_shared", "pass.to")}
  {_load("shortest", "least")}
  %is.long = icmp ugt i64 %shortest, {LONG_NS}
  br i1 %is.long, label %together, label %other
together:
  {_store("1", "shares", "shares.yes")}
  {_store(str(FIRST_REST), "left", "left.few")}
  {_store(str(_SETTLED), "stage", "stage.last")}
  ret void
other:
  call void @try(ptr %site, i64 {_ALONE})
  ret void
whole:
  {_load("shared", "shared")}
  %there = mul i64 %shared, {GAIN[1]}
  %here = mul i64 %mean, {GAIN[0]}
  %is.faster = icmp ult i64 %there, %here
  {_load("pass.shared", "pass_shared")}
  %pass.there = mul i64 %pass.shared, {LOSS[1]}
  %pass.here = mul i64 %pass.mean, {LOSS[0]}
  %is.harmless = icmp ule i64 %pass.there, %pass.here
  %by.itself = and i1 %is.faster, %is.harmless
  %pass.most = mul i64 %mean, {PARTS}
  %in.loop = icmp ule i64 %pass.mean, %pass.most
  %pass.faster.there = mul i64 %pass.shared, {GAIN[1]}
  %pass.faster.here = mul i64 %pass.mean, {GAIN[0]}
  %of.loop = icmp ult i64 %pass.faster.there, %pass.faster.here
  %gains = select i1 %in.loop, i1 %of.loop, i1 %by.itself
  %word = zext i1 %gains to i64
  {_store("%word", "shares", "shares")}
  {_load("rest", "rest")}
  {_store("%rest", "left", "left")}
  %twice = mul i64 %rest, 2
  %lasts = mul i64 %rest, %pass.mean
  %is.brief = icmp ult i64 %lasts, {REST_NS}
  %longer = select i1 %is.brief, i64 %twice, i64 %rest
  store atomic i64 %longer, ptr %rest.place monotonic, align 8
  {_store(str(_SETTLED), "stage", "stage.to")}
  ret void
}}

; The sum at a field of a site, with another time, and the shortest of them behind it.
define internal i64 @added(ptr %site, i64 %field, i64 %time) {{
  %place = getelementptr i64, ptr %site, i64 %field
  %least.place = getelementptr i64, ptr %place, i64 1
  %shortest = load atomic i64, ptr %least.place monotonic, align 8
  %least = call i64 @llvm.umin.i64(i64 %shortest, i64 %time)
  store atomic i64 %least, ptr %least.place monotonic, align 8
  %most = mul i64 %least, {OUTLIER}
  %counted = call i64 @llvm.umin.i64(i64 %most, i64 %time)
  %before = load atomic i64, ptr %place monotonic, align 8
  %sum = add i64 %before, %counted
  store atomic i64 %sum, ptr %place monotonic, align 8
  ret i64 %sum
}}
"""
