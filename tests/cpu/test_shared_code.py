"""The check of shared code (XLOOM_CHECK=kernels): it lets right keys pass, and rejects rules that see more than theirs."""

from itertools import count

import pytest

import xloom as xl
from xloom.compilation_cache import cache
from xloom.cpu import compilation, kept_programs
from xloom.cpu.kernel_modules import kernel, shape_generic
from xloom.cpu.kernels import rule_of
from xloom.errors import SharedCodeError
from xloom.llvm import jit, shared_code
from xloom.llvm.scalar import rules
from xloom.llvm.target import process_target

NESTS = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[5000] parameter(0) y = f32[5000] parameter(1)
  s = f32[5000] sort(x), dimensions={0}, to_apply=less
  p = f32[5000] log(s) q = f32[5000] log(y) ROOT r = (f32[5000], f32[5000], f32[5000]) tuple(s, p, q) }"""


def products(n: int, between: str = "copy") -> xl.Module:
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return xl.parse(f"""HloModule m
ENTRY e {{ x = f32[{n},{n}] parameter(0) y = f32[{n},{n}] dot(x, x), {dot} z = f32[{n},{n}] {between}(y)
  ROOT r = f32[{n},{n}] dot(z, x), {dot} }}""")


@pytest.fixture(autouse=True)
def checked(monkeypatch, tmp_path):
    monkeypatch.setenv("XLOOM_CHECK", "kernels")
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shared_code, "_objects", set())
    shared_code.compared.clear()
    forget()


def forget():
    for kept in (jit.object_cache, shape_generic.kept, kept_programs.linked):
        kept.clear()


def test_nests_kernels_sizes_objects_and_programs_are_compared():
    for _ in range(2):
        xl.compile(xl.parse(NESTS))
        xl.compile(products(48))
        cache.flush()
        forget()
    xl.compile(products(64))
    kinds = {"loop nest", "kernel", "kernel of many sizes", "object file", "program"}
    assert all(shared_code.compared[kind] for kind in kinds)


def test_a_rule_that_knows_more_than_its_operator_is_rejected(monkeypatch):
    rule, calls = rules.RULES["log"], count(1)

    def wrong(b, operator, x):
        return b.fneg(x) if next(calls) > 1 else rule(b, operator, x)

    monkeypatch.setitem(rules.RULES, "log", wrong)
    with pytest.raises(SharedCodeError, match=r"loop nest is shared by uses whose code differs(.|\n)*fneg"):
        xl.compile(xl.parse(NESTS))


def test_a_kernel_that_looks_behind_its_operand_is_rejected(monkeypatch):
    right = rule_of("dot")
    assert right is not None

    def wrong(kernel, instruction):
        right(kernel, instruction)
        if instruction.operands[0].opcode == "negate":
            kernel.add_scratch(64)

    monkeypatch.setitem(kernel.KERNELS, "dot", wrong)
    with pytest.raises(SharedCodeError, match="kernel"):
        xl.compile(products(48, "negate"))


def test_a_kernel_of_many_sizes_that_knows_its_size_is_rejected(monkeypatch):
    right = rule_of("dot")
    assert right is not None

    def wrong(kernel, instruction):
        right(kernel, instruction)
        if instruction.shape.dims[0] == 80:
            with kernel.phase(1):
                pass

    monkeypatch.setitem(kernel.KERNELS, "dot", wrong)
    xl.compile(products(64))
    with pytest.raises(SharedCodeError, match="kernel of many sizes"):
        xl.compile(products(80))


def test_machine_code_of_other_ir_is_rejected():
    xl.compile(products(48))
    text = "define void @f() {\n ret void\n}\n"
    jit.object_cache.put(
        jit.object_key(text, jit.PassPipeline.LOOPS, process_target()), jit.process_code(text.replace("@f", "@g"))
    )
    with pytest.raises(SharedCodeError, match="object file"):
        jit.process_code(text)


def test_a_program_under_the_key_of_another_is_rejected(monkeypatch):
    monkeypatch.setattr(compilation, "key_of", lambda module, target: "0" * 64)
    xl.compile(products(48))
    with pytest.raises(SharedCodeError, match="program"):
        xl.compile(products(49))
