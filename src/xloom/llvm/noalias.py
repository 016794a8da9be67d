"""Code whose pointers LLVM may take for distinct memory, so that it vectorises without checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.llvm.types import POINTER, VOID


class Body(NamedTuple):
    """The inside of such code: its builder, and the pointers and values as they are called there."""

    b: ir.IRBuilder
    pointers: list[ir.Value]
    values: list[ir.Value]


@contextmanager
def distinct(b: ir.IRBuilder, pointers: Sequence[ir.Value], values: Sequence[ir.Value] = ()) -> Iterator[Body]:
    """What is emitted in the `with` runs at `b`; memory written through one of `pointers` is reached by that one only.

    It becomes a function that is inlined: `noalias` on its parameters is what tells LLVM.
    """
    kinds = [*(POINTER for _ in pointers), *(v.type for v in values)]
    name = b.module.get_unique_name(f"{b.function.name}.body")
    function = ir.Function(b.module, ir.FunctionType(VOID, kinds), name)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    for argument in function.args[: len(pointers)]:
        argument.add_attribute("noalias")
    body = ir.IRBuilder(function.append_basic_block("entry"))
    yield Body(body, list(function.args[: len(pointers)]), list(function.args[len(pointers) :]))
    body.ret_void()
    b.call(function, [*pointers, *values])
