"""LLVM IR for what differs between systems and processors: how a thread starts, sleeps, pauses and rounds."""

from __future__ import annotations

import platform
import signal
import sys
import time

from xloom.cpu.runtime.threads.affinity_ir import BERTH_IR, LINUX_STEER_IR, PLAIN_STEER_IR

# a thread's stack; as large as a main thread's on Linux, so that a task that fits the caller's fits there
STACK_BYTES = 8 << 20

# Linux numbers its system calls by processor; elsewhere a mutex and a condition stand in
FUTEX_NUMBER = (
    {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine()) if sys.platform == "linux" else None
)


def host_ir() -> str:
    """LLVM IR of all functions of this host that the pool calls."""
    sleeping = CONDITION_IR if FUTEX_NUMBER is None else futex_ir(FUTEX_NUMBER)
    return "\n".join((sleeping, threads_ir(), clock_ir()))


def threads_ir() -> str:
    """LLVM IR of the functions with which a thread starts, pauses, sets its rounding and its processor."""
    processor = PROCESSOR_IR.get(platform.machine().lower(), PLAIN_PROCESSOR_IR)
    steer = LINUX_STEER_IR if sys.platform == "linux" else PLAIN_STEER_IR
    return "\n".join((processor, signals_ir(), START_IR, BERTH_IR, steer))


def futex_ir(number: int) -> str:
    """Sleeping by Linux's futex; 128 and 129 are its private wait and wake."""
    return f"""
declare i64 @syscall(i64, ...)

; Sleep while *word is `expected`; may return early.
define internal void @sleep(ptr %word, i32 %expected) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  ret void
}}

; Wake the thread that sleeps on *word, which has changed.
define internal void @wake(ptr %word) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 129, i32 1, ptr null, ptr null, i32 0)
  ret void
}}

; Wake all threads that sleep on *word, which has changed.
define internal void @wake_all(ptr %word) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}}

define internal void @prepare_sleep() {{
  ret void
}}
"""


# One mutex and one condition for every word: a waker cannot come between a sleeper's look and its wait.
CONDITION_IR = """
@mutex = internal global [128 x i8] zeroinitializer, align 128
@condition = internal global [128 x i8] zeroinitializer, align 128
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

; Sleep while *word is `expected`.
define internal void @sleep(ptr %word, i32 %expected) {
  call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:
  %value = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %value, %expected
  br i1 %same, label %wait, label %leave
wait:
  call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %look
leave:
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

; Wake the thread that sleeps on *word, which has changed.
define internal void @wake(ptr %word) {
  call i32 @pthread_mutex_lock(ptr @mutex)
  call i32 @pthread_cond_broadcast(ptr @condition)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @wake_all(ptr %word) {
  call void @wake(ptr %word)
  ret void
}

define internal void @prepare_sleep() {
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}
"""

# The rounding word also says whether denormals are flushed: a worker must compute as its caller does.
_X86_IR = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}

define internal void @get_rounding(ptr %mode) {
  call void @llvm.x86.sse.stmxcsr(ptr %mode)
  ret void
}

define internal void @set_rounding(ptr %mode) {
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  ret void
}
"""

_ARM_IR = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @pause() {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

define internal void @get_rounding(ptr %mode) {
  %value = call i64 @llvm.aarch64.get.fpcr()
  store i64 %value, ptr %mode
  ret void
}

define internal void @set_rounding(ptr %mode) {
  %value = load i64, ptr %mode
  call void @llvm.aarch64.set.fpcr(i64 %value)
  ret void
}
"""

PROCESSOR_IR = {"x86_64": _X86_IR, "amd64": _X86_IR, "aarch64": _ARM_IR, "arm64": _ARM_IR}

PLAIN_PROCESSOR_IR = """
declare i32 @sched_yield()

define internal void @pause() {
  call i32 @sched_yield()
  ret void
}

define internal void @get_rounding(ptr %mode) {
  ret void
}

define internal void @set_rounding(ptr %mode) {
  ret void
}
"""


def clock_ir() -> str:
    """`@now`, in nanoseconds; the processor's own counter would trap on some, or stop."""
    return f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
  %time = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %rest
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}}
"""


def signals_ir() -> str:
    """`@block_signals` and `@restore_signals`; what reports a fault of the thread's own must still reach a handler."""
    faults = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT)
    unblock = "\n".join(f"  call i32 @sigdelset(ptr %mask, i32 {int(fault)})" for fault in faults)
    return f"""
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)

define internal void @block_signals(ptr %before) {{
  %mask = alloca [128 x i8], align 16
  call i32 @sigfillset(ptr %mask)
{unblock}
  call i32 @pthread_sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %mask, ptr %before)
  ret void
}}

define internal void @restore_signals(ptr %before) {{
  call i32 @pthread_sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %before, ptr null)
  ret void
}}
"""


START_IR = f"""
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)

; Start a thread that runs %body, which is not joined, and write its handle; false where there can be none.
define internal i1 @start_thread(ptr %handle, ptr %body, ptr %argument) cold noinline {{
  %attributes = alloca [128 x i8], align 16
  %signals = alloca [128 x i8], align 16
  call void @block_signals(ptr %signals)
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {STACK_BYTES})
  %error = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr %body, ptr %argument)
  %created = icmp eq i32 %error, 0
  br i1 %created, label %detach, label %leave
detach:
  %thread = load ptr, ptr %handle
  call i32 @pthread_detach(ptr %thread)
  br label %leave
leave:
  call i32 @pthread_attr_destroy(ptr %attributes)
  call void @restore_signals(ptr %signals)
  ret i1 %created
}}
"""
