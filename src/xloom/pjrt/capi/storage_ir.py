"""The native life of buffers: the memory of arrays, the cells that handles point to, and events of the host's arrays.

A cell and an event are changed under a lock of their own, which is held for a few instructions. Memory is counted:
each cell, each array of Python's and each run that uses it refers to it.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.loop import loop
from xloom.llvm.types import I64, POINTER
from xloom.pjrt.capi.native_module import NULL, Builder, NativeModule
from xloom.pjrt.capi.native_structs import (
    CELL,
    DATA_OFFSET,
    DELETED,
    EVENT,
    GIVEN,
    HAS_DATA,
    IN_PYTHON,
    LENT,
    MAPPED_BYTES,
    OF_PYTHON,
    OWN,
    STORAGE,
    WAITING,
    StructLayout,
)

RETIRED, RUNNING = "retired", "running"
"""Words: whether Python is gone, and how many calls are in it."""
NEW_ERROR, DROP_ERROR = "new_error_of_event", "drop_error_of_event"
"""Functions of Python's."""

_DESTROYED, _LIST = "destroyed_cells", StructLayout("lock", "first", "count")
_MOST_DESTROYED = 256


def define(native: NativeModule) -> None:
    """The functions of this file."""
    for rule in (_lock, _storage, _cells, _events, _python):
        rule(native)


def _lock(native: NativeModule) -> None:
    with native.function("lock", "vp") as b:
        (mutex,) = b.arguments
        look, wait, done = (b.append_basic_block(name) for name in ("look", "wait", "done"))
        b.branch(look)
        b.position_at_end(look)
        b.cbranch(b.is_zero(b.atomic_rmw("xchg", mutex, I64(1), "acquire")), done, wait)
        b.position_at_end(wait)
        b.do_c("sched_yield", "i")
        b.branch(look)
        b.position_at_end(done)
        b.ret_void()
    with native.function("unlock", "vp") as b:
        b.atomic_rmw("xchg", b.arguments[0], I64(0), "release")
        b.ret_void()


def lock(b: Builder, layout: StructLayout, base: ir.Value) -> ir.Value:
    """Takes the lock of a structure that has one, and returns what `unlock` wants."""
    mutex = b.pointer_at(base, layout.offset("lock"))
    b.do("lock", "vp", mutex)
    return mutex


def unlock(b: Builder, mutex: ir.Value) -> None:
    """Releases the lock that `lock` took."""
    b.do("unlock", "vp", mutex)


def _storage(native: NativeModule) -> None:
    with native.function("new_storage", "pq") as b:
        (nbytes,) = b.arguments
        with b.if_then(b.icmp_unsigned(">=", nbytes, I64(MAPPED_BYTES))):
            b.ret(b.do("take_storage", "pq", nbytes))
        raw = b.do_c("malloc", "pq", b.add(nbytes, I64(2 * DATA_OFFSET)))
        address = b.add(b.ptrtoint(raw, I64), I64(2 * DATA_OFFSET - 1))
        data = b.inttoptr(b.and_(address, I64(-DATA_OFFSET)), POINTER)
        storage = b.pointer_at(data, -DATA_OFFSET)
        b.set(STORAGE, storage, references=1, kind=OWN, owner=0, raw=raw, nbytes=nbytes)
        b.ret(storage)
    with native.function("foreign_storage", "pqp") as b:
        kind, owner = b.arguments
        storage = b.do_c("malloc", "pq", I64(STORAGE.size))
        b.set(STORAGE, storage, references=1, kind=kind, owner=owner, raw=storage, nbytes=0)
        b.ret(storage)
    with native.function("release_storage", "vp") as b:
        (storage,) = b.arguments
        b.return_if(b.is_zero(storage))
        before = b.add_to(b.pointer_at(storage, STORAGE.offset("references")), -1)
        b.return_if(b.icmp_unsigned("!=", before, I64(1)))
        kind, owner = b.get(STORAGE, storage, "kind"), b.get(STORAGE, storage, "owner", POINTER)
        with b.if_then(b.icmp_unsigned("==", kind, I64(LENT))):
            b.do("fire_event", "vp", owner)
        with b.if_then(b.icmp_unsigned(">=", kind, I64(OF_PYTHON))):
            b.do("drop_object", "vp", owner)
        with b.if_then(b.icmp_unsigned(">=", b.get(STORAGE, storage, "nbytes"), I64(MAPPED_BYTES))):
            b.do("cache_storage", "vp", storage)
            b.ret_void()
        b.do_c("free", "vp", b.get(STORAGE, storage, "raw", POINTER))
        b.ret_void()


def _cells(native: NativeModule) -> None:
    with native.function("new_cell", "ppppq") as b:
        record, storage, data, state = b.arguments
        cell = b.do_c("malloc", "pq", I64(CELL.size))
        b.set(CELL, cell, record=record, lock=0, state=state, storage=storage, data=data, external=0, event=0, next=0)
        b.ret(cell)
    # for buffers of Python's, from a table of their records to one of their handles
    with native.function("new_cells", "vpqpp") as b:
        records, count, cells, event = b.arguments
        with b.if_then(b.not_(b.is_zero(event))):
            b.atomic_rmw("add", b.pointer_at(event, EVENT.offset("references")), count, "seq_cst")
        with loop(b, 0, count) as k:
            record = b.load(b.item(records, k), typ=POINTER)
            cell = b.do("new_cell", "ppppq", record, NULL, NULL, I64(IN_PYTHON))
            b.set(CELL, cell, event=event)
            b.store(cell, b.item(cells, k))
        b.ret_void()
    with native.function("free_cell", "vp") as b:
        (cell,) = b.arguments
        b.do("release_storage", "vp", b.get(CELL, cell, "storage", POINTER))
        event = b.get(CELL, cell, "event", POINTER)
        with b.if_then(b.not_(b.is_zero(event))):
            b.do("release_event", "vp", event)
        b.do_c("free", "vp", cell)
        b.ret_void()
    _destroyed(native)
    with native.function("delete_cell", "vp") as b:
        (cell,) = b.arguments
        held = lock(b, CELL, cell)
        state = b.get(CELL, cell, "state")
        b.set(CELL, cell, state=b.or_(b.and_(state, I64(~HAS_DATA)), I64(DELETED)))
        freed = b.variable(POINTER)
        b.store(NULL, freed)
        with b.if_then(b.is_zero(b.get(CELL, cell, "external"))):
            b.store(b.get(CELL, cell, "storage", POINTER), freed)
            b.set(CELL, cell, storage=NULL)
        unlock(b, held)
        b.do("release_storage", "vp", b.load(freed, typ=POINTER))
        b.ret_void()
    # Python now has a `Buffer` for it, which keeps the memory by a reference of its own: what the cell was
    with native.function("share_cell", "vpp") as b:
        cell, was = b.arguments
        held = lock(b, CELL, cell)
        state, storage = b.get(CELL, cell, "state"), b.get(CELL, cell, "storage", POINTER)
        external, data = b.get(CELL, cell, "external"), b.get(CELL, cell, "data", POINTER)
        b.set(CELL, was, state=state, storage=storage, data=data, external=external)
        with b.if_then(b.has(state, HAS_DATA)):
            b.add_to(b.pointer_at(storage, STORAGE.offset("references")), 1)
        b.set(CELL, cell, state=b.or_(state, I64(IN_PYTHON)), external=0)
        unlock(b, held)
        b.ret_void()
    # Python's `Buffer` for it is no more, if its array is there: 0 where it is not
    with native.function("take_back_cell", "qp") as b:
        (cell,) = b.arguments
        held = lock(b, CELL, cell)
        is_there = b.icmp_unsigned("==", b.get(CELL, cell, "state"), I64(HAS_DATA | IN_PYTHON))
        with b.if_then(is_there):
            b.set(CELL, cell, state=HAS_DATA)
        unlock(b, held)
        b.ret(b.zext(is_there, I64))
    # nothing else refers to the array any more that Python has lent: results may lie in its memory
    with native.function("give_array", "vpp") as b:
        cell, owner = b.arguments
        held = lock(b, CELL, cell)
        storage = b.get(CELL, cell, "storage", POINTER)
        with (
            b.if_then(b.icmp_unsigned("==", b.get(CELL, cell, "state"), I64(HAS_DATA))),
            b.if_then(b.icmp_unsigned("==", b.get(STORAGE, storage, "owner", POINTER), owner)),
        ):
            b.set(STORAGE, storage, kind=GIVEN)
        unlock(b, held)
        b.ret_void()
    # Python lends the array of its `Buffer`
    with native.function("fill_cell", "vppp") as b:
        cell, data, owner = b.arguments
        b.do_c("Py_IncRef", "vp", owner)
        storage = b.do("foreign_storage", "pqp", I64(OF_PYTHON), owner)
        held = lock(b, CELL, cell)
        state = b.get(CELL, cell, "state")
        refused = b.has(state, DELETED | HAS_DATA)
        with b.if_else(refused) as (then, otherwise):
            with then:
                unlock(b, held)
                b.do("release_storage", "vp", storage)
            with otherwise:
                b.set(CELL, cell, state=b.or_(state, I64(HAS_DATA)), storage=storage, data=data)
                unlock(b, held)
        b.ret_void()


def _destroyed(native: NativeModule) -> None:
    """Cells that were destroyed, but whose `Buffer` Python still has: it forgets many of them at once."""
    native.word(_DESTROYED, _LIST.size // 8, is_own=True)
    # 0 where there are so many already that Python should do it now
    with native.function("destroy_later", "qp") as b:
        (cell,) = b.arguments
        destroyed = native.word(_DESTROYED)
        held = lock(b, _LIST, destroyed)
        count = b.get(_LIST, destroyed, "count")
        with b.if_then(b.icmp_unsigned(">=", count, I64(_MOST_DESTROYED))):
            unlock(b, held)
            b.ret(I64(0))
        b.set(CELL, cell, next=b.get(_LIST, destroyed, "first"))
        b.set(_LIST, destroyed, first=cell, count=b.add(count, I64(1)))
        unlock(b, held)
        b.ret(I64(1))
    with native.function("take_destroyed", "p") as b:
        destroyed = native.word(_DESTROYED)
        held = lock(b, _LIST, destroyed)
        first = b.get(_LIST, destroyed, "first", POINTER)
        b.set(_LIST, destroyed, first=0, count=0)
        unlock(b, held)
        b.ret(first)
    with native.function("free_cells", "vp") as b:
        with b.chain(CELL, b.arguments[0]) as cell:
            b.do("free_cell", "vp", cell)
        b.ret_void()


def _events(native: NativeModule) -> None:
    with native.function("new_event", "p") as b:  # one reference is the caller's, one that of who fires it
        event = b.do_c("malloc", "pq", I64(EVENT.size))
        b.set(EVENT, event, references=2, lock=0, is_done=0, waiting=0, error=0, is_asked=0)
        b.ret(event)
    # the PJRT_Error for one who asks; NULL where nothing went wrong
    with native.function("error_of", "pp") as b:
        (event,) = b.arguments
        error = b.get(EVENT, event, "error", POINTER)
        b.return_if(b.is_zero(error), NULL)
        b.ret(b.do(NEW_ERROR, "ppppp", error, b.get(EVENT, event, "is_asked", POINTER), NULL, NULL))
    with native.function("release_event", "vp") as b:
        (event,) = b.arguments
        before = b.add_to(b.pointer_at(event, EVENT.offset("references")), -1)
        with b.if_then(b.icmp_unsigned("==", before, I64(1))):
            error = b.get(EVENT, event, "error", POINTER)
            with b.if_then(b.not_(b.is_zero(error))):
                b.do(DROP_ERROR, "ppppp", error, NULL, NULL, NULL)
            b.do_c("free", "vp", event)
        b.ret_void()
    with native.function("await_event", "vpqp") as b:
        event, function, user = b.arguments
        held = lock(b, EVENT, event)
        is_pending = b.is_zero(b.get(EVENT, event, "is_done"))
        with b.if_then(is_pending):
            waiting = b.do_c("malloc", "pq", I64(WAITING.size))
            first = b.get(EVENT, event, "waiting", POINTER)
            b.set(WAITING, waiting, function=function, user=user, next=first)
            b.set(EVENT, event, waiting=waiting)
        unlock(b, held)
        b.return_if(is_pending)
        b.do_at(b.inttoptr(function, POINTER), "vpp", b.do("error_of", "pp", event), user)
        b.ret_void()
    with native.function("fire_event", "vp") as b:
        (event,) = b.arguments
        running = native.word(RUNNING)
        b.add_to(running, 1)
        is_retired = b.has(b.load_atomic(native.word(RETIRED), "seq_cst", 8, typ=I64), -1)
        with b.if_then(is_retired):  # what would be called back may be gone
            b.add_to(running, -1)
            b.ret_void()
        held = lock(b, EVENT, event)
        first = b.get(EVENT, event, "waiting", POINTER)
        b.set(EVENT, event, is_done=1, waiting=0)
        unlock(b, held)
        with b.chain(WAITING, first) as each:
            error, user = b.do("error_of", "pp", event), b.get(WAITING, each, "user", POINTER)
            b.do_at(b.get(WAITING, each, "function", POINTER), "vpp", error, user)
            b.do_c("free", "vp", each)
        b.do("release_event", "vp", event)
        b.add_to(running, -1)
        b.ret_void()


def _python(native: NativeModule) -> None:
    native.word(RETIRED, is_own=True)
    native.word(RUNNING, is_own=True)
    with native.function("drop_object", "vp") as b:
        running = native.word(RUNNING)
        b.add_to(running, 1)
        is_retired = b.has(b.load_atomic(native.word(RETIRED), "seq_cst", 8, typ=I64), -1)
        with b.if_then(b.not_(is_retired)):
            state = b.do_c("PyGILState_Ensure", "i")
            b.do_c("Py_DecRef", "vp", b.arguments[0])
            b.do_c("PyGILState_Release", "vi", state)
        b.add_to(running, -1)
        b.ret_void()
