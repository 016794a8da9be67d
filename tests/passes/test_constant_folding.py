import pytest

from xloom.hlo.text.parser import parse
from xloom.passes import ConstantFolding, run_passes


def opcodes(module) -> list[str]:
    return [i.opcode for i in module.entry]


def test_constants_that_a_dump_left_out_have_no_value() -> None:
    module = parse("ENTRY e { c = f32[20] constant({...}) n = f32[20] negate(c) ROOT r = f32[20] abs(n) }")
    assert not ConstantFolding().run(module)


@pytest.mark.parametrize(("work", "folded"), [(0, 0), (12, 1), (24, 2), (10**6, 3)])
def test_work_is_limited(work: int, folded: int) -> None:
    module = parse(
        "ENTRY e { a = s32[6] constant({1,2,3,4,5,6}) b = s32[6] constant({6,5,4,3,2,1}) "
        "x = s32[6] negate(a) y = s32[6] negate(b) z = s32[6] add(x, y) ROOT r = (s32[6]) tuple(z) }"
    )
    run_passes(module, [ConstantFolding(max_work=work)])
    assert opcodes(module).count("negate") + opcodes(module).count("add") == 3 - folded


def test_loops_wait_for_run_time() -> None:
    module = parse(
        """cond { s = s32[] parameter(0) z = s32[] constant(0) ROOT r = pred[] compare(s, z), direction=EQ }
body { s = s32[] parameter(0) ROOT r = s32[] negate(s) }
f { s = s32[] parameter(0) ROOT r = s32[] while(s), condition=cond, body=body }
ENTRY e { z = s32[] constant(0) w = s32[] while(z), condition=cond, body=body c = s32[] call(z), to_apply=f
ROOT r = (s32[], s32[]) tuple(w, c) }"""
    )
    assert not ConstantFolding().run(module)


def test_what_fails_now_fails_at_run_time_too() -> None:
    module = parse('ENTRY e { x = f64[2] constant({1, 2}) ROOT r = f64[2] custom-call(x), custom_call_target="none" }')
    assert not ConstantFolding().run(module)


@pytest.mark.parametrize(("numbers", "folded"), [("2, 2, 2", "broadcast"), ("0.0, -0.0, 0.0", "constant")])
def test_elements_that_are_all_the_same_are_one_number(numbers: str, folded: str) -> None:
    module = parse(f"ENTRY e {{ c = f32[1,3] constant({{ {{{numbers}}} }}) ROOT r = f32[3] reshape(c) }}")
    assert ConstantFolding().run(module)
    assert module.entry.root.opcode == folded
