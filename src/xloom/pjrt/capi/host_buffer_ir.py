"""PJRT_Client_BufferFromHostBuffer without Python: arrays that are lent, and small ones that are copied.

Which record a buffer gets is looked up in a table: by a hash of memory, type and dimensions, one record per place.
Python makes buffers of kinds that are not there, and puts them there.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.loop import loop
from xloom.llvm.types import I64, POINTER
from xloom.pjrt.buffer import HostBufferSemantics
from xloom.pjrt.capi.native_module import Builder, Entry, NativeModule
from xloom.pjrt.capi.native_structs import BUFFER, DATA_OFFSET, HAS_DATA, LENT, NATIVE_EVENT, READY

NAME = "PJRT_Client_BufferFromHostBuffer"
PYTHON_ONLY = "python_only"
"""A word that is not 0 while Python must see every call: a trace is being taken."""
_KNOWN, _PLACES = "known_records", 1 << 10
_COPIED_BYTES = 1 << 18
"""Larger arrays Python copies, to memory that it uses again."""
_FEW_BYTES = 1 << 10
"""So few are copied in less time than it takes to tell the host when its array is not used any more."""
_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # odd and without a pattern: the golden ratio's bits
_TOP = 54  # the bits of a product that depend on all others: as many as number the places


def define(native: NativeModule) -> None:
    """The functions of this file."""
    native.word(PYTHON_ONLY, is_own=True)
    native.word(_KNOWN, _PLACES, is_own=True)
    with native.function("remember_record", "vp") as b:
        (record,) = b.arguments
        memory, kind, rank = (b.get(BUFFER, record, name) for name in ("memory", "type", "num_dims"))
        slot = _slot(b, memory, kind, rank, b.get(BUFFER, record, "dims", POINTER))
        b.atomic_rmw("xchg", slot, b.ptrtoint(record, I64), "release")
        b.ret_void()
    with native.entry(NAME) as e:
        _from_host(e)


def _slot(b: Builder, memory: ir.Value, kind: ir.Value, rank: ir.Value, dims: ir.Value) -> ir.Value:
    """Where the record of such buffers is, if it is anywhere."""
    state = b.variable(I64)
    b.store(b.mul(b.add(b.mul(memory, I64(_FACTOR)), b.add(kind, b.shl(rank, I64(8)))), I64(_FACTOR)), state)
    with loop(b, 0, rank, name="hashed") as d:
        size = b.load(b.item(dims, d), typ=I64)
        b.store(b.mul(b.xor(b.load(state, typ=I64), size), I64(_FACTOR)), state)
    return b.item(b.native.word(_KNOWN), b.lshr(b.load(state, typ=I64), I64(_TOP)))


def _from_host(e: Entry) -> None:
    e.python_if(e.has(e.load_atomic(e.native.word(PYTHON_ONLY), "acquire", 8, typ=I64), -1))
    memory, data, dims, rank = e.arg("memory"), e.arg("data"), e.arg("dims"), e.arg("num_dims")
    is_other = e.not_(e.is_zero(e.arg("device_layout")))
    e.python_if(e.or_(is_other, e.or_(e.is_zero(memory), e.is_zero(data))))
    memory, kind = e.ptrtoint(memory, I64), e.zext(e.arg("type"), I64)
    record = e.load_atomic(_slot(e, memory, kind, rank, dims), "acquire", 8, typ=POINTER)
    e.python_if(e.is_zero(record))
    for name, wanted in (("memory", memory), ("type", kind), ("num_dims", rank)):
        e.python_if(e.icmp_unsigned("!=", e.get(BUFFER, record, name), wanted))
    known = e.get(BUFFER, record, "dims", POINTER)
    with loop(e, 0, rank, name="compared") as d:
        sizes = (e.load(e.item(table, d), typ=I64) for table in (known, dims))
        e.python_if(e.icmp_unsigned("!=", *sizes))
    _python_unless_dense(e, dims, rank, e.get(BUFFER, record, "itemsize"))
    skew = e.urem(e.ptrtoint(data, I64), e.get(BUFFER, record, "itemsize"))
    e.python_if(e.not_(e.is_zero(skew)))
    _make(e, record, data, e.get(BUFFER, record, "nbytes"))


def _python_unless_dense(e: Entry, dims: ir.Value, rank: ir.Value, itemsize: ir.Value) -> None:
    """Strides are not looked at where they mean nothing: of dimensions of size 1."""
    stride_count = e.arg("num_byte_strides")
    strides, stride = e.arg("byte_strides"), e.variable(I64)
    e.store(itemsize, stride)
    with e.if_then(e.not_(e.is_zero(stride_count))):
        e.python_if(e.icmp_unsigned("!=", stride_count, rank))
        with loop(e, 0, rank, name="stride") as k:
            d = e.sub(e.sub(rank, I64(1)), k)
            size, dense = e.load(e.item(dims, d), typ=I64), e.load(stride, typ=I64)
            found = e.load(e.item(strides, d), typ=I64)
            is_other = e.icmp_unsigned("!=", found, dense)
            e.python_if(e.and_(is_other, e.icmp_unsigned("!=", size, I64(1))))
            e.store(e.mul(dense, size), stride)


def _make(e: Entry, record: ir.Value, data: ir.Value, nbytes: ir.Value) -> None:
    semantics = e.zext(e.arg("host_buffer_semantics"), I64)
    may_lend = e.icmp_unsigned(">=", semantics, I64(HostBufferSemantics.IMMUTABLE_ZERO_COPY))
    must_lend = e.icmp_unsigned("==", semantics, I64(HostBufferSemantics.MUTABLE_ZERO_COPY))
    is_lent = e.and_(may_lend, e.or_(must_lend, e.icmp_unsigned(">", nbytes, I64(_FEW_BYTES))))
    with e.if_then(is_lent):
        event = e.do("new_event", "p")
        storage = e.do("foreign_storage", "pqp", I64(LENT), event)
        cell = e.do("new_cell", "ppppq", record, storage, data, I64(HAS_DATA))
        e.answer(buffer=cell, done_with_host_buffer=e.pointer_at(event, NATIVE_EVENT))
        e.done()
    e.python_if(e.icmp_unsigned(">", nbytes, I64(_COPIED_BYTES)))
    storage = e.do("new_storage", "pq", nbytes)
    copy = e.pointer_at(storage, DATA_OFFSET)
    e.do_c("memcpy", "pppq", copy, data, nbytes)
    cell = e.do("new_cell", "ppppq", record, storage, copy, I64(HAS_DATA))
    e.answer(buffer=cell, done_with_host_buffer=e.inttoptr(I64(READY), POINTER))
    e.done()
