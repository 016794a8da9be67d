"""Faults of native code become values: the call ends where it faulted, and says which signal and which address.

The callee is called through a thunk that first saves where to return to. The handler of the signal jumps there when the
fault is the callee's own. It does not when the thread holds Python's lock, for then the callee has called Python, whose
frames must not be skipped: the fault goes to whoever handled it before, and in the end the process dies. What was sent,
as abort() does, is sent again: unlike a fault, it would not come once more by itself. What a callee had locked or
allocated stays so.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any

_ERROR_CODE = 192 if platform.machine() == "x86_64" else 0
"""Where the ucontext_t that a handler gets has the processor's code of a page fault; 0 where it has none."""
_WROTE = 2
_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)


@dataclass(frozen=True)
class Fault:
    """What ended the call; `address` is what it accessed, if the signal is about memory.

    `wrote` says whether it wrote there, where the processor tells it.
    """

    signal: signal.Signals
    address: int | None
    wrote: bool | None = None


class _Frame(ctypes.Structure):
    """What thunk and handler know of a call; the IR below has the offsets."""

    _fields_ = [
        ("target", ctypes.c_uint64),
        ("active", ctypes.c_uint64),
        ("signal", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("error", ctypes.c_uint64),
        ("place", ctypes.c_char * 1024),  # a sigjmp_buf, which has at most some 400 bytes
    ]


def is_available() -> bool:
    """True where the layout of what the system passes to handlers is known."""
    return sys.platform == "linux"


class Trap:
    """`with Trap(target) as trap`: who calls `trap.address` calls `target`; `trap.fault` is what ended it, or None.

    `target` has up to six arguments, all integers or pointers, and returns nothing, or one of these.
    """

    def __init__(self, target: int):
        self._frame = _Frame(target)
        self._outer = 0
        self.address = target

    @property
    def fault(self) -> Fault | None:
        """Of the last call."""
        number = self._frame.signal
        if not number or number == interrupt_signal():
            return None
        if number not in (signal.SIGSEGV, signal.SIGBUS):
            return Fault(signal.Signals(number), None)
        wrote = bool(self._frame.error & _WROTE) if _ERROR_CODE else None
        return Fault(signal.Signals(number), self._frame.address, wrote)

    def __enter__(self) -> Trap:
        machine = _machine()
        machine.install()
        self.address = machine.thunk
        self._outer = machine.frame()
        machine.set_frame(ctypes.addressof(self._frame))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _machine().set_frame(self._outer)


def interrupt_signal() -> int:
    """The signal that ends a trapped call, sent to its thread."""
    return signal.SIGRTMIN + 10


class _Action(ctypes.Structure):
    """struct sigaction of glibc."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000


@dataclass(frozen=True)
class _Machine:
    """The code."""

    thunk: int
    handler: int
    before: Any
    key: int
    libc: Any
    engine: Any

    def frame(self) -> int:
        """The address of this thread's frame, or 0."""
        return self.libc.pthread_getspecific(self.key) or 0

    def set_frame(self, address: int) -> None:
        """Makes it this thread's."""
        self.libc.pthread_setspecific(self.key, address)

    def install(self) -> None:
        """Makes the handler the first to hear of each signal, also when others have come since."""
        ours = _Action(self.handler, flags=_SA_SIGINFO | _SA_ONSTACK)
        for number in (*_SIGNALS, interrupt_signal()):
            now = _Action()
            self.libc.sigaction(int(number), None, ctypes.byref(now))
            if now.handler != self.handler:
                self.before[number] = now
                self.libc.sigaction(int(number), ctypes.byref(ours), None)


@lru_cache(maxsize=1)
def _machine() -> _Machine:
    libc = ctypes.CDLL(None)
    key = ctypes.c_uint()
    if libc.pthread_key_create(ctypes.byref(key), None):
        raise OSError("no more keys of thread-specific data")
    before = (_Action * 65)()
    text = _ir(
        key=key.value,
        get=_address(libc.pthread_getspecific),
        setjmp=_address(libc["__sigsetjmp"]),
        longjmp=_address(libc.siglongjmp),
        sigaction=_address(libc.sigaction),
        send=_address(libc["raise"]),
        has_lock=_address(ctypes.pythonapi.PyGILState_Check),
        before=ctypes.addressof(before),
        action_size=ctypes.sizeof(_Action),
        interrupt=interrupt_signal(),
        error_code=_ERROR_CODE,
    )
    engine = _engine(text)
    libc.pthread_getspecific.restype = ctypes.c_void_p
    libc.pthread_setspecific.argtypes = [ctypes.c_uint, ctypes.c_void_p]
    thunk, handler = (engine.get_function_address(name) for name in ("xloom_thunk", "xloom_handler"))
    return _Machine(thunk, handler, before, key.value, libc, engine)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _engine(text: str) -> Any:
    import llvmlite.binding as llvm  # not before it is needed: importing it takes long

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine


def _ir(**values: int) -> str:
    text = _IR
    for name, value in values.items():
        text = text.replace(f"@{name}@", f"inttoptr (i64 {value} to ptr)").replace(f"#{name}#", str(value))
    return text


# si_code is 8 bytes, and si_addr 16 bytes, into siginfo_t on 64-bit Linux
_IR = """
define i64 @xloom_thunk(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) {
  %frame = call ptr @get@(i32 #key#)
  %signal = getelementptr i8, ptr %frame, i64 16
  store i64 0, ptr %signal
  %place = getelementptr i8, ptr %frame, i64 40
  %jumped = call i32 @setjmp@(ptr %place, i32 1) returns_twice
  %faulted = icmp ne i32 %jumped, 0
  br i1 %faulted, label %ended, label %go
go:
  %active = getelementptr i8, ptr %frame, i64 8
  store volatile i64 1, ptr %active
  %target = load ptr, ptr %frame
  %result = call i64 %target(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  store volatile i64 0, ptr %active
  ret i64 %result
ended:
  ret i64 0
}

define void @xloom_handler(i32 %number, ptr %info, ptr %context) {
  %frame = call ptr @get@(i32 #key#)
  %none = icmp eq ptr %frame, null
  br i1 %none, label %other, label %look
look:
  %active = getelementptr i8, ptr %frame, i64 8
  %on = load volatile i64, ptr %active
  %is_on = icmp ne i64 %on, 0
  br i1 %is_on, label %lock, label %other
lock:
  %has = call i32 @has_lock@()
  %in_python = icmp ne i32 %has, 0
  br i1 %in_python, label %other, label %ours
ours:
  store volatile i64 0, ptr %active
  %wide = zext i32 %number to i64
  %signal = getelementptr i8, ptr %frame, i64 16
  store i64 %wide, ptr %signal
  %from = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %from
  %to = getelementptr i8, ptr %frame, i64 24
  store i64 %address, ptr %to
  %what = getelementptr i8, ptr %context, i64 #error_code#
  %error = load i64, ptr %what
  %code = getelementptr i8, ptr %frame, i64 32
  store i64 %error, ptr %code
  %place = getelementptr i8, ptr %frame, i64 40
  call void @longjmp@(ptr %place, i32 1)
  unreachable
other:
  %late = icmp eq i32 %number, #interrupt#
  br i1 %late, label %done, label %pass
pass:
  %slot = sext i32 %number to i64
  %skip = mul i64 %slot, #action_size#
  %old = getelementptr i8, ptr @before@, i64 %skip
  %ignored = call i32 @sigaction@(i32 %number, ptr %old, ptr null)
  %from_whom = getelementptr i8, ptr %info, i64 8
  %code_of = load i32, ptr %from_whom
  %sent = icmp sle i32 %code_of, 0
  br i1 %sent, label %again, label %done
again:
  %unsent = call i32 @send@(i32 %number)
  br label %done
done:
  ret void
}
"""
