"""Modules of several functions, in parts."""

import llvmlite.binding as llvm

from xloom.llvm.module_partitioning import parts_of

HEAD = "@table = internal constant [2 x i64] [i64 1, i64 2]\ndeclare void @outside()\n"
BODY = "  call void @outside()\n" * 400


def function(name: str, calls: str = "", internal: bool = False) -> str:
    call = f"  call void @{calls}()\n" if calls else ""
    return f"define {'internal ' if internal else ''}void @{name}() nounwind\n{{\nentry:\n{BODY}{call}  ret void\n}}\n"


def defined(text: str) -> set[str]:
    module = llvm.parse_assembly(text)
    module.verify()
    return {f.name for f in module.functions if not f.is_declaration}


def test_functions_come_with_what_they_need():
    small = "define internal void @helper() {\n  ret void\n}\n"
    parts = parts_of(HEAD + small + function('"k.0"', "helper") + function("k.1") + function("k.2", "helper"))
    assert [defined(p) for p in parts] == [{"k.0", "helper"}, {"k.1"}, {"k.2", "helper"}]


def test_functions_that_call_each_other_stay_together():
    text = HEAD + function("k.0", "k.1") + function("k.1")
    assert parts_of(text) == [text]


def test_a_large_function_that_several_need_is_not_made_twice():
    text = HEAD + function("shared", internal=True) + function("k.0", "shared") + function("k.1", "shared")
    assert parts_of(text) == [text]


def test_small_modules_stay_whole():
    text = HEAD + "define void @a() {\n  ret void\n}\ndefine void @b() {\n  ret void\n}\n"
    assert parts_of(text) == [text]
