"""The entries of buffers and events that native code answers as long as no `Buffer` or `Future` of Python's must."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from xloom.llvm.types import I8, I64, POINTER
from xloom.pjrt.capi.native_module import NULL, Entry, NativeModule
from xloom.pjrt.capi.native_structs import BUFFER, CELL, DELETED, EVENT, HAS_DATA, IN_PYTHON, NATIVE_EVENT, READY
from xloom.pjrt.capi.storage_ir import lock, unlock

_POLL = 50  # microseconds
_FEW_BYTES = 1 << 12
"""Of arrays that Python may drop later."""


def _destroy(e: Entry) -> None:
    buffer = e.arg("buffer")
    e.return_if(e.is_zero(buffer), NULL)
    with e.if_then(e.has(e.get_now(CELL, buffer, "state"), IN_PYTHON)):
        # it takes Python's lock, which a program's many small results need not take one by one
        record = e.get(CELL, buffer, "record", POINTER)
        with e.if_then(e.icmp_unsigned("<=", e.get(BUFFER, record, "nbytes"), I64(_FEW_BYTES))):
            e.return_if(e.has(e.do("destroy_later", "qp", buffer), -1), NULL)
        error = e.in_python()
        with e.if_then(e.not_(e.is_zero(error))):
            e.ret(error)
    e.do("free_cell", "vp", buffer)
    e.done()


def _delete(e: Entry) -> None:
    buffer = e.arg("buffer")
    e.python_if(e.has(e.get_now(CELL, buffer, "state"), IN_PYTHON))
    e.do("delete_cell", "vp", buffer)
    e.done()


def _is_deleted(e: Entry) -> None:
    state = e.get_now(CELL, e.arg("buffer"), "state")
    e.answer(is_deleted=e.zext(e.has(state, DELETED), I8))
    e.done()


def _python_unless_there(e: Entry, buffer: ir.Value) -> None:
    e.python_if(e.not_(e.has(e.get_now(CELL, buffer, "state"), HAS_DATA)))


def _ready_event(e: Entry) -> None:
    buffer = e.arg("buffer")
    state, event = e.get_now(CELL, buffer, "state"), e.get(CELL, buffer, "event", POINTER)
    is_made = e.and_(e.not_(e.has(state, HAS_DATA | DELETED)), e.not_(e.is_zero(event)))
    with e.if_then(is_made):
        e.add_to(e.pointer_at(event, EVENT.offset("references")), 1)
        e.set(EVENT, event, is_asked=1)
        e.answer(event=e.pointer_at(event, NATIVE_EVENT))
        e.done()
    e.python_if(e.not_(e.has(state, HAS_DATA)))
    e.answer(event=e.inttoptr(I64(READY), POINTER))
    e.done()


def _pointer(result: str) -> Callable[[Entry], None]:
    def rule(e: Entry) -> None:
        buffer = e.arg("buffer")
        _python_unless_there(e, buffer)
        e.answer(**{result: e.get(CELL, buffer, "data")})
        e.done()

    return rule


def _increase(e: Entry) -> None:
    buffer = e.arg("buffer")
    held = lock(e, CELL, buffer)
    in_python = e.has(e.get(CELL, buffer, "state"), IN_PYTHON)
    with e.if_then(e.not_(in_python)):
        e.set(CELL, buffer, external=e.add(e.get(CELL, buffer, "external"), I64(1)))
    unlock(e, held)
    e.python_if(in_python)
    e.done()


def _decrease(e: Entry) -> None:
    buffer = e.arg("buffer")
    held = lock(e, CELL, buffer)
    state, external = e.get(CELL, buffer, "state"), e.get(CELL, buffer, "external")
    is_python = e.or_(e.has(state, IN_PYTHON), e.is_zero(external))
    freed = e.variable(POINTER)
    e.store(NULL, freed)
    with e.if_then(e.not_(is_python)):
        e.set(CELL, buffer, external=e.sub(external, I64(1)))
        is_last = e.icmp_unsigned("==", external, I64(1))
        with e.if_then(e.and_(is_last, e.has(state, DELETED))):
            e.store(e.get(CELL, buffer, "storage", POINTER), freed)
            e.set(CELL, buffer, storage=NULL)
    unlock(e, held)
    e.python_if(is_python)
    e.do("release_storage", "vp", e.load(freed, typ=POINTER))
    e.done()


def _event(e: Entry) -> ir.Value:
    """The native event; those that are ready, and Python's, are dealt with by what is emitted here."""
    handle = e.ptrtoint(e.arg("event"), I64)
    with e.if_then(e.icmp_unsigned("==", handle, I64(READY))):
        _READY[e.name](e)
        e.done()
    e.python_if(e.not_(e.has(handle, NATIVE_EVENT)))
    return e.inttoptr(e.sub(handle, I64(NATIVE_EVENT)), POINTER)


def _event_destroy(e: Entry) -> None:
    e.do("release_event", "vp", _event(e))
    e.done()


def _event_is_ready(e: Entry) -> None:
    e.answer(is_ready=e.trunc(e.get_now(EVENT, _event(e), "is_done"), I8))
    e.done()


def _event_error(e: Entry) -> None:
    e.ret(e.do("error_of", "pp", _event(e)))


def _event_await(e: Entry) -> None:
    event = _event(e)
    look, wait, done = (e.append_basic_block(name) for name in ("look", "wait", "done"))
    e.branch(look)
    e.position_at_end(look)
    e.cbranch(e.is_zero(e.get_now(EVENT, event, "is_done")), wait, done)
    e.position_at_end(wait)
    e.do_c("usleep", "ii", ir.IntType(32)(_POLL))
    e.branch(look)
    e.position_at_end(done)
    e.ret(e.do("error_of", "pp", event))


def _event_on_ready(e: Entry) -> None:
    event = _event(e)
    e.do("await_event", "vpqp", event, e.ptrtoint(e.arg("callback"), I64), e.arg("user_arg"))
    e.done()


def _nothing(e: Entry) -> None:
    """A ready event needs no more."""


_READY: dict[str, Callable[[Entry], None]] = {
    "PJRT_Event_Destroy": _nothing,
    "PJRT_Event_IsReady": lambda e: e.answer(is_ready=1),
    "PJRT_Event_Error": _nothing,
    "PJRT_Event_Await": _nothing,
    "PJRT_Event_OnReady": lambda e: e.do_at(e.arg("callback"), "vpp", NULL, e.arg("user_arg")),
}


def _error_destroy(e: Entry) -> None:
    error = e.arg("error")
    e.return_if(e.is_zero(error), NULL)
    e.python()


ENTRIES: dict[str, Callable[[Entry], None]] = {
    "PJRT_Buffer_Destroy": _destroy,
    "PJRT_Buffer_Delete": _delete,
    "PJRT_Buffer_IsDeleted": _is_deleted,
    "PJRT_Buffer_ReadyEvent": _ready_event,
    "PJRT_Buffer_UnsafePointer": _pointer("buffer_pointer"),
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer": _pointer("device_memory_ptr"),
    "PJRT_Buffer_IncreaseExternalReferenceCount": _increase,
    "PJRT_Buffer_DecreaseExternalReferenceCount": _decrease,
    "PJRT_Event_Destroy": _event_destroy,
    "PJRT_Event_IsReady": _event_is_ready,
    "PJRT_Event_Error": _event_error,
    "PJRT_Event_Await": _event_await,
    "PJRT_Event_OnReady": _event_on_ready,
    "PJRT_Error_Destroy": _error_destroy,
}


def define(native: NativeModule) -> None:
    """The functions of this file."""
    for name, rule in ENTRIES.items():
        with native.entry(name) as e:
            rule(e)
