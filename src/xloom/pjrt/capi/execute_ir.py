"""PJRT_LoadedExecutable_Execute without Python: a cheap program whose arguments are there, on the caller's thread.

First the donated arguments are taken out of their cells, then all others are held by a reference to their memory. Where
one is not there, or is another than the program's, everything is put back, and Python does it or says what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.distributed.records import BRIEF, RUN
from xloom.llvm.loop import loop
from xloom.llvm.types import I32, I64, POINTER
from xloom.pjrt.capi.ctypes_structs import struct
from xloom.pjrt.capi.host_buffer_ir import PYTHON_ONLY
from xloom.pjrt.capi.native_module import NULL, REFUSED, Attempt, Builder, Entry, NativeModule
from xloom.pjrt.capi.native_structs import (
    ARGUMENT,
    CELL,
    DATA_OFFSET,
    DELETED,
    GIVEN,
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
ATTEMPT = "execute_natively"
FAILED = "execute_failed"
"""A function of the plan and the arguments in Python: ends a run that has failed."""
_OPTIONS = struct("PJRT_ExecuteOptions")


def define(native: NativeModule) -> None:
    """The functions of this file."""
    _hold(native)
    _put_back(native)
    _result(native)
    _release(native)
    _run(native)
    with native.attempt(ATTEMPT, NAME) as attempt:
        _execute(attempt)
    with native.entry(NAME) as e:
        outcome = e.do(ATTEMPT, "pp", e.args)
        e.python_if(e.icmp_unsigned("==", e.ptrtoint(outcome, I64), I64(REFUSED)))
        e.ret(outcome)


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
    """The storage of a result: that of an argument which was donated, if nothing else refers to it, or a new one.

    Writes the address of the array, too."""
    with native.function("result_storage", "ppppp") as b:
        row, storages, pointers, place = b.arguments
        donated = b.get(RESULT, row, "donated_argument")
        with b.if_then(b.icmp_signed(">=", donated, I64(0))):
            slot = b.item(storages, donated)
            storage = b.load(slot, typ=POINTER)
            is_alone = b.icmp_unsigned("==", b.get_now(STORAGE, storage, "references"), I64(1))
            is_own, is_given = (
                b.icmp_unsigned("==", b.get_now(STORAGE, storage, "kind"), I64(kind)) for kind in (OWN, GIVEN)
            )
            with b.if_then(b.and_(is_alone, b.or_(is_own, is_given))):
                b.store(NULL, slot)
                b.store(b.load(b.item(pointers, donated), typ=POINTER), place)
                b.ret(storage)
        storage = b.do("new_storage", "pq", b.get(RESULT, row, "nbytes"))
        b.store(b.pointer_at(storage, DATA_OFFSET), place)
        b.ret(storage)


def _option(e: Entry, name: str) -> ir.Value:
    return e.load(e.pointer_at(e.arg("options"), getattr(_OPTIONS, name).offset), typ=I64)


def _milliseconds(b: Builder) -> ir.Value:
    """The time of the host's clock."""
    now = b.variable(ir.ArrayType(I64, 2))
    b.do_c("clock_gettime", "iip", I32(time.CLOCK_MONOTONIC), now)
    seconds, nanoseconds = (b.load(b.item(now, I64(k)), typ=I64) for k in range(2))
    return b.add(b.mul(seconds, I64(1000)), b.udiv(nanoseconds, I64(1_000_000)))


def _is_open(b: Builder, plan: ir.Value) -> ir.Value:
    """Not 0 after a run that has failed while other processes' data was on its way to its memory."""
    found = b.variable(I64)
    b.store(I64(0), found)
    brief = b.get(PLAN, plan, "brief", POINTER)
    with b.if_then(b.not_(b.is_zero(brief))):
        b.store(b.get(RUN, b.get(BRIEF, brief, "run", POINTER), "is_open"), found)
    return b.load(found, typ=I64)


def _run(native: NativeModule) -> None:
    """Runs the code on one device and lets go of its arguments; returns the code's number, and if that is not 0 has let
    go of the results as well. The first plan, given after the device's own, is told of long runs."""
    with native.function("run_on_device", "qpppp") as b:
        plan, first, storages, pointers = b.arguments
        count, results = b.get(PLAN, plan, "num_arguments"), b.get(PLAN, plan, "num_results")
        b.store(b.get(PLAN, plan, "participant", POINTER), b.item(pointers, count))
        made, result_pointers = (b.item(table, b.add(count, I64(1))) for table in (storages, pointers))
        with loop(b, 0, results, name="result") as k:
            row = b.item(b.get(PLAN, plan, "results", POINTER), k, RESULT)
            storage = b.do("result_storage", "ppppp", row, storages, pointers, b.item(result_pointers, k))
            b.store(storage, b.item(made, k))
        arena = b.do("new_storage", "pq", b.get(PLAN, plan, "arena"))
        main, constants = b.get(PLAN, plan, "main", POINTER), b.get(PLAN, plan, "constants", POINTER)
        is_watched = b.has(b.get(PLAN, first, "is_watched"), -1)
        begun = b.variable(I64)
        with b.if_then(is_watched):
            b.store(_milliseconds(b), begun)
        outcome = b.do_at(main, "ippppp", pointers, result_pointers, constants, b.pointer_at(arena, DATA_OFFSET), NULL)
        with b.if_then(is_watched):
            passed = b.sub(_milliseconds(b), b.load(begun, typ=I64))
            with b.if_then(b.icmp_signed(">", passed, I64(round(LONG * 1000))), likely=False):
                b.set(PLAN, first, is_watched=TOOK_LONG, is_native=0)
        b.do("release_storages", "vpq", storages, count)
        number = b.zext(outcome, I64)
        with b.if_then(b.not_(b.is_zero(outcome)), likely=False):
            with b.if_then(b.is_zero(_is_open(b, plan))):
                b.do("release_storage", "vp", arena)
                b.do("release_storages", "vpq", made, results)
            b.ret(number)
        b.do("release_storage", "vp", arena)
        b.ret(number)


def _release(native: NativeModule) -> None:
    """Lets go of a table of storages, which has none of them then."""
    with native.function("release_storages", "vpq") as b:
        storages, count = b.arguments
        with loop(b, 0, count, name="storage") as k:
            slot = b.item(storages, k)
            b.do("release_storage", "vp", b.load(slot, typ=POINTER))
            b.store(NULL, slot)
        b.ret_void()


class _OnDevice(NamedTuple):
    """What one of the devices of a run has."""

    number: ir.Value
    plan: ir.Value
    cells: ir.Value
    """The addresses of its arguments' handles; NULL if there are none."""
    storages: ir.Value
    """A table of those of the arguments, one word more, and those of the results."""
    pointers: ir.Value
    """A table of the arguments' addresses, that of the participant, and those of the results."""


@contextmanager
def _each_device(e: Entry, devices: ir.Value, tables: Sequence[ir.Value], size: ir.Value) -> Iterator[_OnDevice]:
    """A loop over the devices, each of which has so many words in each of the tables."""
    first = e.arg("executable")
    with loop(e, 0, devices, name="device") as number:
        row = e.variable(POINTER)
        e.store(NULL, row)
        with e.if_then(e.has(e.get(PLAN, first, "num_arguments"), -1)):
            e.store(e.load(e.item(e.arg("argument_lists"), number), typ=POINTER), row)
        storages, pointers = (e.item(table, e.mul(number, size)) for table in tables)
        yield _OnDevice(number, e.item(first, number, PLAN), e.load(row, typ=POINTER), storages, pointers)


def _execute(e: Attempt) -> None:
    first = e.arg("executable")
    e.python_if(e.is_zero(e.get_now(PLAN, first, "is_native")))
    e.python_if(e.has(e.load_atomic(e.native.word(PYTHON_ONLY), "acquire", 8, typ=I64), -1))
    count, donated = e.get(PLAN, first, "num_arguments"), e.get(PLAN, first, "num_donated")
    devices = e.get(PLAN, first, "num_devices")
    is_other = e.icmp_unsigned("!=", e.arg("num_args"), count)
    is_other = e.or_(is_other, e.icmp_unsigned("!=", e.arg("num_devices"), devices))
    is_other = e.or_(is_other, e.not_(e.is_zero(e.arg("execute_device"))))
    is_other = e.or_(is_other, e.has(e.or_(_option(e, "num_send_ops"), _option(e, "num_recv_ops")), -1))
    keeps = e.has(_option(e, "num_non_donatable_input_indices"), -1)
    e.python_if(e.or_(is_other, e.and_(keeps, e.has(donated, -1))))
    running = e.native.word(RUNNING)
    e.add_to(running, 1)
    results = e.get(PLAN, first, "num_results")
    size = e.add(e.add(count, results), I64(2))
    total = e.mul(devices, size)
    tables = [e.alloca(I64, total) for _ in range(2)]
    for table in tables:
        table.type = POINTER
    e.do_c("memset", "ppiq", tables[0], ir.IntType(32)(0), e.mul(total, I64(8)))

    def put_back() -> None:
        with _each_device(e, devices, tables, size) as d:
            e.do("put_back_arguments", "vppp", d.plan, d.cells, d.storages)
        e.add_to(running, -1)
        e.python()

    for are_donated in (1, 0):
        with _each_device(e, devices, tables, size) as d:
            is_held = e.do("hold_arguments", "qppppq", d.plan, d.cells, d.storages, d.pointers, I64(are_donated))
            with e.if_then(e.is_zero(is_held), likely=False):
                put_back()
    begin = e.get(PLAN, first, "begin", POINTER)
    turns = e.not_(e.is_zero(begin))
    with e.if_then(turns, likely=False):
        has_begun = e.do_at(begin, "ip", e.get(PLAN, first, "brief", POINTER))
        with e.if_then(e.is_zero(has_begun), likely=False):
            put_back()
    with _each_device(e, devices, tables, size) as d:
        failure = e.do("run_on_device", "qpppp", d.plan, first, d.storages, d.pointers)
        with e.if_then(e.has(failure, -1), likely=False):
            with e.if_then(e.icmp_unsigned(">", devices, I64(1))):  # what others have made, or still hold
                e.do("release_storages", "vpq", tables[0], total)
            e.add_to(running, -1)
            e.ret(e.do(FAILED, "ppppp", first, e.args, e.inttoptr(failure, POINTER), NULL))
    with e.if_then(turns, likely=False):
        e.do_at(e.get(PLAN, first, "end", POINTER), "vp", e.get(PLAN, first, "turns", POINTER))
    events = e.arg("device_complete_events")
    with _each_device(e, devices, tables, size) as d:
        with e.if_then(e.has(results, -1)):
            outputs = e.load(e.item(e.arg("output_lists"), d.number), typ=POINTER)
            rows, made = e.get(PLAN, d.plan, "results", POINTER), e.item(d.storages, e.add(count, I64(1)))
            result_pointers = e.item(d.pointers, e.add(count, I64(1)))
            with loop(e, 0, results, name="output") as k:
                record = e.get(RESULT, e.item(rows, k, RESULT), "record", POINTER)
                storage, data = (e.load(e.item(table, k), typ=POINTER) for table in (made, result_pointers))
                cell = e.do("new_cell", "ppppq", record, storage, data, I64(HAS_DATA))
                e.store(cell, e.item(outputs, k))
        with e.if_then(e.not_(e.is_zero(events))):
            e.store(I64(READY), e.item(events, d.number))
    e.add_to(running, -1)
    e.done()
