"""LLVM IR that keeps a worker from waking up on the processor of the caller that wakes it.

Linux wakes a thread where it last ran unless it finds an idle processor nearby, and hardly looks for one where only a
few share a cache. A worker that last ran where its caller now runs would wait there until the caller stops or a later
tick moves it: on two processors 1.8 ms, against 0.05 ms when steered away. Of few processors the one where it last ran
may be busy too, as that of a thread that has just handed work to the caller: Linux then puts it on the caller's.
"""

from __future__ import annotations

# The state of a worker: its thread, the processor it lay down on, whether it is steered, its own affinity mask.
BERTH_IR = "%Berth = type { ptr, i32, i32, [128 x i8] }\n"

FEW = 4
"""Processors of which it may be that none is idle until the thread that waits for all this sleeps."""

LINUX_STEER_IR = """
declare i32 @sched_getcpu()
declare i32 @pthread_getaffinity_np(ptr, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; In the worker, before it sleeps.
define internal void @lie_down(ptr %berth) {
  %cpu = call i32 @sched_getcpu()
  %place = getelementptr %Berth, ptr %berth, i64 0, i32 1
  store i32 %cpu, ptr %place
  ret void
}

; In the caller, before it wakes the worker; unless %always, only one that lay down here. One that has not yet taken its
; mask back is left alone.
define internal void @steer(ptr %berth, i1 %always) {
  %place = getelementptr %Berth, ptr %berth, i64 0, i32 1
  %there = load i32, ptr %place
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %there, %here
  %wanted = or i1 %same, %always
  br i1 %wanted, label %check, label %leave
check:
  %flag = getelementptr %Berth, ptr %berth, i64 0, i32 2
  %steered = load atomic i32, ptr %flag acquire, align 4
  %straight = icmp eq i32 %steered, 0
  br i1 %straight, label %read, label %leave
read:
  %thread = load ptr, ptr %berth
  %own = getelementptr %Berth, ptr %berth, i64 0, i32 3
  %unread = call i32 @pthread_getaffinity_np(ptr %thread, i64 128, ptr %own)
  %is.read = icmp eq i32 %unread, 0
  br i1 %is.read, label %narrow, label %leave
narrow:
  %mask = alloca [128 x i8], align 16
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %own, i64 128, i1 false)
  %index = lshr i32 %here, 3
  %byte = getelementptr i8, ptr %mask, i32 %index
  %bits = load i8, ptr %byte
  %position = and i32 %here, 7
  %position.8 = trunc i32 %position to i8
  %bit = shl i8 1, %position.8
  %others = xor i8 %bit, -1
  %rest = and i8 %bits, %others
  store i8 %rest, ptr %byte
  ; refused where there is no other processor
  %unset = call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %mask)
  %is.set = icmp eq i32 %unset, 0
  %word = zext i1 %is.set to i32
  store atomic i32 %word, ptr %flag release, align 4
  ret void
leave:
  ret void
}

; In the worker, after it slept: the mask has done its work.
define internal void @rise(ptr %berth) {
  %flag = getelementptr %Berth, ptr %berth, i64 0, i32 2
  %steered = load atomic i32, ptr %flag acquire, align 4
  %straight = icmp eq i32 %steered, 0
  br i1 %straight, label %leave, label %widen
widen:
  %thread = load ptr, ptr %berth
  %own = getelementptr %Berth, ptr %berth, i64 0, i32 3
  call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %own)
  store atomic i32 0, ptr %flag release, align 4
  ret void
leave:
  ret void
}
"""

PLAIN_STEER_IR = """
define internal void @lie_down(ptr %berth) {
  ret void
}

define internal void @steer(ptr %berth, i1 %always) {
  ret void
}

define internal void @rise(ptr %berth) {
  ret void
}
"""
