"""The transform of several lines at once, one per lane, in memory that holds vectors of real and of imaginary parts.

Stockham's passes: a pass of radix r over lines of length n that have been cut to pieces of length m r, s = n / (m r)
of them side by side, reads the points q + s (p + i m), and writes q + s (r p + i), times exp(2 pi i p i / (m r)).
A length with a great prime factor is a convolution with a chirp (Bluestein).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.butterfly import butterfly
from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar
from xloom.llvm.loop import allocate, loop
from xloom.llvm.types import I64, POINTER, VOID


class TransformPass(NamedTuple):
    """Inside the loop over p: where points i are read and written (but for q), and their roots exp(...)."""

    source: ir.Value
    target: ir.Value
    side: ir.Value
    read: Callable[[ir.Value], ir.Value]
    write: Callable[[ir.Value], ir.Value]
    root: Callable[[ir.Value], Number]


@dataclass(frozen=True)
class Transform:
    """Of lines of length n, forward (sign -1) or not."""

    module: ir.Module
    prefix: str
    lanes: Lanes
    n: int
    sign: int

    @property
    def points(self) -> int:
        """Points that the memory must have room for."""
        return self.n if plan.radices(self.n) is not None else plan.convolution_length(self.n)

    @property
    def point_bytes(self) -> int:
        """Bytes of a point of all lines in the memory."""
        return self.lanes.count * self.lanes.dtype.bytes

    def emit(self, b: ir.IRBuilder, data: ir.Value, spare: ir.Value) -> ir.Value:
        """Transforms `data`, and returns the pointer to the result: one of the two."""
        found = plan.radices(self.n)
        if found is None:
            chosen(
                f"{self.n} points by a convolution of {self.points}",
                f"a prime factor of {self.n} is so great that a pass of it would take longer",
            )
            return self._convolution(b, data, spare)
        chosen(
            f"{self.n} points by passes of {' x '.join(map(str, found))}",
            f"{self.lanes.count} transforms side by side are the lanes of vectors",
        )
        return self._passes(b, data, spare, self.n, found, self.sign)

    def _passes(
        self, b: ir.IRBuilder, data: ir.Value, spare: ir.Value, n: int, radices: tuple[int, ...], sign: int
    ) -> ir.Value:
        roots = plan.table(
            self.module, self.lanes.dtype, f"{self.prefix}.roots.{n}.{sign}", plan.roots(n, sign, np.arange(n))
        )
        side = 1
        for radix in radices:
            function = self._pass(radix, sign)
            b.call(function, [data, spare, roots, I64(side), I64(n // (side * radix))])
            data, spare = spare, data
            side *= radix
        return data

    def _pass(self, radix: int, sign: int) -> ir.Function:
        """void(from, to, roots, s, m), as at the head of this file."""
        name = f"{self.prefix}.pass.{radix}.{sign}.{self.lanes.count}"
        known = self.module.globals.get(name)
        if known is not None:
            return known
        function = ir.Function(self.module, ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64]), name)
        function.linkage = "internal"
        for attribute in ("noinline", "noduplicate", "nounwind"):
            function.attributes.add(attribute)
        function.args[0].add_attribute("noalias")
        function.args[1].add_attribute("noalias")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        source, target, roots, side, count = function.args
        lanes = self.lanes
        with loop(b, 0, count, name="p") as p:
            twiddle_index = b.mul(p, side)

            def root(i: ir.Value) -> Number:
                return lanes.splat(b, load_scalar(b, roots, lanes.dtype, b.mul(twiddle_index, i)))

            def read(i: ir.Value) -> ir.Value:
                return b.mul(side, b.add(p, b.mul(i, count)))

            def write(i: ir.Value) -> ir.Value:
                return b.mul(side, b.add(b.mul(p, I64(radix)), i))

            body = self._butterfly if radix in plan.BUTTERFLIES else self._loops
            body(b, radix, sign, TransformPass(source, target, side, read, write, root))
        b.ret_void()
        return function

    def _butterfly(self, b: ir.IRBuilder, radix: int, sign: int, fft_pass: TransformPass) -> None:
        numbers = [I64(i) for i in range(radix)]
        read, write = [fft_pass.read(i) for i in numbers], [fft_pass.write(i) for i in numbers]
        roots = [fft_pass.root(i) for i in numbers[1:]]
        with loop(b, 0, fft_pass.side, name="q") as q:
            x = [self.get(b, fft_pass.source, b.add(offset, q)) for offset in read]
            first, *rest = butterfly(b, self.lanes, x, sign)
            twiddled = [self.lanes.product(b, y, root) for y, root in zip(rest, roots, strict=True)]
            for offset, y in zip(write, (first, *twiddled), strict=True):
                self.put(b, fft_pass.target, b.add(offset, q), y)

    def _loops(self, b: ir.IRBuilder, radix: int, sign: int, fft_pass: TransformPass) -> None:
        """With sums and differences of points k and radix - k, whose roots are conjugates; two results at a time."""
        lanes, half = self.lanes, radix // 2
        roots = plan.roots(radix, sign, np.arange(radix))
        own = plan.table(self.module, lanes.dtype, f"{self.prefix}.roots.{radix}.{sign}", roots)
        sums, differences = (allocate(b, ir.ArrayType(lanes.kind, radix + 1)) for _ in range(2))
        for memory in (sums, differences):
            memory.align = 64
        total = [allocate(b, lanes.kind) for _ in range(2)]
        products = [[allocate(b, lanes.kind) for _ in range(4)] for _ in range(2)]
        with loop(b, 0, fft_pass.side, name="q") as q:
            first = self.get(b, fft_pass.source, b.add(fft_pass.read(I64(0)), q))
            for part in range(2):
                b.store(first[part], total[part])
            with loop(b, 1, half + 1, name="k") as k:
                near, far = (
                    self.get(b, fft_pass.source, b.add(fft_pass.read(i), q)) for i in (k, b.sub(I64(radix), k))
                )
                added = [b.fadd(x, y) for x, y in zip(near, far, strict=True)]
                self.put(b, sums, k, added)
                self.put(b, differences, k, [b.fsub(x, y) for x, y in zip(near, far, strict=True)])
                for part in range(2):
                    b.store(b.fadd(b.load(total[part]), added[part]), total[part])
            self.put(b, fft_pass.target, b.add(fft_pass.write(I64(0)), q), [b.load(t) for t in total])
            zero = ir.Constant(lanes.kind, [0.0] * lanes.count)
            with loop(b, 1, half + 1, 2, name="j") as j:
                after = b.add(j, I64(1))
                both = (j, b.select(b.icmp_signed("<", after, I64(half)), after, I64(half)))
                for product in products:
                    for memory, value in zip(product, (*first, zero, zero), strict=True):
                        b.store(value, memory)
                with loop(b, 1, half + 1, name="k") as k:
                    plus, minus = self.get(b, sums, k), self.get(b, differences, k)
                    for number, product in zip(both, products, strict=True):
                        angle = load_scalar(b, own, lanes.dtype, b.urem(b.mul(number, k), I64(radix)))
                        cosine, sine = lanes.splat(b, angle)
                        factors = [(plus[0], cosine), (plus[1], cosine), (minus[0], sine), (minus[1], sine)]
                        for memory, (x, y) in zip(product, factors, strict=True):
                            b.store(lanes.fma(b, x, y, b.load(memory)), memory)
                for number, product in zip(both, products, strict=True):
                    real, imag, across, along = (b.load(memory) for memory in product)
                    other = b.sub(I64(radix), number)
                    for i, y in (
                        (number, [b.fsub(real, along), b.fadd(imag, across)]),
                        (other, [b.fadd(real, along), b.fsub(imag, across)]),
                    ):
                        twiddled = lanes.product(b, y, fft_pass.root(i))
                        self.put(b, fft_pass.target, b.add(fft_pass.write(i), q), twiddled)

    def _convolution(self, b: ir.IRBuilder, data: ir.Value, spare: ir.Value) -> ir.Value:
        """x_k c_k convolved with the conjugate chirp, times c, where c_k = exp(sign pi i k^2 / n)."""
        n, length, lanes = self.n, self.points, self.lanes
        found = plan.radices(length)
        assert found is not None
        k = np.arange(n, dtype=np.int64)
        chirp = plan.roots(2 * n, self.sign, k * k % (2 * n))
        kernel = np.zeros(length, np.complex128)
        kernel[:n] = np.conj(chirp)
        kernel[length - n + 1 :] = np.conj(chirp[:0:-1])
        name = f"{self.prefix}.chirp.{n}.{self.sign}"
        chirps = plan.table(self.module, lanes.dtype, name, chirp)
        spectrum = plan.table(self.module, lanes.dtype, f"{name}.spectrum", np.fft.fft(kernel) / length)
        with loop(b, 0, n) as i:
            self.put(b, data, i, self._times(b, self.get(b, data, i), chirps, i))
        zero = ir.Constant(lanes.kind, [0.0] * lanes.count)
        with loop(b, n, length) as i:
            self.put(b, data, i, [zero, zero])
        there = self._passes(b, data, spare, length, found, -1)
        other = spare if there is data else data
        with loop(b, 0, length) as i:
            # with its parts exchanged, the transform forward is the one back
            self.put(b, there, i, self._times(b, self.get(b, there, i), spectrum, i)[::-1])
        back = self._passes(b, there, other, length, found, -1)
        with loop(b, 0, n) as i:
            self.put(b, back, i, self._times(b, self.get(b, back, i)[::-1], chirps, i))
        return back

    def _times(self, b: ir.IRBuilder, x: Number, numbers: ir.Value, index: ir.Value) -> Number:
        return self.lanes.product(b, x, self.lanes.splat(b, load_scalar(b, numbers, self.lanes.dtype, index)))

    def get(self, b: ir.IRBuilder, data: ir.Value, point: ir.Value) -> Number:
        """A point of all lines, by its number."""
        kind = self.lanes.kind
        first = b.mul(point, I64(2))
        return [
            b.load(b.gep(data, [b.add(first, I64(k))], inbounds=True, source_etype=kind), typ=kind) for k in range(2)
        ]

    def put(self, b: ir.IRBuilder, data: ir.Value, point: ir.Value, value: Number) -> None:
        """Writes one point of all lines."""
        kind = self.lanes.kind
        first = b.mul(point, I64(2))
        for k in range(2):
            b.store(value[k], b.gep(data, [b.add(first, I64(k))], inbounds=True, source_etype=kind))
