"""Machine code that is made while more is added."""

import ctypes

import pytest

from xloom import f32
from xloom.codegen.buffer_values import defining_value, defining_values
from xloom.hlo.builder import Builder
from xloom.llvm import object_code
from xloom.llvm.jit import PASSES, Library, target_machine
from xloom.llvm.object_files import ObjectFiles
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import process_target


def number(k: int) -> str:
    return f"define i64 @number.{k}() {{\n  ret i64 {k}\n}}\n"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_modules_are_compiled(threads: int):
    with ObjectFiles(threads, process_target()) as codes:
        for k in range(7):
            codes.add(number(k), PassPipeline.CALLS)
        objects = codes.finished()
    library = Library(objects, [f"number.{k}" for k in range(7)])
    kind = ctypes.CFUNCTYPE(ctypes.c_int64)
    assert [library.function(f"number.{k}", kind)() for k in range(7)] == list(range(7))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_thread_raises_is_raised(threads: int):
    with ObjectFiles(threads, process_target()) as codes:
        codes.add(number(1), PassPipeline.CALLS)
        codes.add("define nonsense", PassPipeline.CALLS)
        with pytest.raises(RuntimeError, match=r"LLVM IR: .*expected"):
            codes.finished()


def test_leaving_early_ends_the_threads():
    codes = ObjectFiles(2, process_target())
    with pytest.raises(ValueError, match="not finished"), codes:
        for k in range(20):
            codes.add(number(k), PassPipeline.VECTORS)
        raise ValueError("not finished")
    assert not any(helper.is_alive() for helper in codes._helpers)


def test_assembly_instead_of_an_object():
    text = object_code.emitted(
        number(3).encode(), target_machine(process_target()), PASSES[PassPipeline.CALLS], as_object=False
    )
    assert b"number.3:" in text


def test_owners_of_all_leaves():
    b = Builder("nested")
    x, y = b.parameter(f32[2]), b.parameter(f32[3])
    inner = b.tuple(x, b.add(y, y))
    root = b.tuple(inner, y, b.get_tuple_element(inner, index=1))
    module = b.build(root)
    root = module.entry.root  # %x, y + y, %y and y + y
    assert defining_values(root) == [defining_value(root, k) for k in range(4)]
    assert len({made for made, _ in defining_values(root)}) == 3
