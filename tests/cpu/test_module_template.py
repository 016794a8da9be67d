"""Object files that are filled in are those that LLVM makes of the whole module."""

from __future__ import annotations

import pytest

from xloom.llvm.jit import made_anew
from xloom.llvm.module_template import ModuleTemplate
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import process_target


def calls(*kernels: str, numbers: tuple[int, ...] = (3, 70_000)) -> str:
    """An entry function that calls so many kernels."""
    table = ", ".join(f"i64 {n}" for n in numbers)
    lines = "".join(
        f"""  %x{k} = getelementptr inbounds i64, ptr @"xloom.items", i64 {k % len(numbers)}
  %n{k} = load i64, ptr %x{k}
  call void @"{kernel}.{k}"(ptr %p, i64 0, i64 %n{k})
"""
        for k, kernel in enumerate(kernels)
    )
    declared = "".join(f'declare void @"{kernel}.{k}"(ptr, i64, i64)\n' for k, kernel in enumerate(kernels))
    return f"""; ModuleID = ""
target triple = "unknown-unknown-unknown"
target datalayout = ""

@"xloom.items" = internal constant [{len(numbers)} x i64] [{table}]
define void @"xloom_main"(ptr %p) {{
{lines}  ret void
}}
{declared}"""


A, B = f"k{'a1' * 12}", f"k{'7c' * 12}"


@pytest.mark.parametrize("text", [calls(A), calls(A, A), calls(B, A, B), calls(A, numbers=(-1, 0, 1 << 40))])
def test_what_is_filled_in_is_what_is_made_of_the_whole(text: str):
    template = ModuleTemplate(text)
    assert template.is_shared and A not in template.text
    data = made_anew(template.text, PassPipeline.CALLS, process_target())
    assert template.filled(data) == made_anew(text, PassPipeline.CALLS, process_target())


def test_modules_are_alike_but_for_kernels_and_numbers():
    one, same = ModuleTemplate(calls(A, B)), ModuleTemplate(calls(B, A, numbers=(5, 6)))
    assert one.text == same.text
    assert one.text != ModuleTemplate(calls(A, A)).text
    assert one.text != ModuleTemplate(calls(A, B, numbers=(1, 2, 3))).text


def test_modules_of_no_kernel_or_many_are_not_shared():
    assert not ModuleTemplate(calls()).is_shared
    assert not ModuleTemplate(calls(*(f"k{n:024x}" for n in range(9)))).is_shared


def test_a_table_that_is_not_whole_is_not_filled_in():
    template = ModuleTemplate(calls(A))
    assert template.filled(b"\x7fELF" + b"\0" * 64) is None
