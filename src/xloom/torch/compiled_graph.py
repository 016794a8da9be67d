"""A translated graph, compiled: torch's tensors in, of the host or of a GPU, tensors out, nothing copied."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.thresholds import POOLED
from xloom.cpu.runtime.checked_executable import CheckedExecutable
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.memory_pool import MemoryPool
from xloom.pjrt.compiler import CpuCompiler, Native
from xloom.torch.arrays import as_array, in_memory_of
from xloom.torch.dtypes import torch_dtype
from xloom.torch.frozen.division import spelled
from xloom.torch.frozen.kept_values import KeptValues
from xloom.torch.fx_graph import Given, Region, Same, Translated
from xloom.torch.graph_on_gpu import GraphOnGpu
from xloom.torch.lent_threads import on_faster_threads
from xloom.torch.shared_results import ArgumentView
from xloom.torch.strides import contiguous_strides, inverse


class CompiledGraph:
    """Called with the graph's arguments, gives the list of its results."""

    def __init__(self, translated: Translated, *, views: bool = True, device: torch.device | None = None):
        """With `views`, results in one memory are views; those of a function of autograd cannot be written to.

        `device` is the GPU that its tensors are on, None where they are the host's."""
        self.translated = translated
        self._views = views
        self._on_gpu = None if device is None else GraphOnGpu(translated.module, device)
        self._has_calls = False
        if self._on_gpu is None:
            compiled = CpuCompiler().compile(translated.module)
            # translated graphs have no dynamic dimensions, and run on one device
            assert isinstance(compiled, Native) and isinstance(compiled.executable, Executable | CheckedExecutable)
            self._executable = compiled.executable
            self._has_calls = isinstance(self._executable, Executable) and self._executable.calls_outside
            self._call_at = on_faster_threads(self._executable)
        self._pool = MemoryPool()
        shapes = leaf_shapes(translated.module.entry.root.shape)
        self._written = translated.written
        shapes = shapes[: len(shapes) - len(self._written)]
        self._makers = [_maker(self._pool, s.dims, torch_dtype(s.dtype), s.nbytes) for s in shapes]
        self._arguments = translated.arguments
        parameter_of = {argument: k for k, argument in enumerate(translated.arguments)}
        if translated.assertions:  # which leave arguments as they were, where one fails
            parameter_of = {}
        self._places = [None if isinstance(each, Region) else parameter_of.get(each) for each in translated.written]
        self._stretches = translated.stretches
        self._begins = translated.begins.items()
        self._lazy = translated.negated or any(p.shape.dtype.is_complex for p in translated.module.entry.parameters)
        count = len(translated.module.entry.parameters)
        self._pack_arguments = struct.Struct(f"{max(1, count)}Q").pack
        self._pack_results = struct.Struct(f"{max(1, len(shapes) + len(self._written))}Q").pack
        self._pad_arguments = [0] * (count == 0)
        self._pad_results = [0] * (not shapes and not self._written)
        self._permuted = [(k, inverse(order)) for k, order in translated.orders.items()]
        self._assertions = translated.assertions
        self._sources = translated.sources
        self._kept: KeptValues | None = None
        if translated.weights is not None:
            weights = Translated(translated.weights, list(range(len(translated.sources))))
            weights.results = list(range(len(translated.weights.entry.root.shape.elements)))
            self._kept = KeptValues(CompiledGraph(weights), spelled(translated.weights))
        self._bases = -translated.bases
        placed = [(k, r) for k, r in enumerate(translated.results) if not isinstance(r, int)]
        self._same = [(k, r.result) for k, r in placed if isinstance(r, Same)]
        self._placed = [(k, Given(None) if isinstance(r, Same) else r) for k, r in placed]

        others = (
            self._on_gpu,
            self._kept,
            self._stretches,
            self._begins,
            self._assertions,
            self._bases,
            self._placed,
            None in self._places,
        )
        self._is_plain = not (
            any(others)
            or self._has_calls
            or self._lazy
            or self._same
            or translated.held
            or translated.needs_key
            or 0 in (count, len(shapes) + len(self._written))
        )
        if self._is_plain:  # whose results are made as they are to lie
            for k, order in self._permuted:
                s = shapes[k]
                self._makers[k] = _maker(self._pool, s.dims, torch_dtype(s.dtype), s.nbytes, order)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Runs it. The arguments are tensors of the shapes that it was translated for."""
        if self._is_plain:
            return self._run(arguments)
        tensors = [arguments[k] for k in self._arguments]
        for k, place in self._begins:
            if arguments[k].storage_offset() != place:
                raise RuntimeError(
                    f"a graph compiled for an argument at place {place} of its memory, which as_strided goes by, "
                    f"has one at {arguments[k].storage_offset()}: dynamic=True compiles it for both"
                )
        stretches = [each.of(arguments[each.argument]) for each in self._stretches]
        # what is written may lie in a stretch, which is read
        tensors += [each.clone() for each in stretches] if self._written else stretches
        if self._lazy:
            tensors = [t.resolve_conj().resolve_neg() for t in tensors]
        tensors = [t if t.is_contiguous() else t.contiguous() for t in tensors]
        tensors += self.translated.held
        if self.translated.needs_key:  # drawn from torch's generator, so that torch.manual_seed decides it
            tensors.append(torch.empty(2, dtype=torch.int64, device="cpu").random_().view(torch.uint64))
        if self._kept is not None:
            tensors += self._kept([arguments[s] if isinstance(s, int) else s for s in self._sources])
        results = [] if self._on_gpu is not None else [make() for make in self._makers]
        written = [
            self._memory_for(arguments, each) if place is None else tensors[place]
            for each, place in zip(self._written, self._places, strict=True)
        ]
        if self._on_gpu is not None:
            results = self._on_gpu([t.to(self._on_gpu.device) for t in tensors])
            written = results[len(results) - len(written) :]
            del results[len(results) - len(written) :]
        elif self._has_calls:
            self._executable.call_into([*map(as_array, tensors)], [*map(as_array, (*results, *written))])
        else:
            self._call_at(
                self._pack_arguments(*[t.data_ptr() for t in tensors], *self._pad_arguments),
                self._pack_results(*[t.data_ptr() for t in (*results, *written)], *self._pad_results),
            )
        for message in reversed(self._assertions):
            if not results.pop().item():
                raise RuntimeError(message)
        self._write(arguments, written)
        bases = results[self._bases :] if self._bases else []
        del results[len(results) - len(bases) :]
        for at, each in self._placed:
            if isinstance(each, Given):
                results.insert(at, each.value if each.argument is None else arguments[each.argument])
            elif isinstance(each, ArgumentView):
                results.insert(at, each.of(arguments[each.argument]))
            else:
                results.insert(at, each.of(bases[each.base], as_view=self._views))
        for at, order in self._permuted:
            view = results[at].permute(order)
            results[at] = in_memory_of(view, view.dtype, view.shape, view.stride())
        for at, first in self._same:
            results[at] = results[first]
        return results

    def _run(self, arguments: Sequence[Any]) -> list[Any]:
        """The same of a program whose parameters are arguments, and whose results those of the graph."""
        tensors = [arguments[k] for k in self._arguments]
        tensors = [t if t.is_contiguous() else t.contiguous() for t in tensors]
        results = [make() for make in self._makers]
        written = [tensors[place] for place in self._places if place is not None]
        self._call_at(
            self._pack_arguments(*[t.data_ptr() for t in tensors]),
            self._pack_results(*[t.data_ptr() for t in (*results, *written)]),
        )
        self._write(arguments, written)
        return results

    def _memory_for(self, arguments: Sequence[Any], written: int | Region) -> torch.Tensor:
        """Where a new value is made of an argument that the program does not read, or that may have to stay."""
        own = _place(arguments, written)
        as_read = own.is_contiguous() and not own.is_conj() and not own.is_neg()
        if as_read and not self._assertions and not isinstance(written, Region):
            return own
        return torch.empty(own.shape, dtype=own.dtype, device=own.device)

    def _write(self, arguments: Sequence[Any], values: Sequence[torch.Tensor]) -> None:
        """Brings new values, made where the program reads the old ones, to arguments that lie in another order."""
        for written, value in zip(self._written, values, strict=True):
            own = _place(arguments, written)
            if value is not own:
                own.copy_(value)


def _place(arguments: Sequence[Any], written: int | Region) -> torch.Tensor:
    """What is written of the arguments."""
    return written.of(arguments[written.argument]) if isinstance(written, Region) else arguments[written]


def _maker(
    pool: MemoryPool, dims: tuple[int, ...], dtype: torch.dtype, nbytes: int, order: Sequence[int] | None = None
) -> Callable[[], torch.Tensor]:
    """What makes a result: from the pool where fresh pages would cost more than the kernel.

    It is permuted, if an order is given, of an array of `dims`.
    """
    order = range(len(dims)) if order is None else order
    if nbytes < POOLED:
        with unset_fake_temporarily():  # graphs are traced meanwhile
            example = torch.empty(dims, dtype=dtype, device="cpu").permute(tuple(order))
        example.untyped_storage().resize_(0)  # of which nothing but shape and type is looked at
        like = torch.empty_like  # in half the time of `empty`, which has more to read
        return lambda: like(example)
    make = pool.maker((nbytes,), np.dtype(np.uint8), nbytes, aligned=True)
    strides = contiguous_strides(dims)
    dims, strides = (tuple([each[k] for k in order]) for each in (dims, strides))
    return lambda: in_memory_of(torch.from_numpy(make()), dtype, dims, strides)
