"""Programs: the HLO of a path through the tree of traces, compiled and run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.attributes import Metadata, SliceDimension
from xloom.hlo.builder import Builder
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.pjrt.buffer import Buffer
from xloom.torch.lazy.recording import donation, passes
from xloom.torch.lazy.recording.trace import Node
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lowering import Graph
from xloom.torch.metrics import METRICS
from xloom.torch.outside import outside_dispatch


class TraceProgram:
    """A compiled path that gives some of its results."""

    def __init__(self, module: Module, outputs: tuple[int, ...], free: Iterable[int] = ()):
        """`module` is what `build` gives; `free` are the numbers of donated arguments, the first time that it runs."""
        start = time.perf_counter()
        self.outputs = outputs
        self.module = module
        passes.apply(self.module)
        self._given_away = donation.alias(self.module, free)
        self.executable = device_client.client().compile(self.module)
        self._calls = any(each.opcode == "custom-call" for each in self.module.instructions)
        METRICS.programs += 1
        METRICS.compile_seconds += time.perf_counter() - start

    def run(self, arguments: Sequence[Buffer], scalars: np.ndarray, size: int | None = None) -> list[Buffer]:
        """Starts it, for a size if it takes one; the results, which need not be there yet."""
        METRICS.runs += 1
        kept: Sequence[int] = ()
        if self._given_away:
            free = donation.unused(arguments, self._given_away)
            kept = [number for number in self._given_away if number not in free]
            METRICS.donated += len(free)
        given = [*arguments, device_client.on_device(scalars)] if scalars.size else list(arguments)
        if size is not None:
            given.append(device_client.on_device(np.array(size, np.int32)))
        with outside_dispatch() if self._calls else nullcontext():  # the calls may be torch's
            (results,) = self.executable.launch([given], not_donated=kept)
        device_client.throttle(results.done)
        return results.buffers

    def failed(self, error: BaseException) -> list[Buffer]:
        """What a run gives that has failed."""
        (results,) = self.executable.failed(error)
        return results.buffers


def build(
    node: Node,
    outputs: Sequence[int],
    name: str = "xla",
    shapes: Sequence[Shape] | None = None,
    given: Sequence[Any] | None = None,
) -> Module:
    """The module of the path to `node`: its arguments, then the numbers as one vector; a tuple of `outputs`.

    With other `shapes` of arguments, and what else each operator of the path is `given`, that of other sizes.
    """
    b = Builder(name, source_lines=False)
    path = node.path()
    arguments = [b.parameter(each) for each in (argument_shapes(path) if shapes is None else shapes)]
    count = sum(recorded.signature.scalars for recorded in path if recorded.signature is not None)
    packed = b.parameter(array_shape(dt.f64, (count,)), "scalars") if count else None
    graph = Graph(b)
    results: list[Instruction] = []
    used = 0
    for recorded, own in zip(path, given or [None] * len(path), strict=True):
        signature = recorded.signature
        assert signature is not None
        inputs = [results[ref] if ref >= 0 else arguments[~ref] for ref in recorded.refs]
        graph.metadata = _metadata(recorded)
        graph.state = inputs.pop() if signature.random else None
        scalars = [_element(graph, packed, used + k) for k in range(signature.scalars)]
        used += signature.scalars
        found = signature.build(graph, inputs, scalars, own)
        results.extend([found] if signature.places is None else [each for each in found if each is not None])
        if signature.random:
            assert graph.state is not None
            results.append(graph.state)
    return b.build(b.tuple(*[results[k] for k in outputs]))


def argument_shapes(path: Sequence[Node]) -> list[Shape]:
    """Those of the arguments of a path, in order."""
    shapes: list[Shape] = []
    for recorded in path:
        assert recorded.signature is not None
        types = recorded.signature.input_types()
        for ref, type in zip(recorded.refs, types, strict=True):
            if ~ref == len(shapes):
                shapes.append(type.shape)
    return shapes


def _element(graph: Graph, packed: Instruction | None, at: int) -> Instruction:
    assert packed is not None
    one = graph.slice(packed, shape=array_shape(dt.f64, (1,)), slice=[SliceDimension(at, at + 1)])
    return graph.reshape(one, shape=array_shape(dt.f64, ()))


def _metadata(recorded: Node) -> Metadata:
    assert recorded.signature is not None
    if recorded.source is None:
        return Metadata(op_type=recorded.signature.name)
    return Metadata(op_type=recorded.signature.name, source_file=recorded.source.file, source_line=recorded.source.line)
