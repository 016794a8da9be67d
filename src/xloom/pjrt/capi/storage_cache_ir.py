"""Memory of unreferenced arrays, for the next ones of the same size.

What goes back to the system comes again as pages that are not there yet, and to have one made takes longer than to fill
it: a program that only makes arrays would take twice as long. They are mapped each by itself, so that what is not kept
does go back, whatever lies around it.
"""

from __future__ import annotations

import mmap

from llvmlite import ir

from xloom.cpu.runtime.memory_pool import HUGE_BYTES
from xloom.llvm.loop import loop
from xloom.llvm.struct_layout import StructLayout
from xloom.llvm.types import I32, I64, POINTER
from xloom.pjrt.capi.native_module import NULL, Builder, NativeModule
from xloom.pjrt.capi.native_structs import DATA_OFFSET, OWN, STORAGE
from xloom.pjrt.capi.storage_ir import lock, unlock

MOST = 1 << 28
"""Bytes that are kept. Where there would be more, all go, as those sizes may never be asked for again."""
_CHAINS = 256
_GOLDEN = 0x9E3779B97F4A7C15
"""By which a size is multiplied, whose upper bits then are a chain's number."""
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
"""Linux's advice that memory should have them."""
_STATE, _FIRST, _CACHE = "storage_cache", "storage_chains", StructLayout("lock", "bytes")


def define(native: NativeModule) -> None:
    """The functions of this file."""
    native.word(_STATE, _CACHE.size // 8, is_own=True)
    native.word(_FIRST, _CHAINS, is_own=True)
    with native.function("take_storage", "pq") as b:
        (nbytes,) = b.arguments
        state = native.word(_STATE)
        held = lock(b, _CACHE, state)
        link = b.variable(POINTER)  # where the address of the storage at hand is
        b.store(_chain(b, nbytes), link)
        look, body, missing = (b.append_basic_block(name) for name in ("look", "body", "missing"))
        b.branch(look)
        b.position_at_end(look)
        storage = b.load(b.load(link, typ=POINTER), typ=POINTER)
        b.cbranch(b.is_zero(storage), missing, body)
        b.position_at_end(body)
        with b.if_then(b.icmp_unsigned("==", b.get(STORAGE, storage, "nbytes"), nbytes)):
            b.store(b.get(STORAGE, storage, "next", POINTER), b.load(link, typ=POINTER))
            b.set(_CACHE, state, bytes=b.sub(b.get(_CACHE, state, "bytes"), nbytes))
            unlock(b, held)
            b.set(STORAGE, storage, references=1, kind=OWN, owner=0)
            b.ret(storage)
        b.store(b.pointer_at(storage, STORAGE.offset("next")), link)
        b.branch(look)
        b.position_at_end(missing)
        unlock(b, held)
        b.ret(_mapped(b, nbytes))
    with native.function("cache_storage", "vp") as b:
        (storage,) = b.arguments
        nbytes = b.get(STORAGE, storage, "nbytes")
        with b.if_then(b.icmp_unsigned(">", nbytes, I64(MOST))):
            _unmap(b, storage)
            b.ret_void()
        state = native.word(_STATE)
        held = lock(b, _CACHE, state)
        with b.if_then(b.icmp_unsigned(">", b.add(b.get(_CACHE, state, "bytes"), nbytes), I64(MOST)), likely=False):
            b.do("clear_storage_cache", "v")
        chain = _chain(b, nbytes)
        b.set(STORAGE, storage, next=b.load(chain, typ=POINTER))
        b.store(storage, chain)
        b.set(_CACHE, state, bytes=b.add(b.get(_CACHE, state, "bytes"), nbytes))
        unlock(b, held)
        b.ret_void()
    with native.function("clear_storage_cache", "v") as b:  # under the lock
        with loop(b, 0, _CHAINS) as k:
            first = b.item(native.word(_FIRST), k)
            with b.chain(STORAGE, b.load(first, typ=POINTER)) as storage:
                _unmap(b, storage)
            b.store(NULL, first)
        b.set(_CACHE, native.word(_STATE), bytes=0)
        b.ret_void()


def _mapped(b: Builder, nbytes: ir.Value) -> ir.Value:
    """A new storage."""
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    size = b.add(nbytes, I64(DATA_OFFSET))
    storage = b.do_c("mmap", "ppqiiiq", NULL, size, I32(access), I32(kind), I32(-1), I64(0))
    if _HUGE_PAGES is not None:
        with b.if_then(b.icmp_unsigned(">=", nbytes, I64(HUGE_BYTES))):
            b.do_c("madvise", "ipqi", storage, size, I32(_HUGE_PAGES))
    b.set(STORAGE, storage, references=1, kind=OWN, owner=0, nbytes=nbytes)
    return storage


def _unmap(b: Builder, storage: ir.Value) -> None:
    b.do_c("munmap", "ipq", storage, b.add(b.get(STORAGE, storage, "nbytes"), I64(DATA_OFFSET)))


def _chain(b: Builder, nbytes: ir.Value) -> ir.Value:
    """Where the chain for storages of that size begins."""
    number = b.lshr(b.mul(nbytes, I64(_GOLDEN)), I64(64 - _CHAINS.bit_length() + 1))
    return b.item(b.native.word(_FIRST), number)
