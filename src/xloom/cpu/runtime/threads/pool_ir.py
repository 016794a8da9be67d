"""LLVM IR of the pool: how a loop is cut, handed out, helped along and waited for.

Every chunk has a slot, and with `threads` threads slot i belongs to thread i modulo `threads`; thread 0 is the caller.
The caller arms the slots; whoever turns an armed slot idle first, its worker or the caller once done with chunk 0, runs
the chunk. So a loop never waits for a worker that has not begun, only for one that is at work, and a worker that could
not be created is not missed.
"""

from __future__ import annotations

from xloom.cpu.runtime.threads.affinity_ir import FEW
from xloom.cpu.runtime.threads.phase_autotuning_ir import phase_autotuning_ir
from xloom.cpu.runtime.threads.program_autotuning_ir import program_autotuning_ir
from xloom.cpu.runtime.threads.team_ir import team_ir

# what a slot holds
IDLE, ARMED, SLEEPING = 0, 1, 2

ALIGNED = 64
"""Items that are as many lines of a cache, whatever their elements are."""

# set in the count of pending chunks while the caller sleeps
CALLER_SLEEPS = -1 << 31


def pool_ir(size: int, threads: int, spin_ns: int, finds_out: bool, parallel_for: str = "xloom_parallel_for") -> str:
    """The pool that cuts loops for `size` and runs them on `threads`, which spin for `spin_ns` before they sleep.

    It `finds_out` which loops and programs are worth sharing, or shares all. Loops come to it by the function
    `parallel_for`.
    """
    return f"""{phase_autotuning_ir()}{program_autotuning_ir(finds_out)}{team_ir(threads)}
; The size of two cache lines, as processors fetch them in pairs.
%Slot = type {{ i32, [124 x i8] }}
; task, buffers, items, chunks, the caller's rounding
%Job = type {{ ptr, ptr, i64, i64, i64 }}

@busy = internal global i32 0, align 128
@pending = internal global i32 0, align 128
@job = internal global %Job zeroinitializer, align 128
@slots = internal global [{size} x %Slot] zeroinitializer, align 128
@berths = internal global [{threads} x %Berth] zeroinitializer, align 128
@started = internal global i1 false, align 128

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; As many threads as loops are cut for, at the most.
@limit = internal global i64 {size}

define void @xloom_limit_threads(i64 %most) {{
  %least = call i64 @llvm.smax.i64(i64 %most, i64 1)
  %limit = call i64 @llvm.umin.i64(i64 %least, i64 {size})
  store atomic i64 %limit, ptr @limit monotonic, align 8
  ret void
}}

; Run task over [0, count) in chunks of at least grain items; return when all are done.
define void @{parallel_for}(ptr %task, ptr %buffers, i64 %count, i64 %grain) {{
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %measure, label %done
measure:
  %least = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %room = udiv i64 %count, %least
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %chunks = call i64 @llvm.umin.i64(i64 %room, i64 %limit)
  %alone = icmp ule i64 %chunks, 1
  br i1 %alone, label %whole, label %divide
whole:
  tail call void %task(ptr %buffers, i64 0, i64 %count)
  ret void
divide:
  br i1 {str(finds_out).lower()}, label %look, label %all
all:
  call void @share(ptr %task, ptr %buffers, i64 %count, i64 %chunks)
  ret void

; What a loop takes while the pool is another's says nothing.
look:
  %occupied = load atomic i32, ptr @busy monotonic, align 4
  %is.free = icmp eq i32 %occupied, 0
  br i1 %is.free, label %see, label %serial
serial:
  call void @run_chunks(ptr %task, ptr %buffers, i64 %count, i64 %chunks)
  ret void
see:
  %by.one = call i1 @runs_alone()
  br i1 %by.one, label %whole, label %choose
choose:
  %caller = call ptr @llvm.returnaddress(i32 0)
  %site = call ptr @site(ptr %caller, ptr %task, i64 %count)
  %how = call {{ i1, i1 }} @shares(ptr %site)
  %is.shared = extractvalue {{ i1, i1 }} %how, 0
  %is.timed = extractvalue {{ i1, i1 }} %how, 1
  br i1 %is.timed, label %time, label %known
known:
  br i1 %is.shared, label %all, label %whole
time:
  %from = call i64 @now()
  br i1 %is.shared, label %together, label %by.itself
together:
  call void @share(ptr %task, ptr %buffers, i64 %count, i64 %chunks)
  br label %timed
by.itself:
  call void %task(ptr %buffers, i64 0, i64 %count)
  br label %timed
timed:
  %to = call i64 @now()
  call void @note(ptr %site, i64 %from, i64 %to)
  ret void
done:
  ret void
}}

; The chunks one after the other.
define internal void @run_chunks(ptr %task, ptr %buffers, i64 %count, i64 %chunks) {{
entry:
  br label %next
next:
  %s = phi i64 [ 0, %entry ], [ %s.next, %next ]
  call void @run_chunk(ptr %task, ptr %buffers, i64 %count, i64 %chunks, i64 %s)
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %chunks
  br i1 %s.more, label %next, label %done
done:
  ret void
}}

; The chunks on the threads that there are; in this one while another caller, or a task of this one's, has the pool.
define internal void @share(ptr %task, ptr %buffers, i64 %count, i64 %chunks) {{
entry:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %share, label %serial
serial:
  call void @run_chunks(ptr %task, ptr %buffers, i64 %count, i64 %chunks)
  ret void

share:
  %started = load i1, ptr @started
  br i1 %started, label %publish, label %start
start:
  call void @start_workers()
  store i1 true, ptr @started
  br label %publish
publish:
  store ptr %task, ptr @job
  store ptr %buffers, ptr getelementptr (%Job, ptr @job, i64 0, i32 1)
  store i64 %count, ptr getelementptr (%Job, ptr @job, i64 0, i32 2)
  store i64 %chunks, ptr getelementptr (%Job, ptr @job, i64 0, i32 3)
  call void @get_rounding(ptr getelementptr (%Job, ptr @job, i64 0, i32 4))
  %last = sub i64 %chunks, 1
  %last.32 = trunc i64 %last to i32
  store atomic i32 %last.32, ptr @pending monotonic, align 4
  br label %arm

; From the last slot down, as the first of a worker's is the one it watches.
arm:
  %a = phi i64 [ %last, %publish ], [ %a.next, %armed ]
  %a.slot = getelementptr [{size} x %Slot], ptr @slots, i64 0, i64 %a
  %a.was = atomicrmw xchg ptr %a.slot, i32 {ARMED} acq_rel
  %a.sleeping = icmp eq i32 %a.was, {SLEEPING}
  br i1 %a.sleeping, label %rouse, label %armed
rouse:
  %a.berth = getelementptr [{threads} x %Berth], ptr @berths, i64 0, i64 %a
  call void @steer(ptr %a.berth, i1 {str(threads <= FEW).lower()})
  call void @wake(ptr %a.slot)
  br label %armed
armed:
  %a.next = sub i64 %a, 1
  %a.more = icmp ne i64 %a.next, 0
  br i1 %a.more, label %arm, label %own
own:
  call void @run_chunk(ptr %task, ptr %buffers, i64 %count, i64 %chunks, i64 0)
  br label %help

; From the first slot up: its worker was told last.
help:
  %h = phi i64 [ 1, %own ], [ %h.next, %helped ]
  %h.slot = getelementptr [{size} x %Slot], ptr @slots, i64 0, i64 %h
  %h.claimed = call i1 @claim(ptr %h.slot)
  br i1 %h.claimed, label %stand.in, label %helped
stand.in:
  call void @run_chunk(ptr %task, ptr %buffers, i64 %count, i64 %chunks, i64 %h)
  atomicrmw sub ptr @pending, i32 1 monotonic
  br label %helped
helped:
  %h.next = add i64 %h, 1
  %h.more = icmp ult i64 %h.next, %chunks
  br i1 %h.more, label %help, label %wait

wait:
  %finished = call i1 @spin_until(ptr @pending, i32 0)
  br i1 %finished, label %release, label %nod.off
nod.off:
  %told = atomicrmw or ptr @pending, i32 {CALLER_SLEEPS} monotonic
  br label %look
look:
  %left = load atomic i32, ptr @pending acquire, align 4
  %none = icmp eq i32 %left, {CALLER_SLEEPS}
  br i1 %none, label %release, label %rest
rest:
  call void @sleep(ptr @pending, i32 %left)
  br label %look
release:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

; Run the chunk at `index`.
define internal void @run_chunk(ptr %task, ptr %buffers, i64 %count, i64 %chunks, i64 %index) {{
  %next = add i64 %index, 1
  %begin = call i64 @chunk_begin(i64 %count, i64 %chunks, i64 %index)
  %end = call i64 @chunk_begin(i64 %count, i64 %chunks, i64 %next)
  call void %task(ptr %buffers, i64 %begin, i64 %end)
  ret void
}}

; The first chunks have one item more than the others. Where they have many, they begin at multiples of {ALIGNED}: if
; items are adjacent elements, vectors of them are then as aligned as the array.
define internal i64 @chunk_begin(i64 %count, i64 %chunks, i64 %index) {{
  %items = udiv i64 %count, %chunks
  %longer = urem i64 %count, %chunks
  %even = mul i64 %index, %items
  %extra = call i64 @llvm.umin.i64(i64 %index, i64 %longer)
  %begin = add i64 %even, %extra
  %many = icmp uge i64 %items, {16 * ALIGNED}
  %inner = icmp ne i64 %begin, %count
  %moves = and i1 %many, %inner
  %mask = select i1 %moves, i64 {-ALIGNED}, i64 -1
  %aligned = and i64 %begin, %mask
  ret i64 %aligned
}}

; Turn an armed slot idle; true for the one thread that did it.
define internal i1 @claim(ptr %slot) {{
  %seen = load atomic i32, ptr %slot monotonic, align 4
  %armed = icmp eq i32 %seen, {ARMED}
  br i1 %armed, label %try, label %lost
try:
  %result = cmpxchg ptr %slot, i32 {ARMED}, i32 {IDLE} acquire monotonic
  %won = extractvalue {{ i32, i1 }} %result, 1
  ret i1 %won
lost:
  ret i1 false
}}

; Watch *word for a bounded time; true as soon as it is %wanted.
define internal i1 @spin_until(ptr %word, i32 %wanted) {{
entry:
  %first = load atomic i32, ptr %word acquire, align 4
  %at.once = icmp eq i32 %first, %wanted
  br i1 %at.once, label %yes, label %begin
begin:
  %from = call i64 @now()
  br label %round
round:
  br label %spin
spin:
  %turn = phi i32 [ 0, %round ], [ %turn.next, %again ]
  call void @pause()
  %value = load atomic i32, ptr %word acquire, align 4
  %there = icmp eq i32 %value, %wanted
  br i1 %there, label %yes, label %again
again:
  %turn.next = add i32 %turn, 1
  %turns.left = icmp ult i32 %turn.next, 16
  br i1 %turns.left, label %spin, label %clock
clock:
  %to = call i64 @now()
  %spent = sub i64 %to, %from
  %time.left = icmp ult i64 %spent, {spin_ns}
  br i1 %time.left, label %round, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

; A worker's life; %argument is the number of its first slot.
define internal ptr @worker(ptr %argument) {{
entry:
  %first = ptrtoint ptr %argument to i64
  %slot = getelementptr [{size} x %Slot], ptr @slots, i64 0, i64 %first
  %berth = getelementptr [{threads} x %Berth], ptr @berths, i64 0, i64 %first
  br label %watch
watch:
  call i1 @spin_until(ptr %slot, i32 {ARMED})
  br label %look
look:
  br label %seek
seek:
  %i = phi i64 [ %first, %look ], [ %i.next, %seek ]
  %before = phi i1 [ false, %look ], [ %any, %seek ]
  %one = call i1 @work(i64 %i)
  %any = or i1 %before, %one
  %i.next = add i64 %i, {threads}
  %more = icmp ult i64 %i.next, {size}
  br i1 %more, label %seek, label %sought
sought:
  br i1 %any, label %watch, label %lie.down
lie.down:
  call void @lie_down(ptr %berth)
  %down = cmpxchg ptr %slot, i32 {IDLE}, i32 {SLEEPING} release monotonic
  %before.down = extractvalue {{ i32, i1 }} %down, 0
  %armed = icmp eq i32 %before.down, {ARMED}
  br i1 %armed, label %look, label %rest
rest:
  call void @sleep(ptr %slot, i32 {SLEEPING})
  %state = load atomic i32, ptr %slot monotonic, align 4
  %early = icmp eq i32 %state, {SLEEPING}
  br i1 %early, label %rest, label %rise
rise:
  call void @rise(ptr %berth)
  br label %watch
}}

; Run the chunk at %index if it can be claimed; true if so. The job stays what it is until the chunk is reported done.
define internal i1 @work(i64 %index) {{
  %slot = getelementptr [{size} x %Slot], ptr @slots, i64 0, i64 %index
  %claimed = call i1 @claim(ptr %slot)
  br i1 %claimed, label %run, label %leave
run:
  %task = load ptr, ptr @job
  %buffers = load ptr, ptr getelementptr (%Job, ptr @job, i64 0, i32 1)
  %count = load i64, ptr getelementptr (%Job, ptr @job, i64 0, i32 2)
  %chunks = load i64, ptr getelementptr (%Job, ptr @job, i64 0, i32 3)
  call void @set_rounding(ptr getelementptr (%Job, ptr @job, i64 0, i32 4))
  call void @run_chunk(ptr %task, ptr %buffers, i64 %count, i64 %chunks, i64 %index)
  %before = atomicrmw sub ptr @pending, i32 1 release
  %awaited = icmp eq i32 %before, {CALLER_SLEEPS + 1}
  br i1 %awaited, label %report, label %leave
report:
  call void @wake(ptr @pending)
  br label %leave
leave:
  ret i1 %claimed
}}

; A thread that is lent stands in for a worker until *over is not 0; the worker is not woken meanwhile.
define internal void @stand_in(i64 %first, ptr %over) {{
entry:
  %rounding = alloca i64
  call void @get_rounding(ptr %rounding)
  %slot = getelementptr [{size} x %Slot], ptr @slots, i64 0, i64 %first
  br label %look
look:
  %asleep.before = phi i1 [ false, %entry ], [ %asleep, %pause ]
  %state = load atomic i32, ptr %slot monotonic, align 4
  %lies = icmp eq i32 %state, {SLEEPING}
  br i1 %lies, label %relieve, label %seek.first
relieve:
  %relieved = cmpxchg ptr %slot, i32 {SLEEPING}, i32 {IDLE} acquire monotonic
  %was = extractvalue {{ i32, i1 }} %relieved, 1
  %asleep.now = or i1 %asleep.before, %was
  br label %seek.first
seek.first:
  %asleep = phi i1 [ %asleep.before, %look ], [ %asleep.now, %relieve ]
  br label %seek
seek:
  %i = phi i64 [ %first, %seek.first ], [ %i.next, %seek ]
  call i1 @work(i64 %i)
  %i.next = add i64 %i, {threads}
  %more = icmp ult i64 %i.next, {size}
  br i1 %more, label %seek, label %sought
sought:
  %end = load atomic i32, ptr %over acquire, align 4
  %is.over = icmp ne i32 %end, 0
  br i1 %is.over, label %leave, label %pause
pause:
  call void @pause()
  br label %look
leave:
  call void @set_rounding(ptr %rounding)
  br i1 %asleep, label %hand.back, label %gone
hand.back:
  cmpxchg ptr %slot, i32 {IDLE}, i32 {SLEEPING} release monotonic
  br label %gone
gone:
  ret void
}}

; A worker that cannot be created is done without.
define internal void @start_workers() cold noinline {{
entry:
  br label %head
head:
  %i = phi i64 [ 1, %entry ], [ %i.next, %create ]
  %more = icmp ult i64 %i, {threads}
  br i1 %more, label %create, label %leave
create:
  %argument = inttoptr i64 %i to ptr
  %thread = getelementptr [{threads} x %Berth], ptr @berths, i64 0, i64 %i
  %created = call i1 @start_thread(ptr %thread, ptr @worker, ptr %argument)
  %i.next = add i64 %i, 1
  br i1 %created, label %head, label %leave
leave:
  ret void
}}

; As if nothing had run: at first, and in a forked child, which has no workers.
define void @xloom_reset_pool() {{
  call void @prepare_sleep()
  call void @remember.sites()
  call void @remember.programs()
  %slots.bytes = ptrtoint ptr getelementptr ([{size} x %Slot], ptr null, i64 1) to i64
  call void @llvm.memset.p0.i64(ptr @slots, i8 0, i64 %slots.bytes, i1 false)
  %berths.bytes = ptrtoint ptr getelementptr ([{threads} x %Berth], ptr null, i64 1) to i64
  call void @llvm.memset.p0.i64(ptr @berths, i8 0, i64 %berths.bytes, i1 false)
  store i32 0, ptr @pending
  store i1 false, ptr @started
  store i32 0, ptr @busy
  ret void
}}
"""
