"""LLVM IR for what native code has to do with Python: it calls functions, and lets handlers of signals run.

A long run does the last now and then, as Python's own loop does; only the main thread's, for Python runs them there.
What a handler raises is put aside, and ends the run.
"""

from __future__ import annotations

from enum import IntEnum

POLL = "xloom_poll"
"""`i32 xloom_poll(i64 *next)`: not 0 where the run is to end; `next` is the run's own, at first 0."""
CALL_PYTHON = "xloom_call_python"
"""`i32 xloom_call_python(PyObject *function, PyObject *run)`: not 0 where it raised, which is `run.error` then."""
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
    CALL = 9
    SET_TRACEBACK = 10
    SET_ATTRIBUTE = 11
    DROP = 12


def _word_pointer(word: Word) -> str:
    return f"getelementptr (i64, ptr @{WORDS}, i64 {word.value})"


def poll_ir(interval_ns: int) -> str:
    """LLVM IR of `@xloom_poll`, which asks for signals every `interval_ns`; its module needs `@now`."""

    parts = ", ".join(f"ptr {_word_pointer(word)}" for word in (Word.TYPE, Word.VALUE, Word.TRACEBACK))
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
  %main = load i64, ptr {_word_pointer(Word.MAIN_THREAD)}
  %is_main = icmp eq i64 %thread, %main
  %is_late = icmp ne i64 %due, 0
  %asks = and i1 %is_main, %is_late
  br i1 %asks, label %ask, label %go_on
ask:
  %ensure = load ptr, ptr {_word_pointer(Word.ENSURE)}
  %check = load ptr, ptr {_word_pointer(Word.CHECK_SIGNALS)}
  %fetch = load ptr, ptr {_word_pointer(Word.FETCH)}
  %normalize = load ptr, ptr {_word_pointer(Word.NORMALIZE)}
  %release = load ptr, ptr {_word_pointer(Word.RELEASE)}
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


def call_python_ir() -> str:
    """`@xloom_call_python`, which needs the words.

    A callback of ctypes would lose what a handler raises before its first line, and give any result.
    """
    return f"""
@xloom_error_name = internal constant [6 x i8] c"error\\00"

define i32 @{CALL_PYTHON}(ptr %function, ptr %run) {{
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %ensure = load ptr, ptr {_word_pointer(Word.ENSURE)}
  %fetch = load ptr, ptr {_word_pointer(Word.FETCH)}
  %normalize = load ptr, ptr {_word_pointer(Word.NORMALIZE)}
  %release = load ptr, ptr {_word_pointer(Word.RELEASE)}
  %call = load ptr, ptr {_word_pointer(Word.CALL)}
  %set_trace = load ptr, ptr {_word_pointer(Word.SET_TRACEBACK)}
  %set_attribute = load ptr, ptr {_word_pointer(Word.SET_ATTRIBUTE)}
  %drop = load ptr, ptr {_word_pointer(Word.DROP)}
  %state = call i32 %ensure()
  %result = call ptr (ptr, ...) %call(ptr %function, ptr %run, ptr null)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %keep, label %done
keep:
  call void %fetch(ptr %type, ptr %value, ptr %trace)
  call void %normalize(ptr %type, ptr %value, ptr %trace)
  %t = load ptr, ptr %type
  %v = load ptr, ptr %value
  %b = load ptr, ptr %trace
  %has_trace = icmp ne ptr %b, null
  br i1 %has_trace, label %add_trace, label %tell
add_trace:
  call i32 %set_trace(ptr %v, ptr %b)
  br label %tell
tell:
  call i32 %set_attribute(ptr %run, ptr @xloom_error_name, ptr %v)
  call void %drop(ptr %t)
  call void %drop(ptr %v)
  call void %drop(ptr %b)
  br label %done
done:
  call void %drop(ptr %result)
  call void %release(i32 %state)
  %code = zext i1 %raised to i32
  ret i32 %code
}}
"""
