"""PJRT_LoadedExecutable_Execute without Python: a cheap program whose arguments are there, on the caller's thread.

First the donated arguments are taken out of their cells, then all others are held by a reference to their memory. Where
one is not there, or is another than the program's, everything is put back, and Python does it or says what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from xloom.distributed.records import BRIEF, RUN
from xloom.llvm.loop import loop
from xloom.llvm.types import I32, I64, POINTER
from xloom.pjrt.capi.host_buffer_ir import PYTHON_ONLY
from xloom.pjrt.capi.memory import struct
from xloom.pjrt.capi.native_module import NULL, Builder, Entry, NativeModule
from xloom.pjrt.capi.native_structs import (
    ARGUMENT,
    CELL,
    DATA_OFFSET,
    DELETED,
    HAS_DATA,
    IN_PYTHON,
    OWN,
    PLAN,
    READY,
    RESULT,
    STORAGE,
    TOOK_LONG,
)
from xloom.pjrt.capi.storage_ir import RUNNING, lock, unlock
from xloom.pjrt.run_lengths import LONG

NAME = "PJRT_LoadedExecutable_Execute"
FAILED = "execute_failed"
"""A function of the plan and the arguments in Python: ends a run that has failed."""
_OPTIONS = struct("PJRT_ExecuteOptions")


def define(native: NativeModule) -> None:
    """The functions of this file."""
    _hold(native)
    _put_back(native)
    _result(native)
    with native.entry(NAME) as e:
        _execute(e)


@contextmanager
def _each_argument(b: Builder, plan: ir.Value, cells: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """A loop over the arguments: their numbers, cells, and rows of the plan."""
    rows = b.get(PLAN, plan, "arguments", POINTER)
    with loop(b, 0, b.get(PLAN, plan, "num_arguments"), name="argument") as k:
        yield k, b.load(b.item(cells, k), typ=POINTER), b.item(rows, k, ARGUMENT)


def _hold(native: NativeModule) -> None:
    """Writes the arguments' storages and addresses to tables; returns 0 where one of them is not for native code.

    The last argument says which: those that are donated, or all others."""
    with native.function("hold_arguments", "qppppq") as b:
        plan, cells, storages, pointers, donated = b.arguments
        with _each_argument(b, plan, cells) as (k, cell, row):
            is_asked = b.icmp_unsigned("==", b.get(ARGUMENT, row, "is_donated"), donated)
            with b.if_then(is_asked):
                is_known = b.icmp_unsigned("==", b.get(CELL, cell, "record"), b.get(ARGUMENT, row, "record"))
                b.return_if(b.not_(is_known), I64(0))
                held = lock(b, CELL, cell)
                state = b.get(CELL, cell, "state")
                storage = b.get(CELL, cell, "storage", POINTER)
                is_there = b.icmp_unsigned("==", b.and_(state, I64(HAS_DATA | DELETED)), I64(HAS_DATA))
                is_free = b.and_(b.is_zero(b.get(CELL, cell, "external")), b.not_(b.has(state, IN_PYTHON)))
                is_donated = b.icmp_unsigned("!=", donated, I64(0))
                is_good = b.and_(is_there, b.or_(is_free, b.not_(is_donated)))
                with b.if_then(b.not_(is_good)):
                    unlock(b, held)
                    b.ret(I64(0))
                with b.if_else(is_donated) as (then, otherwise):
                    with then:
                        b.set(CELL, cell, state=DELETED, storage=NULL)
                    with otherwise:
                        b.add_to(b.pointer_at(storage, STORAGE.offset("references")), 1)
                b.store(storage, b.item(storages, k))
                b.store(b.get(CELL, cell, "data"), b.item(pointers, k))
                unlock(b, held)
        b.ret(I64(1))


def _put_back(native: NativeModule) -> None:
    """Undoes what `hold_arguments` has done so far. A cell that Python has seen meanwhile stays deleted."""
    with native.function("put_back_arguments", "vppp") as b:
        plan, cells, storages = b.arguments
        left = b.variable(POINTER)
        with _each_argument(b, plan, cells) as (k, cell, row):
            storage = b.load(b.item(storages, k), typ=POINTER)
            with b.if_then(b.not_(b.is_zero(storage))):
                b.store(storage, left)
                with b.if_then(b.has(b.get(ARGUMENT, row, "is_donated"), -1)):
                    held = lock(b, CELL, cell)
                    with b.if_then(b.icmp_unsigned("==", b.get(CELL, cell, "state"), I64(DELETED))):
                        b.set(CELL, cell, state=HAS_DATA, storage=storage)
                        b.store(NULL, left)
                    unlock(b, held)
                b.do("release_storage", "vp", b.load(left, typ=POINTER))
        b.ret_void()


def _result(native: NativeModule) -> None:
    """The storage of a result: that of an argument which was donated, if nothing else refers to it, or a new one."""
    with native.function("result_storage", "ppp") as b:
        row, storages = b.arguments
        donated = b.get(RESULT, row, "donated_argument")
        with b.if_then(b.icmp_signed(">=", donated, I64(0))):
            slot = b.item(storages, donated)
            storage = b.load(slot, typ=POINTER)
            is_alone = b.icmp_unsigned("==", b.get_now(STORAGE, storage, "references"), I64(1))
            is_own = b.icmp_unsigned("==", b.get(STORAGE, storage, "kind"), I64(OWN))
            with b.if_then(b.and_(is_alone, is_own)):
                b.store(NULL, slot)
                b.ret(storage)
        b.ret(b.do("new_storage", "pq", b.get(RESULT, row, "nbytes")))


def _option(e: Entry, name: str) -> ir.Value:
    return e.load(e.pointer_at(e.arg("options"), getattr(_OPTIONS, name).offset), typ=I64)


def _milliseconds(e: Entry) -> ir.Value:
    """The time of the host's clock."""
    now = e.variable(ir.ArrayType(I64, 2))
    e.do_c("clock_gettime", "iip", I32(time.CLOCK_MONOTONIC), now)
    seconds, nanoseconds = (e.load(e.item(now, I64(k)), typ=I64) for k in range(2))
    return e.add(e.mul(seconds, I64(1000)), e.udiv(nanoseconds, I64(1_000_000)))


def _is_open(e: Entry, plan: ir.Value, turns: ir.Value) -> ir.Value:
    """Not 0 after a run that has failed while other processes' data was on its way to its memory."""
    found = e.variable(I64)
    e.store(I64(0), found)
    with e.if_then(turns):
        run = e.get(BRIEF, e.get(PLAN, plan, "brief", POINTER), "run", POINTER)
        e.store(e.get(RUN, run, "is_open"), found)
    return e.load(found, typ=I64)


def _execute(e: Entry) -> None:
    plan = e.arg("executable")
    e.python_if(e.is_zero(e.get_now(PLAN, plan, "is_native")))
    e.python_if(e.has(e.load_atomic(e.native.word(PYTHON_ONLY), "acquire", 8, typ=I64), -1))
    count, donated = e.get(PLAN, plan, "num_arguments"), e.get(PLAN, plan, "num_donated")
    is_other = e.icmp_unsigned("!=", e.arg("num_args"), count)
    is_other = e.or_(is_other, e.icmp_unsigned("!=", e.arg("num_devices"), I64(1)))
    is_other = e.or_(is_other, e.not_(e.is_zero(e.arg("execute_device"))))
    is_other = e.or_(is_other, e.has(e.or_(_option(e, "num_send_ops"), _option(e, "num_recv_ops")), -1))
    keeps = e.has(_option(e, "num_non_donatable_input_indices"), -1)
    e.python_if(e.or_(is_other, e.and_(keeps, e.has(donated, -1))))
    running = e.native.word(RUNNING)
    e.add_to(running, 1)
    results = e.get(PLAN, plan, "num_results")
    total = e.add(e.add(count, results), I64(2))
    storages, pointers = (e.alloca(I64, total) for _ in range(2))
    storages.type = pointers.type = POINTER
    e.do_c("memset", "ppiq", storages, ir.IntType(32)(0), e.mul(total, I64(8)))
    row = e.variable(POINTER)
    e.store(NULL, row)
    with e.if_then(e.has(count, -1)):
        e.store(e.load(e.arg("argument_lists"), typ=POINTER), row)
    cells = e.load(row, typ=POINTER)
    for are_donated in (1, 0):
        is_held = e.do("hold_arguments", "qppppq", plan, cells, storages, pointers, I64(are_donated))
        with e.if_then(e.is_zero(is_held), likely=False):
            e.do("put_back_arguments", "vppp", plan, cells, storages)
            e.add_to(running, -1)
            e.python()
    begin = e.get(PLAN, plan, "begin", POINTER)
    turns = e.not_(e.is_zero(begin))
    with e.if_then(turns, likely=False):
        has_begun = e.do_at(begin, "ip", e.get(PLAN, plan, "brief", POINTER))
        with e.if_then(e.is_zero(has_begun), likely=False):
            e.do("put_back_arguments", "vppp", plan, cells, storages)
            e.add_to(running, -1)
            e.python()
    e.store(e.get(PLAN, plan, "participant", POINTER), e.item(pointers, count))
    rows = e.get(PLAN, plan, "results", POINTER)
    made, result_pointers = e.item(storages, count), e.item(pointers, e.add(count, I64(1)))
    with loop(e, 0, results, name="result") as k:
        storage = e.do("result_storage", "ppp", e.item(rows, k, RESULT), storages)
        e.store(storage, e.item(made, k))
        e.store(e.pointer_at(storage, DATA_OFFSET), e.item(result_pointers, k))
    arena = e.do("new_storage", "pq", e.get(PLAN, plan, "arena"))
    main, constants = e.get(PLAN, plan, "main", POINTER), e.get(PLAN, plan, "constants", POINTER)
    is_watched = e.has(e.get(PLAN, plan, "is_watched"), -1)
    begun = e.variable(I64)
    with e.if_then(is_watched):
        e.store(_milliseconds(e), begun)
    outcome = e.do_at(main, "ippppp", pointers, result_pointers, constants, e.pointer_at(arena, DATA_OFFSET), NULL)
    with e.if_then(is_watched):
        passed = e.sub(_milliseconds(e), e.load(begun, typ=I64))
        with e.if_then(e.icmp_signed(">", passed, I64(round(LONG * 1000))), likely=False):
            e.set(PLAN, plan, is_watched=TOOK_LONG, is_native=0)
    with loop(e, 0, count, name="held") as k:
        e.do("release_storage", "vp", e.load(e.item(storages, k), typ=POINTER))
    with e.if_then(e.not_(e.is_zero(outcome)), likely=False):
        with e.if_then(e.is_zero(_is_open(e, plan, turns))):
            e.do("release_storage", "vp", arena)
            with loop(e, 0, results, name="unmade") as k:
                e.do("release_storage", "vp", e.load(e.item(made, k), typ=POINTER))
        e.add_to(running, -1)
        number = e.inttoptr(e.zext(outcome, I64), POINTER)
        e.ret(e.do(FAILED, "ppppp", plan, e.args, number, NULL))
    e.do("release_storage", "vp", arena)
    with e.if_then(turns, likely=False):
        e.do_at(e.get(PLAN, plan, "end", POINTER), "vp", e.get(PLAN, plan, "turns", POINTER))
    with e.if_then(e.has(results, -1)):
        outputs = e.load(e.arg("output_lists"), typ=POINTER)
        with loop(e, 0, results, name="output") as k:
            record = e.get(RESULT, e.item(rows, k, RESULT), "record", POINTER)
            storage, data = (e.load(e.item(table, k), typ=POINTER) for table in (made, result_pointers))
            cell = e.do("new_cell", "ppppq", record, storage, data, I64(HAS_DATA))
            e.store(cell, e.item(outputs, k))
    events = e.arg("device_complete_events")
    with e.if_then(e.not_(e.is_zero(events))):
        e.store(I64(READY), events)
    e.add_to(running, -1)
    e.done()
