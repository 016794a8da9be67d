"""What emulated kernels call, as LLVM IR: the scheduler of a block's threads, and the operations of a warp."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from llvmlite import ir

from xloom.cuda.emulator import async_copies, warpgroup
from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.memory_checks import define_access, define_fault, field, word
from xloom.cuda.emulator.thread_context import Fault, State
from xloom.llvm.jit import Library, process_code
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import repeat
from xloom.llvm.target import process_target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import DOUBLE, FLOAT, I8, I16, I32, I64, POINTER, VOID

RUN_BLOCK = "xloom_run_block"
SHUFFLES = ("up", "down", "bfly", "idx")
MMA_KINDS = {"bf16": I16, "f16": I16, "tf32": I32}
"""Element types of products of tiles, and what lies in a register for each."""
_WORDS = ir.LiteralStructType([I32] * 4)

_Body = Callable[[ir.IRBuilder, Sequence[ir.Value]], None]


@lru_cache(maxsize=1)
def support() -> tuple[Library, dict[str, int]]:
    """The functions that kernels and launches call, and their addresses by name."""
    module = TargetModule(process_target())
    define_fault(module)
    define_access(module)
    _define(module, "xloom_wait", VOID, [POINTER, I32], _wait)
    _define(module, "xloom_offer", VOID, [POINTER, I32, I32], _offer)
    _define(module, "xloom_put", VOID, [POINTER, I32, I32], _put)
    _define(module, "xloom_finish", VOID, [POINTER], lambda b, a: _set_state(b, a[0], State.DONE))
    for mode in SHUFFLES:
        _define(module, f"xloom_shuffle_{mode}", I32, [POINTER, I32, I32], lambda b, a, m=mode: _shuffle(b, a, m))
    _define(module, "xloom_ballot", I32, [POINTER], _ballot)
    _define(module, "xloom_turn", VOID, [POINTER], lambda b, a: _turn(b, a[0]))
    for kind in (*MMA_KINDS, "s8", "u8", "f64"):
        sums = [DOUBLE] * 2 if kind == "f64" else [I32 if kind in ("s8", "u8") else FLOAT] * 4
        # four floats that are no vector come back in registers of the x87, which LLVM stores by APX where there is none
        result = ir.VectorType(sums[0], len(sums))
        _define(module, f"xloom_mma_{kind}", result, [POINTER, *sums], lambda b, a, k=kind: _mma(b, a, k))
    for kind in ("plain", "trans"):
        _define(module, f"xloom_ldmatrix_{kind}", _WORDS, [POINTER], lambda b, a, k=kind: _ldmatrix(b, a, k))
    _define(module, "xloom_copy_begin", VOID, [*[POINTER] * 4, *[I32] * 3], async_copies.begin)
    _define(module, "xloom_copy_commit", VOID, [POINTER], async_copies.commit)
    _define(module, "xloom_copy_wait", VOID, [POINTER, POINTER, I32], async_copies.wait)
    operands = [POINTER, POINTER, I64, I64, *[I32] * 4]
    for kind in MMA_KINDS:
        _define(module, f"xloom_wgmma_{kind}", VOID, operands, lambda b, a, k=kind: warpgroup.multiply(b, a, k))
    _define(module, "xloom_show", VOID, [POINTER], warpgroup.show)
    _define_scheduler(module)
    names = [f.name for f in module.functions if f.blocks]
    library = Library([process_code(str(module), PassPipeline.VECTORS)], names)
    return library, {name: library.address(name) for name in names}


def _define(module: ir.Module, name: str, result: ir.Type, parameters: Sequence[ir.Type], body: _Body) -> None:
    function = ir.Function(module, ir.FunctionType(result, parameters), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    body(b, function.args)
    if not b.block.is_terminated:
        b.ret_void()


# -- what threads do before they wait
def _set_state(b: ir.IRBuilder, context: ir.Value, state: State) -> None:
    b.store(I32(state), field(b, context, at.STATE))


def _wait(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """wait(context, site): at a barrier of the block."""
    context, site = arguments
    b.store(site, field(b, context, at.SITE))
    _set_state(b, context, State.BARRIER)


def _offer(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """offer(context, site, mask): at an operation of the warp."""
    context, site, mask = arguments
    b.store(site, field(b, context, at.SITE))
    b.store(mask, field(b, context, at.MASK))
    _set_state(b, context, State.WARP)


def _put(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """put(context, number, value): a word that other lanes are to see."""
    context, number, value = arguments
    b.store(value, _slot(b, context, b.load(field(b, context, at.PARITY), typ=I32), number))


def _slot(b: ir.IRBuilder, context: ir.Value, parity: ir.Value, number: ir.Value) -> ir.Value:
    index = b.zext(b.add(b.mul(parity, I32(at.SLOT_WORDS)), number), I64)
    return b.gep(field(b, context, at.SLOTS), [index], source_etype=I32)


def _turn(b: ir.IRBuilder, context: ir.Value) -> None:
    parity = field(b, context, at.PARITY)
    b.store(b.xor(b.load(parity, typ=I32), I32(1)), parity)


# -- what a warp does
def _of_lane(b: ir.IRBuilder, context: ir.Value, lane: ir.Value, number: ir.Value) -> ir.Value:
    """A word that another lane has put."""
    mine = word(b, context, at.LANE)
    distance = b.mul(b.sext(b.sub(lane, mine), I64), I64(at.STRIDE))
    other = b.gep(context, [distance], source_etype=I8)
    return b.load(_slot(b, other, word(b, context, at.PARITY), number), typ=I32)


def _shuffle(b: ir.IRBuilder, arguments: Sequence[ir.Value], mode: str) -> None:
    """shuffle(context, by, control): as PTX's shfl.sync says of its operands b and c."""
    context, by, control = arguments
    lane = word(b, context, at.LANE)
    clamp, segment = b.and_(control, I32(31)), b.and_(b.lshr(control, I32(8)), I32(31))
    apart = b.xor(segment, I32(-1))
    low = b.and_(lane, segment)
    most = b.or_(low, b.and_(clamp, apart))
    if mode == "up":
        wanted = b.sub(lane, by)
        inside = b.icmp_signed(">=", wanted, most)
    else:
        wanted = {
            "down": lambda: b.add(lane, by),
            "bfly": lambda: b.xor(lane, by),
            "idx": lambda: b.or_(low, b.and_(by, apart)),
        }[mode]()
        inside = b.icmp_signed("<=", wanted, most)
    source = b.select(inside, wanted, lane)
    takes_part = b.and_(b.lshr(word(b, context, at.MASK), source), I32(1))
    with b.if_then(b.icmp_signed("==", takes_part, I32(0))):
        _fault(b, context, Fault.INACTIVE_LANE, source)
    value = _of_lane(b, context, source, I32(0))
    _turn(b, context)
    b.ret(value)


def _ballot(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """ballot(context): a bit for each lane that takes part and has put something else than 0."""
    (context,) = arguments
    votes = allocate(b, I32)
    b.store(I32(0), votes)
    mask = word(b, context, at.MASK)
    with loop(b, 0, 32) as i:
        lane = b.trunc(i, I32)
        with b.if_then(b.icmp_signed("!=", b.and_(b.lshr(mask, lane), I32(1)), I32(0))):
            said = b.icmp_signed("!=", _of_lane(b, context, lane, I32(0)), I32(0))
            b.store(b.or_(b.load(votes, typ=I32), b.shl(b.zext(said, I32), lane)), votes)
    _turn(b, context)
    b.ret(b.load(votes, typ=I32))


def _mma(b: ir.IRBuilder, arguments: Sequence[ir.Value], kind: str) -> None:
    """mma(context, c0, c1, c2, c3): this lane's part of a product of 16 x k by k x 8, of what all lanes have put.

    k is 16 elements of 16 bits, two in a word, 32 of s8 or u8, or 8 of tf32; of f64 the product is of 8 x 4 by 4 x 8,
    and there are two sums. PTX says which lane has which elements.
    """
    context, *sums = arguments
    lane = word(b, context, at.LANE)
    group, in_group = b.lshr(lane, I32(2)), b.and_(lane, I32(3))
    depth = {"tf32": 8, "s8": 32, "u8": 32, "f64": 4}.get(kind, 16)
    outputs = []
    for number, first in enumerate(sums):
        row = b.add(group, I32(8 * (number // 2)))
        column = b.add(b.mul(in_group, I32(2)), I32(number % 2))
        total = first
        for k in range(depth):
            a = _fragment(b, context, kind, row, k, 0, is_left=True)
            c = _fragment(b, context, kind, column, k, 2 if kind == "f64" else 4, is_left=False)
            total = b.add(total, b.mul(a, c)) if kind in ("s8", "u8") else b.fadd(total, b.fmul(a, c))
        outputs.append(total)
    result = ir.Constant(ir.VectorType(sums[0].type, len(sums)), ir.Undefined)
    for number, value in enumerate(outputs):
        result = b.insert_element(result, value, I32(number))
    _turn(b, context)
    b.ret(result)


def _fragment(
    b: ir.IRBuilder, context: ir.Value, kind: str, line: ir.Value, k: int, first: int, *, is_left: bool
) -> ir.Value:
    """Element k of a row of the left matrix, or of a column of the right one, as an f32; of bytes as an i32."""
    if kind == "f64":
        lane = b.add(b.mul(line, I32(4)), I32(k))
        low, high = (b.zext(_of_lane(b, context, lane, I32(first + n)), I64) for n in range(2))
        return b.bitcast(b.or_(low, b.shl(high, I64(32))), DOUBLE)
    half = {"tf32": 4, "s8": 16, "u8": 16}.get(kind, 8)
    per_word = half // 4
    lane = b.add(b.mul(b.and_(line, I32(7)), I32(4)), I32(k % half // per_word))
    register = I32(k // half * (2 if is_left else 1))
    if is_left:
        register = b.add(register, b.lshr(line, I32(3)))
    bits = _of_lane(b, context, lane, b.add(register, I32(first)))
    if kind == "tf32":
        return b.bitcast(b.and_(bits, I32(-0x2000)), FLOAT)
    if kind in ("s8", "u8"):
        return (b.sext if kind == "s8" else b.zext)(b.trunc(b.lshr(bits, I32(8 * (k % 4))), I8), I32)
    part = b.lshr(bits, I32(16 * (k % 2)))
    if kind == "bf16":
        return b.bitcast(b.shl(part, I32(16)), FLOAT)
    return b.fpext(b.bitcast(b.trunc(part, I16), ir.HalfType()), FLOAT)


def _ldmatrix(b: ir.IRBuilder, arguments: Sequence[ir.Value], kind: str) -> None:
    """ldmatrix(context): this lane's part of four matrices of 8 x 8 elements of 16 bits, whose rows lanes have put.

    Lane 8 q + r has put row r of matrix q. A lane gets two neighbours of a row of each, or of a column (`trans`).
    """
    (context,) = arguments
    lane = word(b, context, at.LANE)
    group, within = b.lshr(lane, I32(2)), b.and_(lane, I32(3))
    result: ir.Value = ir.Constant(_WORDS, ir.Undefined)
    for matrix in range(4):
        if kind == "plain":
            value = _of_lane(b, context, b.add(group, I32(8 * matrix)), within)
        else:
            halves = []
            for e in range(2):
                other = b.add(b.mul(within, I32(2)), I32(8 * matrix + e))
                pair = _of_lane(b, context, other, b.lshr(group, I32(1)))
                halves.append(b.and_(b.lshr(pair, b.mul(b.and_(group, I32(1)), I32(16))), I32(0xFFFF)))
            value = b.or_(halves[0], b.shl(halves[1], I32(16)))
        result = b.insert_value(result, value, matrix)
    _turn(b, context)
    b.ret(result)


def _fault(b: ir.IRBuilder, context: ir.Value, fault: Fault, other: ir.Value) -> None:
    record = b.module.globals["xloom_fault"]
    b.call(record, [context, I32(fault), word(b, context, at.SITE), I64(0), other])


# -- the scheduler
def _define_scheduler(module: ir.Module) -> None:
    """`i32 run_block(ptr contexts, i64 threads, ptr order, ptr handles, ptr start, ptr resume, ptr arguments)`.

    Starts a block's threads in an order (i32 numbers), and resumes them until all are done; a fault that the threads'
    waiting shows is recorded. The result is the fault of the launch, if there is one.
    """
    kind = ir.FunctionType(I32, [POINTER, I64, *[POINTER] * 5])
    function = ir.Function(module, kind, RUN_BLOCK)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _Scheduler(b, *function.args).emit()


class _Scheduler:
    def __init__(self, b, contexts, threads, order, handles, start, resume, arguments):
        self.b, self.contexts, self.threads, self.order = b, contexts, threads, order
        self.handles, self.arguments = handles, arguments
        self.start = _callee(b, start, ir.FunctionType(POINTER, [POINTER, POINTER]))
        self.resume = _callee(b, resume, ir.FunctionType(VOID, [POINTER]))
        self.goes_on = allocate(b, I32)
        self.launch = b.load(field(b, contexts, at.LAUNCH), typ=POINTER)

    def emit(self) -> None:
        b = self.b
        with self._each_thread() as (_, number):
            handle = b.call(self.start, [self._context(number), self.arguments])
            b.store(handle, self._handle(number))
        b.store(I32(1), self.goes_on)
        with repeat(b, lambda: b.icmp_signed("!=", b.load(self.goes_on, typ=I32), I32(0))):
            self._release()
            with (
                b.if_then(b.icmp_signed("!=", b.load(self.goes_on, typ=I32), I32(0))),
                self._each_thread() as (_, number),
                b.if_then(self._is(self._context(number), State.READY)),
            ):
                b.call(self.resume, [b.load(self._handle(number), typ=POINTER)])
        b.ret(word(b, self.launch, at.FAULT))

    @contextmanager
    def _each_thread(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        with loop(self.b, I64(0), self.threads) as k:
            yield k, self.b.zext(self.b.load(self.b.gep(self.order, [k], source_etype=I32), typ=I32), I64)

    def _context(self, number: ir.Value) -> ir.Value:
        return self.b.gep(self.contexts, [self.b.mul(number, I64(at.STRIDE))], source_etype=I8)

    def _handle(self, number: ir.Value) -> ir.Value:
        return self.b.gep(self.handles, [number], source_etype=POINTER)

    def _is(self, context: ir.Value, state: State) -> ir.Value:
        return self.b.icmp_signed("==", word(self.b, context, at.STATE), I32(state))

    def _release(self) -> None:
        """Makes threads ready whose barrier, or whose warp, is complete; ends the block where there are none."""
        b = self.b
        waiting, done, apart, first = (allocate(b, I32) for _ in range(4))
        for slot in (waiting, done, apart):
            b.store(I32(0), slot)
        b.store(I32(-1), first)
        with loop(b, I64(0), self.threads) as n:
            context = self._context(n)
            b.store(b.add(b.load(done, typ=I32), b.zext(self._is(context, State.DONE), I32)), done)
            with b.if_then(self._is(context, State.BARRIER)):
                b.store(b.add(b.load(waiting, typ=I32), I32(1)), waiting)
                site, seen = word(b, context, at.SITE), b.load(first, typ=I32)
                differs = b.and_(b.icmp_signed("!=", seen, I32(-1)), b.icmp_signed("!=", seen, site))
                b.store(b.or_(b.load(apart, typ=I32), b.zext(differs, I32)), apart)
                b.store(site, first)
        all_threads = b.trunc(self.threads, I32)
        held, ended = b.load(waiting, typ=I32), b.load(done, typ=I32)
        stopped = b.icmp_signed("==", b.add(held, ended), all_threads)
        with b.if_else(stopped) as (then, otherwise):
            with then:
                b.store(I32(0), self.goes_on)
                some = b.icmp_signed("!=", held, I32(0))
                divergent = b.icmp_signed("!=", b.load(apart, typ=I32), I32(0))
                exited = b.and_(some, b.icmp_signed("!=", ended, I32(0)))
                with b.if_then(divergent):
                    self._fault(Fault.DIVERGENT_BARRIER, b.load(first, typ=I32))
                with b.if_then(exited):
                    self._fault(Fault.BARRIER_AFTER_EXIT, b.load(first, typ=I32))
                with b.if_then(b.and_(some, b.not_(b.or_(divergent, exited)))):
                    b.store(I32(1), self.goes_on)
                    epoch = field(b, self.launch, at.EPOCH)
                    b.store(b.add(b.load(epoch, typ=I32), I32(1)), epoch)
                    with loop(b, I64(0), self.threads) as n:
                        _set_state(b, self._context(n), State.READY)
            with otherwise:
                self._release_warps()

    def _release_warps(self) -> None:
        b = self.b
        released = allocate(b, I32)
        b.store(I32(0), released)
        with loop(b, I64(0), self.threads) as n:
            context = self._context(n)
            with b.if_then(self._is(context, State.WARP)):
                complete = self._lanes_are_at(context, n)
                with b.if_then(complete):
                    b.store(I32(1), released)
                    mask = word(b, context, at.MASK)
                    with self._each_lane(n, mask) as other:
                        _set_state(b, other, State.READY)
        with b.if_then(b.icmp_signed("==", b.load(released, typ=I32), I32(0))):
            b.store(I32(0), self.goes_on)
            with loop(b, I64(0), self.threads) as n:
                context = self._context(n)
                with b.if_then(self._is(context, State.WARP)):
                    self._fault(Fault.DEADLOCK, word(b, context, at.SITE))

    @contextmanager
    def _each_lane(self, number: ir.Value, mask: ir.Value) -> Iterator[ir.Value]:
        """The contexts of the lanes of thread `number`'s warp that a mask has."""
        b = self.b
        first = b.and_(number, I64(-32))
        with (
            loop(b, 0, 32) as lane,
            b.if_then(b.icmp_signed("!=", b.and_(b.lshr(mask, b.trunc(lane, I32)), I32(1)), I32(0))),
        ):
            yield self._context(b.add(first, lane))

    def _lanes_are_at(self, context: ir.Value, number: ir.Value) -> ir.Value:
        """Whether all lanes of a thread's mask are at the same operation."""
        b = self.b
        same = allocate(b, I32)
        b.store(I32(1), same)
        mask, site = word(b, context, at.MASK), word(b, context, at.SITE)
        with self._each_lane(number, mask) as other:
            here = b.and_(self._is(other, State.WARP), b.icmp_signed("==", word(b, other, at.SITE), site))
            here = b.and_(here, b.icmp_signed("==", word(b, other, at.MASK), mask))
            b.store(b.and_(b.load(same, typ=I32), b.zext(here, I32)), same)
        return b.icmp_signed("!=", b.load(same, typ=I32), I32(0))

    def _fault(self, fault: Fault, site: ir.Value) -> None:
        record = self.b.module.globals["xloom_fault"]
        self.b.call(record, [self.contexts, I32(fault), site, I64(0), I32(-1)])


def _callee(b: ir.IRBuilder, address: ir.Value, kind: ir.FunctionType) -> ir.Value:
    """A pointer as a function to call: llvmlite must know what it calls."""
    slot = allocate(b, POINTER)
    b.store(address, slot)
    return b.load(slot, typ=kind.as_pointer())
