"""Programs with very many instructions that do not need each other: no stage looks at each of them again for each."""

from itertools import pairwise

import numpy as np
import pytest

import xloom as xl
from xloom.codegen.buffers import stack_budget
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.offsets import MANY, assign_offsets
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.fusion import fusion_group, multi_output
from xloom.cpu.entry import function as entry_function
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.hlo.verify.module import verify
from xloom.llvm.target import process_target


def sums(count: int) -> str:
    parts = " ".join(
        f"k{i} = f32[] constant({i}) w{i} = f32[6] broadcast(k{i}), dimensions={{}} a{i} = f32[6] multiply(p, w{i})"
        for i in range(count)
    )
    shape, names = ", ".join(["f32[6]"] * count), ", ".join(f"a{i}" for i in range(count))
    return f"ENTRY e {{ p = f32[6] parameter(0) {parts} ROOT r = ({shape}) tuple({names}) }}"


def test_values_of_a_wide_program():
    module = xl.parse(sums(300))
    given = np.arange(6, dtype=np.float32)
    for ours, theirs in zip(xl.compile(module)(given), xl.evaluate(module, given), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("stack", [0, 7, 100])
def test_what_is_on_the_stack_is_bounded(stack: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stack_budget, "STACK_ARRAYS", stack)
    monkeypatch.setattr(entry_function, "STACK_POINTERS", stack)
    module = xl.parse(sums(80))
    given = np.arange(6, dtype=np.float32)
    _, assignment, program = lowered(prepared(module), process_target())
    assert len(assignment.stack) <= stack
    assert program.main.count("alloca") <= 2 * stack + 3
    for ours, theirs in zip(xl.compile(module)(given), xl.evaluate(module, given), strict=True):
        assert np.array_equal(ours, theirs)


def test_long_state_that_is_turned_round_is_not_saved_on_the_stack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stack_budget, "STACK_ARRAYS", 3)
    count = 12
    state = f"(s32[], {', '.join(['f32[2]'] * count)})"
    parts = " ".join(f"g{k} = f32[2] get-tuple-element(s), index={k + 1}" for k in range(count))
    turned = ", ".join(f"g{(k + 1) % count}" for k in range(count))
    initial = " ".join(f"k{k} = f32[2] constant({{{k}, 7}})" for k in range(count))
    module = xl.parse(f"""
      test {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
        ROOT r = pred[] compare(i, n), direction=LT }}
      body {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
        j = s32[] add(i, one) {parts} ROOT r = {state} tuple(j, {turned}) }}
      ENTRY e {{ z = s32[] parameter(0) {initial} t = {state} tuple(z, {", ".join(f"k{k}" for k in range(count))})
        ROOT w = {state} while(t), condition=test, body=body }}""")
    for ours, theirs in zip(xl.compile(module)(np.int32(0)), xl.evaluate(module, np.int32(0)), strict=True):
        assert np.array_equal(ours, theirs)


def test_arrays_of_a_long_state_are_not_counted_for_each(monkeypatch: pytest.MonkeyPatch):
    count = 150
    state = f"(s32[], {', '.join(['f32[2]'] * count)})"
    parts = " ".join(
        f"g{k} = f32[2] get-tuple-element(s), index={k + 1} h{k} = f32[2] sine(g{k})" for k in range(count)
    )
    initial = " ".join(f"k{k} = f32[2] constant({{{k}, 7}})" for k in range(count))
    module = xl.parse(f"""
      test {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
        ROOT r = pred[] compare(i, n), direction=LT }}
      body {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
        j = s32[] add(i, one) {parts} ROOT r = {state} tuple(j, {", ".join(f"h{k}" for k in range(count))}) }}
      ENTRY e {{ z = s32[] parameter(0) {initial} t = {state} tuple(z, {", ".join(f"k{k}" for k in range(count))})
        ROOT w = {state} while(t), condition=test, body=body }}""")
    asked, slot = 0, vars(Shape)["is_array"]

    def counted(shape: Shape) -> bool:
        nonlocal asked
        asked += 1
        return slot.__get__(shape)

    ready = prepared(module)
    monkeypatch.setattr(Shape, "is_array", property(counted, slot.__set__))
    lowered(ready, process_target())
    assert asked < 500 * count


def test_a_nest_that_many_join_is_traced_once(monkeypatch: pytest.MonkeyPatch):
    traced = 0

    def counted(stages, inlined, rank=0):
        nonlocal traced
        traced += sum(map(len, stages))
        return nest_for(stages, inlined, rank)

    monkeypatch.setattr(multi_output, "nest_for", counted)
    monkeypatch.setattr(fusion_group, "nest_for", counted)
    lowered(prepared(xl.parse(sums(240))), process_target())
    assert traced <= 3 * 240


def test_operands_of_a_wide_instruction_are_compared_a_few_times(monkeypatch: pytest.MonkeyPatch):
    module = xl.parse(sums(500))
    compared = 0

    class Watched(Instruction):
        __slots__ = ()
        __hash__ = Instruction.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

    for instruction in module.entry:
        instruction.__class__ = Watched
    verify(module)
    for instruction in module.entry.root.operands:
        instruction.replace_all_uses_with(module.entry.add(instruction.clone()))
    assert compared < 20 * len(module.entry)
    verify(module)


def test_replaced_operands_of_a_wide_instruction_are_found_again():
    module = xl.parse(sums(100))
    root = module.entry.root
    first, second, third = root.operands[:3]
    first.replace_all_uses_with(second)
    second.replace_all_uses_with(third)
    assert root.operands[:3] == (third,) * 3
    root.replace_operand(1, first)
    third.replace_all_uses_with(second)
    assert root.operands[:3] == (second, first, second)
    verify(module)


def test_many_arrays_do_not_lie_one_on_another():
    random = np.random.default_rng(0)
    slots = []
    for _ in range(MANY + 3000):
        first = int(random.integers(10_000))
        slots.append(
            BufferAllocation(
                "arena", int(random.integers(1, 5000)), first=first, last=first + int(random.integers(0, 40))
            )
        )
    total = assign_offsets(slots, [])
    assert all(s.offset % 64 == 0 and s.offset + s.nbytes <= total for s in slots)
    for position in range(0, 10_000, 50):
        living = sorted((s.offset, s.offset + s.nbytes) for s in slots if s.first <= position <= s.last)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(living))
    assert total < sum(s.nbytes for s in slots) / 8
