"""Parts of an array that is never whole in memory: functions that compute some of its elements when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.line_function import LINES
from xloom.cpu.emit.loop import PLAIN, hints_for, loop
from xloom.cpu.emit.types import I64, POINTER, VOID
from xloom.cpu.leaves import Source
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Nest, cost_along, merged
from xloom.hlo.dtype import DType


def emit_lines(
    module: ir.Module,
    symbol: str,
    nest: Nest,
    numbers: Mapping[Source, int],
    types_of: Callable[[Source], DType],
) -> None:
    """The function of the only array that a nest stores; `numbers` are the places of those that it loads."""
    count = max(numbers.values(), default=-1) + 1
    body = ir.Function(module, ir.FunctionType(VOID, [*[POINTER] * (count + 1), *[I64] * 5]), f"{symbol}.body")
    body.linkage = "internal"
    for attribute in ("alwaysinline", "nounwind"):
        body.attributes.add(attribute)
    for argument in body.args[: count + 1]:
        argument.add_attribute("noalias")
    _emit_body(body, nest, {source: body.args[n] for source, n in numbers.items()}, types_of)
    function = ir.Function(module, LINES, symbol)
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    context, target, *rest = function.args
    places = [b.gep(context, [I64(k + 1)], inbounds=True, source_etype=POINTER) for k in range(count)]
    b.call(body, [*(b.load(place, typ=POINTER) for place in places), target, *rest])
    b.ret_void()


def _emit_body(
    body: ir.Function, nest: Nest, pointers: Mapping[Source, ir.Value], types_of: Callable[[Source], DType]
) -> None:
    (stage,) = nest.stages
    (store,) = stage.stores
    loops, gone = merged([stage], stage.vars)
    *outer, inner = loops
    target, apart, first, step, lines, length = body.args[len(body.args) - 6 :]
    b = ir.IRBuilder(body.append_basic_block("entry"))
    elements = Elements(b, pointers.__getitem__, lambda _, address: address)
    elements.unbind(gone)
    size = I64(inner.size)
    hints = hints_for(inner.size, cost_along([store.node], inner))
    with loop(b, 0, lines, name="line", hints=PLAIN) as line:
        begin = b.add(first, b.mul(line, step))
        end = b.add(begin, length)
        # a line may have the ends of several rows of the innermost loop in it
        last = b.udiv(b.add(end, I64(inner.size - 1)), size) if outer else I64(1)
        with loop(b, b.udiv(begin, size) if outer else 0, last, name="row", hints=PLAIN) as row, elements.scope():
            start, rest = b.mul(row, size), row
            for var in reversed(outer):
                elements.vars[var] = b.urem(rest, I64(var.size))
                rest = b.udiv(rest, I64(var.size))
            low = intrinsic(b, "smax", b.sub(begin, start), I64(0))
            high = intrinsic(b, "smin", b.sub(end, start), size)
            place = b.add(b.mul(line, apart), b.sub(start, begin))
            elements.innermost = inner
            with loop(b, low, high, name=inner.name, hints=hints) as i, elements.scope():
                elements.vars[inner] = i
                value = elements.value(store.node)
                types.store(b, target, types_of(store.target), b.add(place, i), value, exact=True)
    b.ret_void()
