"""Parts of an array that is never whole in memory: functions that compute some elements, or compute with some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopNest, cost_along, merged
from xloom.codegen.loop_ir.nodes import Load, walk
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.panel_function import LINES
from xloom.hlo.dtype import DType
from xloom.llvm import element_access, types
from xloom.llvm.cache_lines import CACHED, LINE, fetch
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, hints_for, loop
from xloom.llvm.target_module import target_of
from xloom.llvm.types import I64, POINTER, VOID

_NEAR = 1 / 4
"""Of the second cache, what an array takes that is read with sums and likely to be there: larger ones are fetched."""


def emit_lines(
    module: ir.Module,
    symbol: str,
    nest: LoopNest,
    numbers: Mapping[BufferValue, int],
    types_of: Callable[[BufferValue], DType],
    part: BufferValue,
) -> ir.Function:
    """The function of a nest that stores one array; gives what has its loops.

    Of that, or of one that it loads, the caller has a `part` only; `numbers` are the argument numbers of all others.
    """
    count = max(numbers.values(), default=-1) + 1
    body = ir.Function(module, ir.FunctionType(VOID, [*[POINTER] * (count + 1), *[I64] * 5]), f"{symbol}.body")
    body.linkage = "internal"
    for attribute in ("alwaysinline", "nounwind"):
        body.attributes.add(attribute)
    for argument in body.args[: count + 1]:
        argument.add_attribute("noalias")
    _emit_body(body, nest, {value: body.args[n] for value, n in numbers.items()}, types_of, part)
    function = ir.Function(module, LINES, symbol)
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    context, target, *rest = function.args
    addresses = [b.gep(context, [I64(k + 1)], inbounds=True, source_etype=POINTER) for k in range(count)]
    b.call(body, [*(b.load(address, typ=POINTER) for address in addresses), target, *rest])
    b.ret_void()
    return body


def _set_outer(elements: Elements, outer: Sequence[Var], row: ir.Value) -> None:
    """Sets the variables of the outer loops to those of a row."""
    b = elements.b
    for k, var in enumerate(reversed(outer)):
        last = k == len(outer) - 1
        elements.vars[var] = row if last else b.urem(row, I64(var.size))
        row = row if last else b.udiv(row, I64(var.size))


def _fetch(elements: Elements, loads: Sequence[Load], inner: Var, begin: ir.Value, end: ir.Value, limit: float) -> None:
    """Has the caches fetch what a piece of a row is made of."""
    b = elements.b
    for load in loads:
        if _is_streamed(load, inner, limit):
            with loop(b, begin, end, LINE // load.dtype.bytes, name="fetch", hints=PLAIN) as i, elements.scope():
                elements.vars[inner] = i
                array = elements.pointers(load.source), load.dtype, elements.address_of(load)
                fetch(b, types.element_pointer(b, *array))


def _is_streamed(load: Load, inner: Var, nbytes: float) -> bool:
    """True for elements along the lines of an array of more bytes."""
    instruction, leaf = load.source
    return load.address.factor(inner) == 1 and leaf_shapes(instruction.shape)[leaf].nbytes > nbytes


def _emit_body(
    body: ir.Function,
    nest: LoopNest,
    pointers: Mapping[BufferValue, ir.Value],
    types_of: Callable[[BufferValue], DType],
    part: BufferValue,
) -> None:
    (stage,) = nest.stages
    (store,) = stage.stores
    loads = [n for n in walk([store.node]) if isinstance(n, Load)]
    given = [n for n in loads if n.source == part]
    read = [n for n in loads if n.source != part]
    loops, gone = merged([stage], stage.vars)
    *outer, inner = loops
    panel, apart, first, stride, lines, length = body.args[len(body.args) - 6 :]
    b = ir.IRBuilder(body.append_basic_block("entry"))
    elements = Elements(b, pointers.__getitem__, lambda _, address: address)
    elements.unbind(gone)
    size, caches = I64(inner.size), target_of(b).caches
    limit = _NEAR * caches.second if given else CACHED * caches.last
    hints = hints_for(inner.size, cost_along([store.node], inner))
    with loop(b, 0, lines, name="line", hints=PLAIN) as line:
        begin = b.add(first, b.mul(line, stride))
        end = b.add(begin, length)
        # a line may have the ends of several rows of the innermost loop in it
        last = b.udiv(b.add(end, I64(inner.size - 1)), size) if outer else I64(1)
        with loop(b, b.udiv(begin, size) if outer else 0, last, name="row", hints=PLAIN) as row, elements.scope():
            start = b.mul(row, size)
            low = intrinsic(b, "smax", b.sub(begin, start), I64(0))
            high = intrinsic(b, "smin", b.sub(end, start), size)
            offset = b.add(b.mul(line, apart), b.sub(start, begin))
            # lines are too short for the hardware to find out what is wanted next
            distance = b.mul(lines, stride)
            with b.if_then(b.icmp_signed("!=", distance, I64(0))), elements.scope():
                if outer:
                    most = math.prod(v.size for v in outer) - 1
                    _set_outer(elements, outer, intrinsic(b, "umin", b.add(row, b.udiv(distance, size)), I64(most)))
                    distance = I64(0)
                _fetch(elements, read, inner, b.add(low, distance), b.add(high, distance), limit)
            _set_outer(elements, outer, row)
            elements.innermost = inner
            with loop(b, low, high, name=inner.name, hints=hints) as i, elements.scope():
                elements.vars[inner] = i
                own, at = b.add(offset, i), b.add(start, i)
                target, to = (panel, own) if store.target == part else (pointers[store.target], at)
                known = {id(n): element_access.load(b, panel, n.dtype, own) for n in given}
                with elements.known(known):
                    value = elements.value(store.node)
                element_access.store(b, target, types_of(store.target), to, value, exact=True)
    b.ret_void()
