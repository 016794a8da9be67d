"""Functions that a kernel calls, and the plain statements of which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.llvm.types import VOID


def read(b: ir.IRBuilder, pointer: ir.Value, kind: ir.Type, i: ir.Value) -> ir.Value:
    """Element `i` of an array."""
    return b.load(b.gep(pointer, [i], inbounds=True, source_etype=kind), typ=kind)


def write(b: ir.IRBuilder, pointer: ir.Value, i: ir.Value, value: ir.Value) -> None:
    """Makes `value` element `i` of an array."""
    b.store(value, b.gep(pointer, [i], inbounds=True, source_etype=value.type))


@contextmanager
def function(
    module: ir.Module, name: str, parameters: Sequence[ir.Type], distinct: Sequence[int] = ()
) -> Iterator[tuple[ir.IRBuilder, ir.Function]]:
    """A function without result that is called, not inlined; the parameters `distinct` are pointers that never meet."""
    out = ir.Function(module, ir.FunctionType(VOID, list(parameters)), module.get_unique_name(name))
    out.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        out.attributes.add(attribute)
    for k in distinct:
        out.args[k].add_attribute("noalias")
    b = ir.IRBuilder(out.append_basic_block("entry"))
    yield b, out
    b.ret_void()


def exported_function(module: ir.Module, kind: ir.FunctionType, symbol: str) -> ir.Function:
    """A function that other modules call by its symbol."""
    out = ir.Function(module, kind, symbol)
    out.attributes.add("nounwind")
    return out


def optimize_for_size(b: ir.IRBuilder) -> None:
    """Keeps LLVM from copying the loops of this function: they wait for memory, so that it only costs compile time."""
    b.function.attributes.add("optsize")


@contextmanager
def repeat(b: ir.IRBuilder, condition: Callable[[], ir.Value]) -> Iterator[None]:
    """Emits the `with` as what is done while `condition()` is true."""
    head, body, done = (b.append_basic_block(f"while.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    b.cbranch(condition(), body, done)
    b.position_at_end(body)
    yield
    b.branch(head)
    b.position_at_end(done)


def least(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The lesser of two signed integers."""
    return b.select(b.icmp_signed("<", x, y), x, y)


def greatest(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The greater of two signed integers."""
    return b.select(b.icmp_signed(">", x, y), x, y)


def within(b: ir.IRBuilder, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """The nearest signed integer from `low` to `high`."""
    return least(b, greatest(b, value, low), high)
