"""The transform of several lines at once, one per lane, in memory: a function for all lengths.

Stockham's passes: a pass of radix r over lines of length n that have been cut to pieces of length m r, s = n / (m r)
of them side by side, reads the points q + s (p + i m), and writes q + s (r p + i), times exp(-2 pi i p i / (m r)).
A length with a great prime factor is a convolution with a chirp (Bluestein).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.butterfly import butterfly
from xloom.cpu.kernels.fft.line_memory import LineMemory, at, numbers
from xloom.cpu.kernels.fft.signatures import TRANSFORM, LinePass, LineTransform, transform_symbol
from xloom.cpu.kernels.linalg.lanes import Lanes, Number
from xloom.hlo.dtype import DType
from xloom.llvm.loop import allocate, loop
from xloom.llvm.module_text import module_text
from xloom.llvm.routine import exported_function, function, read
from xloom.llvm.types import I64, POINTER


def transform_module(dtype: DType, lanes: int) -> str:
    """The module that has the function of this many lines."""
    return _Transform(ir.Module(), LineMemory(Lanes(dtype, lanes))).text()


class _Pass(NamedTuple):
    """Inside the loop over p: where points i are read and written (but for q), and their roots exp(...)."""

    source: ir.Value
    target: ir.Value
    side: ir.Value
    read: Callable[[ir.Value], ir.Value]
    write: Callable[[ir.Value], ir.Value]
    root: Callable[[ir.Value], Number]


class _Transform:
    def __init__(self, module: ir.Module, memory: LineMemory):
        self._module, self._memory, self._lanes = module, memory, memory.lanes

    def text(self) -> str:
        out = exported_function(self._module, TRANSFORM, transform_symbol(self._lanes.dtype, self._lanes.count))
        b = ir.IRBuilder(out.append_basic_block("entry"))
        data, spare, tables, table = out.args
        by = numbers(b, table, LineTransform)
        passes = self._passes()
        arguments = [at(b, tables, by.roots), at(b, tables, by.rows), by.passes]
        transform = partial(b.call, passes)
        with b.if_then(b.icmp_signed("!=", by.n, by.points)):
            b.ret(self._convolution(b, data, spare, tables, by, lambda *at: transform([*at, *arguments])))
        b.ret(transform([data, spare, *arguments]))
        return module_text(self._module)

    def _passes(self) -> ir.Function:
        """ptr(data, spare, roots, rows, count): all passes, one after the other."""
        by_radix = {radix: self._pass(radix) for radix in plan.BUTTERFLIES}
        by_loops = self._pass(None)
        out = ir.Function(self._module, ir.FunctionType(POINTER, [POINTER] * 4 + [I64]), "passes")
        out.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            out.attributes.add(attribute)
        data, spare, roots, rows, count = out.args
        b = ir.IRBuilder(out.append_basic_block("entry"))
        slots = [allocate(b, POINTER) for _ in range(2)]
        for pointer, slot in zip((data, spare), slots, strict=True):
            b.store(pointer, slot)
        with loop(b, 0, count, name="pass") as k:
            width = len(LinePass._fields)
            radix, side, pieces = (read(b, rows, I64, b.add(b.mul(k, I64(width)), I64(i))) for i in range(width))
            source, target = (b.load(slot, typ=POINTER) for slot in slots)
            arguments = [source, target, roots, side, pieces]
            other, done = (b.append_basic_block(name) for name in ("other", "done"))
            switch = b.switch(radix, other)
            for each, does in by_radix.items():
                block = b.append_basic_block(f"radix{each}")
                switch.add_case(I64(each), block)
                b.position_at_end(block)
                b.call(does, [*arguments, radix])
                b.branch(done)
            b.position_at_end(other)
            b.call(by_loops, [*arguments, radix])
            b.branch(done)
            b.position_at_end(done)
            b.store(target, slots[0])
            b.store(source, slots[1])
        b.ret(b.load(slots[0], typ=POINTER))
        return out

    def _pass(self, radix: int | None) -> ir.Function:
        """void(from, to, roots, s, m, r), as at the head of this file; of any radix, or the one that it is for."""
        with function(self._module, f"pass.{radix or 'any'}", [POINTER] * 3 + [I64] * 3, distinct=(0, 1)) as (b, out):
            out.attributes.add("noduplicate")
            source, target, roots, side, count, given = out.args
            number = given if radix is None else I64(radix)
            with loop(b, 0, count, name="p") as p:
                twiddle_index = b.mul(p, side)

                def root(i: ir.Value) -> Number:
                    return self._memory.root(b, roots, b.mul(twiddle_index, i))

                def read(i: ir.Value) -> ir.Value:
                    return b.mul(side, b.add(p, b.mul(i, count)))

                def write(i: ir.Value) -> ir.Value:
                    return b.mul(side, b.add(b.mul(p, number), i))

                fft_pass = _Pass(source, target, side, read, write, root)
                if radix is None:
                    self._loops(b, number, roots, b.mul(side, count), fft_pass)
                else:
                    self._butterfly(b, radix, fft_pass)
        return out

    def _butterfly(self, b: ir.IRBuilder, radix: int, fft_pass: _Pass) -> None:
        numbers = [I64(i) for i in range(radix)]
        read, write = [fft_pass.read(i) for i in numbers], [fft_pass.write(i) for i in numbers]
        roots = [fft_pass.root(i) for i in numbers[1:]]
        get, put = self._memory.get, self._memory.put
        with loop(b, 0, fft_pass.side, name="q") as q:
            x = [get(b, fft_pass.source, b.add(offset, q)) for offset in read]
            first, *rest = butterfly(b, self._lanes, x, -1)
            twiddled = [self._lanes.product(b, y, root) for y, root in zip(rest, roots, strict=True)]
            for offset, y in zip(write, (first, *twiddled), strict=True):
                put(b, fft_pass.target, b.add(offset, q), y)

    def _loops(self, b: ir.IRBuilder, radix: ir.Value, roots: ir.Value, turn: ir.Value, fft_pass: _Pass) -> None:
        """With sums and differences of points k and radix - k, whose roots are conjugates; two results at a time.

        The radix's own roots are those of the length that are `turn` apart.
        """
        lanes, half = self._lanes, b.lshr(radix, I64(1))
        get, put = self._memory.get, self._memory.put
        sums, differences = (allocate(b, ir.ArrayType(lanes.kind, plan.PRIMES[-1] + 1)) for _ in range(2))
        for memory in (sums, differences):
            memory.align = 64
        total = [allocate(b, lanes.kind) for _ in range(2)]
        products = [[allocate(b, lanes.kind) for _ in range(4)] for _ in range(2)]
        angles = [allocate(b, I64) for _ in range(2)]
        with loop(b, 0, fft_pass.side, name="q") as q:
            first = get(b, fft_pass.source, b.add(fft_pass.read(I64(0)), q))
            for part in range(2):
                b.store(first[part], total[part])
            with loop(b, 1, b.add(half, I64(1)), name="k") as k:
                near, far = (get(b, fft_pass.source, b.add(fft_pass.read(i), q)) for i in (k, b.sub(radix, k)))
                added = [b.fadd(x, y) for x, y in zip(near, far, strict=True)]
                put(b, sums, k, added)
                put(b, differences, k, [b.fsub(x, y) for x, y in zip(near, far, strict=True)])
                for part in range(2):
                    b.store(b.fadd(b.load(total[part]), added[part]), total[part])
            put(b, fft_pass.target, b.add(fft_pass.write(I64(0)), q), [b.load(t) for t in total])
            zero = ir.Constant(lanes.kind, [0.0] * lanes.count)
            with loop(b, 1, b.add(half, I64(1)), 2, name="j") as j:
                after = b.add(j, I64(1))
                both = (j, b.select(b.icmp_signed("<", after, half), after, half))
                for product, angle in zip(products, angles, strict=True):
                    b.store(I64(0), angle)
                    for memory, value in zip(product, (*first, zero, zero), strict=True):
                        b.store(value, memory)
                with loop(b, 1, b.add(half, I64(1)), name="k") as k:
                    plus, minus = get(b, sums, k), get(b, differences, k)
                    for number, product, angle in zip(both, products, angles, strict=True):
                        turned = b.add(b.load(angle), number)
                        over = b.sub(turned, radix)
                        index = b.select(b.icmp_signed("<", over, I64(0)), turned, over)
                        b.store(index, angle)
                        cosine, sine = self._memory.root(b, roots, b.mul(index, turn))
                        factors = [(plus[0], cosine), (plus[1], cosine), (minus[0], sine), (minus[1], sine)]
                        for memory, (x, y) in zip(product, factors, strict=True):
                            b.store(lanes.fma(b, x, y, b.load(memory)), memory)
                for number, product in zip(both, products, strict=True):
                    real, imag, across, along = (b.load(memory) for memory in product)
                    other = b.sub(radix, number)
                    for i, y in (
                        (number, [b.fsub(real, along), b.fadd(imag, across)]),
                        (other, [b.fadd(real, along), b.fsub(imag, across)]),
                    ):
                        twiddled = lanes.product(b, y, fft_pass.root(i))
                        put(b, fft_pass.target, b.add(fft_pass.write(i), q), twiddled)

    def _convolution(
        self,
        b: ir.IRBuilder,
        data: ir.Value,
        spare: ir.Value,
        tables: ir.Value,
        by: LineTransform,
        transform: Callable[[ir.Value, ir.Value], ir.Value],
    ) -> ir.Value:
        """x_k c_k convolved with the conjugate chirp, times c, where c_k = exp(-pi i k^2 / n)."""
        lanes, get, put = self._lanes, self._memory.get, self._memory.put
        chirp, spectrum = (at(b, tables, place) for place in (by.chirp, by.spectrum))

        def times(x: Number, numbers: ir.Value, index: ir.Value) -> Number:
            return lanes.product(b, x, self._memory.root(b, numbers, index))

        with loop(b, 0, by.n) as i:
            put(b, data, i, times(get(b, data, i), chirp, i))
        zero = ir.Constant(lanes.kind, [0.0] * lanes.count)
        with loop(b, by.n, by.points) as i:
            put(b, data, i, [zero, zero])
        there = transform(data, spare)
        other = b.select(b.icmp_unsigned("==", b.ptrtoint(there, I64), b.ptrtoint(data, I64)), spare, data)
        with loop(b, 0, by.points) as i:
            # with its parts exchanged, the transform forward is the one back
            put(b, there, i, times(get(b, there, i), spectrum, i)[::-1])
        back = transform(there, other)
        with loop(b, 0, by.n) as i:
            put(b, back, i, times(get(b, back, i)[::-1], chirp, i))
        return back
