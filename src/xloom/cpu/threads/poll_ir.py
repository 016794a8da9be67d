"""LLVM IR for what a long run does now and then: it lets Python's handlers of signals run, as Python's own loop does.

Only the main thread's run does, for Python runs them there. What a handler raises is put aside, and ends the run.
"""

from __future__ import annotations

from enum import IntEnum

POLL = "xloom_poll"
"""`i32 xloom_poll(i64 *next)`: not 0 where the run is to end; `next` is the run's own, at first 0."""
WORDS = "xloom_poll_words"


class Word(IntEnum):
    """What native code and Python tell each other."""

    MAIN_THREAD = 0
    ENSURE = 1
    CHECK_SIGNALS = 2
    FETCH = 3
    NORMALIZE = 4
    RELEASE = 5
    TYPE = 6
    VALUE = 7
    TRACEBACK = 8


def poll_ir(interval_ns: int) -> str:
    """`@xloom_poll`, which needs `@now`."""

    def place(word: Word) -> str:
        return f"getelementptr (i64, ptr @{WORDS}, i64 {word.value})"

    parts = ", ".join(f"ptr {place(word)}" for word in (Word.TYPE, Word.VALUE, Word.TRACEBACK))
    return f"""
@{WORDS} = global [{len(Word)} x i64] zeroinitializer
declare i64 @pthread_self()

define i32 @{POLL}(ptr %next) {{
  %time = call i64 @now()
  %due = load i64, ptr %next
  %early = icmp slt i64 %time, %due
  br i1 %early, label %go_on, label %look
look:
  %later = add i64 %time, {interval_ns}
  store i64 %later, ptr %next
  %thread = call i64 @pthread_self()
  %main = load i64, ptr {place(Word.MAIN_THREAD)}
  %is_main = icmp eq i64 %thread, %main
  %is_late = icmp ne i64 %due, 0
  %asks = and i1 %is_main, %is_late
  br i1 %asks, label %ask, label %go_on
ask:
  %ensure = load ptr, ptr {place(Word.ENSURE)}
  %check = load ptr, ptr {place(Word.CHECK_SIGNALS)}
  %fetch = load ptr, ptr {place(Word.FETCH)}
  %normalize = load ptr, ptr {place(Word.NORMALIZE)}
  %release = load ptr, ptr {place(Word.RELEASE)}
  %state = call i32 %ensure()
  %raised = call i32 %check()
  %any = icmp ne i32 %raised, 0
  br i1 %any, label %keep, label %done
keep:
  call void %fetch({parts})
  call void %normalize({parts})
  br label %done
done:
  call void %release(i32 %state)
  ret i32 %raised
go_on:
  ret i32 0
}}
"""
