"""Whole steps of optimisers as one recorded operator: `fused=True` of torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lazy.recording.record import Recorder
from xloom.torch.lazy.recording.table import NAMED
from xloom.torch.lowering import Graph

_RATES = frozenset({"lr", "weight_decay"})  # what schedules change: arguments of the program

Options = Mapping[str, Any]
Update = Callable[["_Arithmetic", Sequence[Any], Options], list[Instruction]]
"""From one parameter, its gradient and its state: the parameter's next value, and that of its state."""


class _Arithmetic:
    """Arithmetic of one parameter's elements, in its type, with numbers that stretch."""

    def __init__(self, g: Graph, like: Instruction):
        self.g = g
        self.like = like

    def of(self, value: Any) -> Instruction:
        if isinstance(value, Instruction) and value.shape.dims == self.like.shape.dims and value.shape.rank:
            return self.g.cast(value, self.like.shape.dtype)
        return self.g.full_like(self.like, value)

    def plus(self, a: Any, b: Any) -> Instruction:
        return self.g.add(self.of(a), self.of(b))

    def minus(self, a: Any, b: Any) -> Instruction:
        return self.g.subtract(self.of(a), self.of(b))

    def times(self, a: Any, b: Any) -> Instruction:
        return self.g.multiply(self.of(a), self.of(b))

    def over(self, a: Any, b: Any) -> Instruction:
        return self.g.divide(self.of(a), self.of(b))

    def root(self, a: Instruction) -> Instruction:
        return self.g.sqrt(a)

    def is_zero(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and value == 0


def _gradient(m: _Arithmetic, parameter: Any, gradient: Any, o: Options, *, decays: bool) -> Instruction:
    gradient = m.g.negate(m.of(gradient)) if o["maximize"] else m.of(gradient)
    if decays and not m.is_zero(o["weight_decay"]):
        gradient = m.plus(gradient, m.times(parameter, o["weight_decay"]))
    return gradient


def _sgd(m: _Arithmetic, given: Sequence[Any], o: Options) -> list[Instruction]:
    parameter, gradient, *buffer = given
    step = slope = _gradient(m, parameter, gradient, o, decays=True)
    if buffer:
        kept = slope
        if not o["is_first_step"]:
            kept = m.plus(m.times(buffer[0], o["momentum"]), m.times(slope, 1 - o["dampening"]))
        step = m.plus(slope, m.times(kept, o["momentum"])) if o["nesterov"] else kept
        return [m.minus(parameter, m.times(step, o["lr"])), kept]
    return [m.minus(parameter, m.times(step, o["lr"]))]


def _adam(m: _Arithmetic, given: Sequence[Any], o: Options, *, decoupled: bool = False) -> list[Instruction]:
    parameter, gradient, mean, square, *top, count = given
    b1, b2 = o["beta1"], o["beta2"]
    slope = _gradient(m, parameter, gradient, o, decays=not decoupled)
    if decoupled:
        parameter = m.minus(parameter, m.times(m.times(parameter, o["weight_decay"]), o["lr"]))
    mean = m.plus(mean, m.times(m.minus(slope, mean), 1 - b1))
    square = m.plus(m.times(square, b2), m.times(m.times(slope, slope), 1 - b2))
    first, second = (_correction(m.g, count, beta) for beta in (b1, b2))
    largest = [m.g.maximum(m.of(top[0]), square)] if top else []
    scale = m.plus(m.over(m.root(largest[0] if top else square), m.g.sqrt(second)), o["eps"])
    rate = m.over(o["lr"], first)
    parameter = m.minus(parameter, m.times(rate, m.over(mean, scale)))
    return [parameter, mean, square, *largest]


def _adamw(m: _Arithmetic, given: Sequence[Any], o: Options) -> list[Instruction]:
    return _adam(m, given, o, decoupled=True)


def _correction(g: Graph, count: Instruction, beta: float) -> Instruction:
    count = g.cast(count, dt.f32)
    return g.subtract(g.full_like(count, 1), g.power(g.full_like(count, beta), count))


def _adagrad(m: _Arithmetic, given: Sequence[Any], o: Options) -> list[Instruction]:
    parameter, gradient, total, count = given
    slope = _gradient(m, parameter, gradient, o, decays=True)
    decay = m.plus(m.times(m.minus(count, 1), o["lr_decay"]), 1)
    total = m.plus(total, m.times(slope, slope))
    step = m.over(m.times(slope, m.over(o["lr"], decay)), m.plus(m.root(total), o["eps"]))
    return [m.minus(parameter, step), total]


def _scaled(m: _Arithmetic, given: Sequence[Any], o: Options, update: Update) -> list[Instruction]:
    """An update by a gradient times `grad_scale`, written back without it; where `found_inf` is 1 nothing changes."""
    g, scale, infinite = m.g, o.get("grad_scale"), o.get("found_inf")
    before = list(given)
    if scale is not None:
        given = [given[0], m.over(given[1], g.reshape_to(scale, ())), *given[2:]]
    else:
        del before[1]
    after = update(m, given, o)
    if scale is not None:
        after.insert(1, g.cast(given[1], before[1].shape.dtype))
    if infinite is None:
        return after
    skips = g.compare(g.reshape_to(infinite, ()), g.full((), 1, infinite.shape.dtype), direction="EQ")
    return [g.select(g.expand(skips, new.shape.dims), old, new) for old, new in zip(before, after, strict=False)]


def _register(packet: Any, update: Update, written: int) -> None:
    """Of the operator's lists, the first `written` are written to, but for the second one: the gradients."""
    for op in (packet.default, packet.tensor_lr):
        NAMED[str(op)] = _handler(op, update, written)


def _handler(op: Any, update: Update, written: int) -> Callable[..., Any]:
    def emit(g: Graph, args: Sequence[Any], kwargs: Options) -> list[Any]:
        columns = [column for column in args if column]
        out: list[Any] = []
        for row in zip(*columns, strict=True):
            out.extend(_scaled(_Arithmetic(g, row[0]), row, kwargs, update))
        return out

    recorder = Recorder(op, emit)
    recorder.hoists_by_name = _RATES

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
        options = {name: each for name, each in (kwargs or {}).items() if each is not None}
        values = iter(recorder.record(args, options))
        gradients = [args[1]] if "grad_scale" in options else []
        targets = [column for column in (args[0], *gradients, *args[2:written]) if column]
        for row in zip(*targets, strict=True):
            for target in row:
                target._alias.write(next(values))

    return run


_register(torch.ops.aten._fused_sgd_, _sgd, 3)
_register(torch.ops.aten._fused_adam_, _adam, 5)
_register(torch.ops.aten._fused_adamw_, _adamw, 5)
_register(torch.ops.aten._fused_adagrad_, _adagrad, 3)
