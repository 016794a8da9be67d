"""LLVM IR of a queue of tasks, which threads of its own run in the order they came, apart from the thread that asked.

A thread that finds more tasks behind its own steers those who sleep away from the processor it will be busy on.
"""

from __future__ import annotations


def tasks_ir(size: int) -> str:
    """`xloom_add_task` and `xloom_reset_tasks`, for at most `size` threads; `threads_ir` is in the same module."""
    return f"""
; the next task, its function, what that gets, the rounding of who asked
%Task = type {{ ptr, ptr, ptr, i64 }}

@tasks.lock = internal global [128 x i8] zeroinitializer, align 128
@tasks.added = internal global [128 x i8] zeroinitializer, align 128
@tasks.first = internal global ptr null
@tasks.last = internal global ptr null
@tasks.queued = internal global i64 0
@tasks.idle = internal global i64 0
@tasks.threads = internal global i64 0
@tasks.berths = internal global [{size} x %Berth] zeroinitializer, align 128

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Have %function called with %data. A new thread starts when more wait than there are threads to take them.
define void @xloom_add_task(ptr %function, ptr %data) {{
entry:
  %task = call ptr @malloc(i64 ptrtoint (ptr getelementptr (%Task, ptr null, i64 1) to i64))
  %rounding = getelementptr %Task, ptr %task, i64 0, i32 3
  store %Task zeroinitializer, ptr %task
  call void @get_rounding(ptr %rounding)
  %function.place = getelementptr %Task, ptr %task, i64 0, i32 1
  store ptr %function, ptr %function.place
  %data.place = getelementptr %Task, ptr %task, i64 0, i32 2
  store ptr %data, ptr %data.place
  call i32 @pthread_mutex_lock(ptr @tasks.lock)
  %last = load ptr, ptr @tasks.last
  %empty = icmp eq ptr %last, null
  %before = select i1 %empty, ptr @tasks.first, ptr %last
  store ptr %task, ptr %before
  store ptr %task, ptr @tasks.last
  %queued = load i64, ptr @tasks.queued
  %more = add i64 %queued, 1
  store i64 %more, ptr @tasks.queued
  %idle = load i64, ptr @tasks.idle
  %threads = load i64, ptr @tasks.threads
  %short = icmp ugt i64 %more, %idle
  %room = icmp ult i64 %threads, {size}
  %grow = and i1 %short, %room
  br i1 %grow, label %start, label %tell
start:
  %berth = getelementptr [{size} x %Berth], ptr @tasks.berths, i64 0, i64 %threads
  %cpu = getelementptr %Berth, ptr %berth, i64 0, i32 1
  store i32 -1, ptr %cpu
  %started = call i1 @start_thread(ptr %berth, ptr @tasks.worker, ptr %berth)
  %one = zext i1 %started to i64
  %all = add i64 %threads, %one
  store i64 %all, ptr @tasks.threads
  %nobody = icmp eq i64 %all, 0
  br i1 %nobody, label %alone, label %tell
alone:
  call void @tasks.run_first()
  br label %leave
tell:
  call i32 @pthread_cond_signal(ptr @tasks.added)
  br label %leave
leave:
  call i32 @pthread_mutex_unlock(ptr @tasks.lock)
  ret void
}}

; With the lock held, which is free while the task runs.
define internal void @tasks.run_first() {{
entry:
  %task = load ptr, ptr @tasks.first
  %next = load ptr, ptr %task
  store ptr %next, ptr @tasks.first
  %queued = load i64, ptr @tasks.queued
  %fewer = sub i64 %queued, 1
  store i64 %fewer, ptr @tasks.queued
  %none = icmp eq ptr %next, null
  br i1 %none, label %empty, label %spread
empty:
  store ptr null, ptr @tasks.last
  br label %run
spread:
  %k = phi i64 [ 0, %entry ], [ %k.next, %spread.next ]
  %threads = load i64, ptr @tasks.threads
  %left = icmp ult i64 %k, %threads
  br i1 %left, label %spread.next, label %run
spread.next:
  %berth = getelementptr [{size} x %Berth], ptr @tasks.berths, i64 0, i64 %k
  call void @steer(ptr %berth, i1 false)
  %k.next = add i64 %k, 1
  br label %spread
run:
  call i32 @pthread_mutex_unlock(ptr @tasks.lock)
  %function.place = getelementptr %Task, ptr %task, i64 0, i32 1
  %function = load ptr, ptr %function.place
  %data.place = getelementptr %Task, ptr %task, i64 0, i32 2
  %data = load ptr, ptr %data.place
  %rounding = getelementptr %Task, ptr %task, i64 0, i32 3
  call void @set_rounding(ptr %rounding)
  call void @free(ptr %task)
  call void %function(ptr %data)
  call i32 @pthread_mutex_lock(ptr @tasks.lock)
  ret void
}}

; A thread's life; it lies at its berth, which else has no processor, while it waits.
define internal ptr @tasks.worker(ptr %berth) {{
entry:
  %cpu = getelementptr %Berth, ptr %berth, i64 0, i32 1
  call i32 @pthread_mutex_lock(ptr @tasks.lock)
  br label %look
look:
  %first = load ptr, ptr @tasks.first
  %none = icmp eq ptr %first, null
  br i1 %none, label %wait, label %run
wait:
  %idle = load i64, ptr @tasks.idle
  %more = add i64 %idle, 1
  store i64 %more, ptr @tasks.idle
  call void @lie_down(ptr %berth)
  call i32 @pthread_cond_wait(ptr @tasks.added, ptr @tasks.lock)
  store i32 -1, ptr %cpu
  call void @rise(ptr %berth)
  %now.idle = load i64, ptr @tasks.idle
  %fewer = sub i64 %now.idle, 1
  store i64 %fewer, ptr @tasks.idle
  br label %look
run:
  call void @tasks.run_first()
  br label %look
}}

; As if nothing had been asked for: at first, and in a forked child, which has no threads.
define void @xloom_reset_tasks() {{
  call i32 @pthread_mutex_init(ptr @tasks.lock, ptr null)
  call i32 @pthread_cond_init(ptr @tasks.added, ptr null)
  store ptr null, ptr @tasks.first
  store ptr null, ptr @tasks.last
  store i64 0, ptr @tasks.queued
  store i64 0, ptr @tasks.idle
  store i64 0, ptr @tasks.threads
  %bytes = ptrtoint ptr getelementptr ([{size} x %Berth], ptr null, i64 1) to i64
  call void @llvm.memset.p0.i64(ptr @tasks.berths, i8 0, i64 %bytes, i1 false)
  ret void
}}
"""
