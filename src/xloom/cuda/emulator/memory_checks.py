"""What is done before each access of an emulated kernel: is it inside an array, at an address that serves, and does no
other thread touch it?

For each byte there is who wrote it last and who read it last: block, number of barriers until then, thread. Two
accesses of which one writes are in order if they are one thread's, or if the block's barriers are between them.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.thread_context import Access, Fault
from xloom.llvm.loop import allocate, loop
from xloom.llvm.types import I8, I32, I64, POINTER, VOID

_ATOMIC, _IN_FLIGHT = 2, 4
_THREAD_SHIFT, _EPOCH_SHIFT, _BLOCK_SHIFT = 3, 20, 40
"""In a word that says who: bit 0 is set; bit 1, that it was atomic; bit 2, that it may be yet to come."""
_THREADS, _EPOCHS, _BLOCKS = (1 << 17) - 1, (1 << 20) - 1, (1 << 24) - 1
"""The greatest numbers that there is room for: as a thread or a block, "several"."""
_STACK_BYTES = 64 << 10
"""How far from a function's own memory its callers' may be."""


def field(b: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
    """The address of a field."""
    return b.gep(base, [I64(offset)], inbounds=True, source_etype=I8)


def word(b: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
    """A field of 32 bits."""
    return b.load(field(b, base, offset), typ=I32)


def define_fault(module: ir.Module) -> None:
    """`void xloom_fault(ptr context, i32 fault, i32 site, i64 address, i32 other)`: the first one is kept."""
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I32, I32, I64, I32]), "xloom_fault")
    context, fault, site, address, other = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    launch = b.load(field(b, context, at.LAUNCH), typ=POINTER)
    with b.if_then(b.icmp_signed("==", word(b, launch, at.FAULT), I32(Fault.NONE))):
        values = {
            at.FAULT: fault,
            at.FAULT_SITE: site,
            at.FAULT_THREAD: word(b, context, at.THREAD),
            at.FAULT_BLOCK: word(b, context, at.BLOCK),
            at.FAULT_ADDRESS: address,
            at.FAULT_OTHER: other,
        }
        for offset, value in values.items():
            b.store(value, field(b, launch, offset))
    b.ret_void()


def define_access(module: ir.Module) -> None:
    """`ptr xloom_access(context, address, i64 nbytes, i64 alignment, i32 access, i32 site, ptr value)`: what to touch.

    `value` is what is to be written, where a write that changes nothing is none.
    """
    kinds = [POINTER, POINTER, I64, I64, I32, I32, POINTER]
    function = ir.Function(module, ir.FunctionType(POINTER, kinds), "xloom_access")
    _Check(ir.IRBuilder(function.append_basic_block("entry")), *function.args).emit()


class _Check:
    def __init__(
        self,
        b: ir.IRBuilder,
        context: ir.Value,
        address: ir.Value,
        nbytes: ir.Value,
        alignment: ir.Value,
        access: ir.Value,
        site: ir.Value,
        value: ir.Value,
    ):
        self.b, self.context, self.address, self.nbytes = b, context, address, nbytes
        self.alignment, self.access, self.site, self.value = alignment, access, site, value
        self.launch = b.load(field(b, context, at.LAUNCH), typ=POINTER)
        self.begin = b.ptrtoint(address, I64)

    def emit(self) -> None:
        b = self.b
        found = allocate(b, POINTER)
        b.store(ir.Constant(POINTER, None), found)
        ranges = b.load(field(b, self.launch, at.RANGES), typ=POINTER)
        end = b.add(self.begin, self.nbytes)
        with loop(b, I64(0), b.zext(word(b, self.launch, at.RANGE_COUNT), I64)) as k:
            entry = b.gep(ranges, [b.mul(k, I64(at.RANGE_BYTES))], source_etype=I8)
            inside = b.and_(
                b.icmp_unsigned(">=", self.begin, self._entry(entry, 0)),
                b.icmp_unsigned("<=", end, self._entry(entry, 1)),
            )
            with b.if_then(inside):
                b.store(entry, found)
        entry = b.load(found, typ=POINTER)
        with b.if_then(b.icmp_unsigned("==", b.ptrtoint(entry, I64), I64(0))):
            with b.if_then(self._is_on_stack()):
                b.ret(self.address)
            self._fault(Fault.OUT_OF_BOUNDS, I32(-1))
            b.ret(field(b, self.launch, at.DUMMY))
        beyond = b.and_(self.begin, b.sub(self.alignment, I64(1)))
        with b.if_then(b.icmp_signed("!=", beyond, I64(0))):
            self._fault(Fault.MISALIGNED, I32(-1))
            b.ret(field(b, self.launch, at.DUMMY))
        is_shared = b.icmp_signed("!=", self._entry(entry, 3), I64(0))
        shadow = b.inttoptr(self._entry(entry, 2), POINTER)
        first = b.sub(self.begin, self._entry(entry, 0))
        me = self._me()
        with loop(b, I64(0), self.nbytes) as k:
            place = b.mul(b.add(first, k), I64(2))
            written = b.gep(shadow, [place], source_etype=I64)
            read = b.gep(shadow, [b.add(place, I64(1))], source_etype=I64)
            with b.if_then(self._changes(k)):
                self._byte(written, read, me, is_shared)
        b.ret(self.address)

    def _is_on_stack(self) -> ir.Value:
        """Whether it is the thread's own memory, to which a pointer may lead that is chosen when the kernel runs."""
        b = self.b
        here = b.ptrtoint(allocate(b, I8), I64)
        distance = b.add(b.sub(self.begin, here), I64(_STACK_BYTES))
        return b.icmp_unsigned("<", distance, I64(2 * _STACK_BYTES))

    def _changes(self, k: ir.Value) -> ir.Value:
        """Whether byte k is read, or written, if writes that change nothing are none."""
        b = self.b
        changes = allocate(b, I8)
        b.store(I8(1), changes)
        with b.if_then(self._is(Access.WRITE_AGAIN)):
            old, new = (b.load(b.gep(p, [k], source_etype=I8), typ=I8) for p in (self.address, self.value))
            b.store(b.xor(old, new), changes)
        return b.icmp_unsigned("!=", b.load(changes, typ=I8), I8(0))

    def _entry(self, entry: ir.Value, number: int) -> ir.Value:
        return self.b.load(field(self.b, entry, 8 * number), typ=I64)

    def _me(self) -> ir.Value:
        b = self.b
        block = b.add(b.zext(word(b, self.context, at.BLOCK), I64), I64(1))
        epoch = b.and_(b.zext(word(b, self.launch, at.EPOCH), I64), I64(_EPOCHS))
        thread = b.zext(word(b, self.context, at.THREAD), I64)
        who = b.or_(b.shl(block, I64(_BLOCK_SHIFT)), b.shl(epoch, I64(_EPOCH_SHIFT)))
        return b.or_(b.or_(who, b.shl(thread, I64(_THREAD_SHIFT))), I64(1))

    def _is(self, access: Access) -> ir.Value:
        return self.b.icmp_signed("==", self.access, I32(access))

    def _byte(self, written: ir.Value, read: ir.Value, me: ir.Value, is_shared: ir.Value) -> None:
        b = self.b
        writer, reader = b.load(written, typ=I64), b.load(read, typ=I64)
        arrives = self._is(Access.ARRIVAL)
        with b.if_else(arrives) as (then, otherwise):
            with then:
                b.store(me, written)
                b.store(I32(1), field(b, self.context, at.UNFENCED))
            with otherwise:
                self._touched((written, writer), (read, reader), me, is_shared)

    def _touched(
        self, written: tuple[ir.Value, ir.Value], read: tuple[ir.Value, ir.Value], me: ir.Value, is_shared: ir.Value
    ) -> None:
        """Who has written and read a byte: where that is, and the word itself."""
        b = self.b
        (writer_place, writer), (reader_place, reader) = written, read
        with b.if_then(b.icmp_signed("!=", b.and_(writer, I64(_IN_FLIGHT)), I64(0))):
            self._fault(Fault.IN_FLIGHT, self._thread(writer))
        is_product = b.and_(self._is(Access.PRODUCT), b.icmp_signed("!=", writer, I64(0)))
        with b.if_then(is_product):
            distance = b.sub(self._thread(writer), word(b, self.context, at.THREAD))
            other = b.gep(self.context, [b.mul(b.sext(distance, I64), I64(at.STRIDE))], source_etype=I8)
            with b.if_then(b.icmp_signed("!=", word(b, other, at.UNFENCED), I32(0))):
                self._fault(Fault.UNFENCED, self._thread(writer))
        reads, is_atomic = b.or_(self._is(Access.READ), self._is(Access.PRODUCT)), self._is(Access.ATOMIC)
        never = b.and_(b.icmp_signed("==", writer, I64(0)), is_shared)
        with b.if_then(b.and_(never, b.or_(reads, is_atomic))):
            self._fault(Fault.UNINITIALISED, I32(-1))
        both_atomic = b.and_(is_atomic, b.icmp_signed("!=", b.and_(writer, I64(_ATOMIC)), I64(0)))
        with b.if_then(b.and_(self._conflicts(writer, me), b.not_(both_atomic))):
            self._fault(Fault.RACE, self._thread(writer))
        with b.if_then(b.and_(self._conflicts(reader, me), b.not_(reads))):
            self._fault(Fault.RACE, self._thread(reader))
        with b.if_else(reads) as (then, otherwise):
            with then:
                b.store(self._readers(reader, me), reader_place)
            with otherwise:
                begins = b.select(self._is(Access.COPY), b.or_(me, I64(_IN_FLIGHT)), me)
                b.store(b.select(is_atomic, b.or_(me, I64(_ATOMIC)), begins), writer_place)
                with b.if_then(b.and_(is_shared, b.not_(self._is(Access.COPY)))):
                    b.store(I32(1), field(b, self.context, at.UNFENCED))

    def _conflicts(self, other: ir.Value, me: ir.Value) -> ir.Value:
        b = self.b
        same_epoch = self._same(other, me, _EPOCH_SHIFT, _EPOCHS)
        same_thread = self._same(other, me, _THREAD_SHIFT, _THREADS)
        in_block = b.and_(same_epoch, b.not_(same_thread))
        apart = b.not_(self._same(other, me, _BLOCK_SHIFT, _BLOCKS))
        return b.and_(b.icmp_signed("!=", other, I64(0)), b.or_(apart, in_block))

    def _readers(self, reader: ir.Value, me: ir.Value) -> ir.Value:
        """Who has read a byte when this thread has: the newest reader, or several."""
        b = self.b
        several_threads = b.or_(me, I64(_THREADS << _THREAD_SHIFT))
        several_blocks = b.or_(me, I64(_BLOCKS << _BLOCK_SHIFT))
        newer = b.not_(self._same(reader, me, _EPOCH_SHIFT, _EPOCHS))
        alone = b.or_(newer, self._same(reader, me, _THREAD_SHIFT, _THREADS))
        in_block = b.select(alone, me, several_threads)
        found = b.select(self._same(reader, me, _BLOCK_SHIFT, _BLOCKS), in_block, several_blocks)
        return b.select(b.icmp_signed("==", reader, I64(0)), me, found)

    def _same(self, x: ir.Value, y: ir.Value, shift: int, mask: int) -> ir.Value:
        b = self.b
        differing = b.and_(b.lshr(b.xor(x, y), I64(shift)), I64(mask))
        return b.icmp_signed("==", differing, I64(0))

    def _thread(self, who: ir.Value) -> ir.Value:
        b = self.b
        return b.trunc(b.and_(b.lshr(who, I64(_THREAD_SHIFT)), I64(_THREADS)), I32)

    def _fault(self, fault: Fault, other: ir.Value) -> None:
        record = self.b.module.globals["xloom_fault"]
        self.b.call(record, [self.context, I32(fault), self.site, self.begin, other])
