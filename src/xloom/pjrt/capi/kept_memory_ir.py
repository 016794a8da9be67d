"""Memory of arrays that nobody refers to any more, for the next ones of the same size.

What goes back to the system comes again as pages that are not there yet, and to have one made takes longer than to fill
it: a program that only makes arrays would take twice as long.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.types import I64, POINTER
from xloom.pjrt.capi.native_module import NULL, Builder, NativeModule
from xloom.pjrt.capi.words import OWN, STORAGE, Words

LEAST = 1 << 16
"""Bytes of an array that is kept: malloc gives smaller ones again with their pages."""
MOST = 1 << 28
"""Bytes that are kept. Where there would be more, all go, as nobody may ask for those sizes again."""
_CHAINS = 256
_GOLDEN = 0x9E3779B97F4A7C15
"""By which a size is multiplied, whose upper bits then are a chain's number."""
_STATE, _FIRST, _WORDS = "kept_memory", "kept_chains", Words("lock", "bytes")


def define(native: NativeModule) -> None:
    """The functions of this file."""
    native.word(_STATE, _WORDS.size // 8, is_own=True)
    native.word(_FIRST, _CHAINS, is_own=True)
    # a storage for so many bytes, or NULL
    with native.function("take_kept", "pq") as b:
        (nbytes,) = b.arguments
        b.return_if(b.icmp_unsigned("<", nbytes, I64(LEAST)), NULL)
        state = _locked(b)
        link = b.variable(POINTER)  # where the address of the storage at hand is
        b.store(_chain(b, nbytes), link)
        look, body = (b.append_basic_block(name) for name in ("look", "body"))
        b.branch(look)
        b.position_at_end(look)
        storage = b.load(b.load(link, typ=POINTER), typ=POINTER)
        with b.if_then(b.is_zero(storage)):
            _unlock(b, state)
            b.ret(NULL)
        b.branch(body)
        b.position_at_end(body)
        with b.if_then(b.icmp_unsigned("==", b.get(STORAGE, storage, "nbytes"), nbytes)):
            b.store(b.get(STORAGE, storage, "next", POINTER), b.load(link, typ=POINTER))
            b.set(_WORDS, state, bytes=b.sub(b.get(_WORDS, state, "bytes"), nbytes))
            _unlock(b, state)
            b.set(STORAGE, storage, references=1, kind=OWN, owner=0)
            b.ret(storage)
        b.store(b.place(storage, STORAGE.offset("next")), link)
        b.branch(look)
    # 0 where it is the caller's to free
    with native.function("keep_storage", "qp") as b:
        (storage,) = b.arguments
        nbytes = b.get(STORAGE, storage, "nbytes")
        outside = b.icmp_unsigned(">", b.sub(nbytes, I64(LEAST)), I64(MOST - LEAST))
        b.return_if(outside, I64(0))
        state = _locked(b)
        with b.if_then(b.icmp_unsigned(">", b.add(b.get(_WORDS, state, "bytes"), nbytes), I64(MOST)), likely=False):
            b.do("forget_kept", "v")
        chain = _chain(b, nbytes)
        b.set(STORAGE, storage, next=b.load(chain, typ=POINTER))
        b.store(storage, chain)
        b.set(_WORDS, state, bytes=b.add(b.get(_WORDS, state, "bytes"), nbytes))
        _unlock(b, state)
        b.ret(I64(1))
    with native.function("forget_kept", "v") as b:  # under the lock
        with loop(b, 0, _CHAINS) as k:
            first = b.item(native.word(_FIRST), k)
            look, body, done = (b.append_basic_block(name) for name in ("look", "body", "done"))
            b.branch(look)
            b.position_at_end(look)
            storage = b.load(first, typ=POINTER)
            b.cbranch(b.is_zero(storage), done, body)
            b.position_at_end(body)
            b.store(b.get(STORAGE, storage, "next", POINTER), first)
            b.do_c("free", "vp", b.get(STORAGE, storage, "raw", POINTER))
            b.branch(look)
            b.position_at_end(done)
        b.set(_WORDS, native.word(_STATE), bytes=0)
        b.ret_void()


def _chain(b: Builder, nbytes: ir.Value) -> ir.Value:
    """Where the chain for storages of that size begins."""
    number = b.lshr(b.mul(nbytes, I64(_GOLDEN)), I64(64 - _CHAINS.bit_length() + 1))
    return b.item(b.native.word(_FIRST), number)


def _locked(b: Builder) -> ir.Value:
    state = b.native.word(_STATE)
    b.do("lock", "vp", b.place(state, _WORDS.offset("lock")))
    return state


def _unlock(b: Builder, state: ir.Value) -> None:
    b.do("unlock", "vp", b.place(state, _WORDS.offset("lock")))
