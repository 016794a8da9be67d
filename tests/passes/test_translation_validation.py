"""Each pass is compared with what it was given: what is right passes, and what is wrong is found."""

from dataclasses import dataclass

import numpy as np
import pytest

import xloom as xl
from tests.passes.loop_programs import loop_program
from xloom.errors import EvaluationError
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.hlo.verify.module import verify
from xloom.interpreter.samples import random_arguments
from xloom.passes import PASSES, Compare, Pass, WrongValueError, run_passes
from xloom.passes.compare import NotComparedWarning
from xloom.passes.hooks import difference
from xloom.passes.shrinking import shrunk
from xloom.passes.trial_evaluation import Loops, TooMuchWork, trial

LOOPS = "while-loop-simplification,tuple-simplification,cse,dce"


@pytest.mark.parametrize("seed", range(40))
def test_loops_whose_state_moves(seed: int) -> None:
    module = loop_program(seed)
    verify(module)
    run_passes(module, LOOPS, compare=True)


@pytest.mark.parametrize("seed", range(5))
def test_loops_whose_state_moves_in_native_code(seed: int) -> None:
    module = loop_program(100 + seed)
    arguments = random_arguments(module, seed)
    assert not difference(xl.evaluate(module, *arguments), xl.compile(module)(*arguments))


LOOP = """HloModule m
more { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TRIPS)  ROOT p = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = f32[4] get-tuple-element(s), index=1  a = f32[4] get-tuple-element(s), index=2
  b = f32[4] get-tuple-element(s), index=3  one = s32[] constant(1)  j = s32[] add(i, one)  c = f32[4] add(a, b)
  ROOT t = (s32[], f32[4], f32[4], f32[4]) tuple(j, k, k, c) }
ENTRY e { x = f32[4] parameter(0)  q = f32[] constant(3)  k = f32[4] broadcast(q), dimensions={}
  z = s32[] constant(0)  t = (s32[], f32[4], f32[4], f32[4]) tuple(z, k, x, x)
  w = (s32[], f32[4], f32[4], f32[4]) while(t), condition=more, body=body
  ROOT r = f32[4] get-tuple-element(w), index=3 }"""


def swap(module: Module) -> None:
    """Hands the elements 1 and 3 on as one another: nobody sees it before the last iteration but one."""
    (loop,) = (i for i in module.instructions if i.opcode == "while")
    root = loop["body"].root
    i, k, a, c = root.operands
    root.set_operands([i, k, c, a])


@dataclass(frozen=True)
class Does(Pass):
    """What a test says."""

    name = "wrong"
    what: object

    def run(self, module: Module) -> bool:
        self.what(module)  # type: ignore[operator]
        return True

    def __str__(self) -> str:
        return "wrong"


def take_what_is_read_for_unread(module: Module) -> None:
    """The condition that `while-loop-simplification` once had: what is handed on as another element is not read."""
    from xloom.passes import while_loop_simplification as passes

    right = passes._reads
    passes._reads = lambda c, k: [(u, n) for u, n in right(c, k) if u.opcode != "tuple"]
    try:
        passes.WhileLoopSimplification().run(module)
    finally:
        passes._reads = right


def test_state_taken_for_a_number_is_found() -> None:
    module = parse(LOOP.replace("TRIPS", "9"))
    with pytest.raises(
        WrongValueError,
        match=r"pass 1 \(wrong\) changed the result: .*by its shape, and .*float32\[\], .* by its value",
    ):
        run_passes(module, [Does(take_what_is_read_for_unread)], verify=False, compare=True)


def test_the_error_has_the_module_before_and_its_arguments() -> None:
    module = parse(LOOP.replace("TRIPS", "9"))
    text = module.to_text(print_large_constants=True)
    with pytest.raises(WrongValueError, match=r"state 1 of w\[2\]") as caught:
        run_passes(module, [Does(swap)], compare=Compare(seed=5))
    error = caught.value
    assert "random_arguments(module, 5, edges=False, smaller=False)" in error.hint and text in error.hint
    swapped = error.before.clone("")
    swap(swapped)
    assert difference(xl.evaluate(error.before, *error.arguments), xl.evaluate(swapped, *error.arguments))


def test_a_loop_that_never_ends_is_compared_unrolled() -> None:
    module = parse(LOOP.replace("TRIPS", "2147483647").replace("(i, n), direction=LT", "(i, n), direction=LE"))
    with pytest.raises(WrongValueError, match="after 1 iterations"):
        run_passes(module, [Does(swap)], compare=Compare(samples=1))


SUM = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[SIZE,3] parameter(0)  y = f32[SIZE,3] parameter(1)  z = f32[] constant(0)
  p = f32[SIZE,3] multiply(x, y)  q = f32[SIZE,3] add(p, x)  flat = f32[LONG] reshape(q)
  half = f32[SIZE] slice(flat), slice={[0:SIZE]}  s = f32[] reduce(flat, z), dimensions={0}, to_apply=add
  t = f32[] reduce(half, z), dimensions={0}, to_apply=add  ROOT r = f32[] divide(s, t) }"""


def reorder(module: Module) -> None:
    """(x * y) + x is x * (y + 1), but for roundings."""
    q = next(i for i in module.entry if i.opcode == "add")
    p, x = q.operands
    one = module.entry.add(xl.Instruction("one", "constant", xl.f32[()], (), {"literal": xl.literal(np.float32(1))}))
    ones = module.entry.add(xl.Instruction("ones", "broadcast", q.shape, [one], {"dimensions": ()}))
    more = module.entry.add(xl.Instruction("more", "add", q.shape, [p.operands[1], ones]))
    q.replace_all_uses_with(module.entry.add(xl.Instruction("m", "multiply", q.shape, [x, more])))


def leave_out(module: Module) -> None:
    """x * y is not x * y + x."""
    q = next(i for i in module.entry if i.opcode == "add")
    q.replace_all_uses_with(q.operands[0])


@pytest.mark.parametrize("size", [5, 1 << 24])
def test_roundings_may_differ_and_values_may_not(size: int) -> None:
    module = parse(SUM.replace("SIZE", str(size)).replace("LONG", str(3 * size)))
    run_passes(module.clone(""), [Does(reorder)], compare=Compare(samples=1, rounding=True))
    with pytest.raises(WrongValueError):
        run_passes(module.clone(""), [Does(reorder)], compare=Compare(samples=1))
    with pytest.raises(WrongValueError, match="in small sizes" if size > 5 else None):
        run_passes(module, [Does(leave_out)], compare=Compare(samples=1, rounding=True))


def test_sizes_that_are_sums_or_products_of_others_stay_so() -> None:
    small = shrunk(parse(SUM.replace("SIZE", "1000000").replace("LONG", "3000000")))
    assert small is not None
    assert {i.name: i.shape.dims for i in small.entry}["flat"] == (27,)
    text = "HloModule m\nENTRY e { x = f32[999] parameter(0) ROOT y = f32[90] slice(x), slice={[9:99]} }"
    assert shrunk(parse(text)) is None


def rename(module: Module) -> None:
    """Another module, of the same values."""
    module.entry.root.name = "z"


def test_what_cannot_be_compared_is_said() -> None:
    text = "HloModule m\nENTRY e { a = f32[] constant(0) b = f32[] constant(1) ROOT y = f32[9] rng(a, b), distribution=rng_uniform }"
    with pytest.raises(EvaluationError, match=r"pass 1 \(wrong\) cannot be compared: y is more than a value"):
        run_passes(parse(text), [Does(rename)], compare=True)
    lenient = Compare(strict=False)
    with pytest.warns(NotComparedWarning, match="y is more than a value"):
        run_passes(parse(text), [Does(rename)], compare=lenient)
    assert lenient.skipped == ["pass 1 (wrong) cannot be compared: y is more than a value"]


def test_the_environment_has_what_compiling_does_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from xloom.cpu import prepare

    monkeypatch.setenv("XLOOM_CHECK", "passes")
    module = parse(LOOP.replace("TRIPS", "3"))
    xl.compile(module)
    monkeypatch.setattr(prepare, "_OWN", (Does(swap),))
    with pytest.raises(WrongValueError, match=r"pass \d \(wrong\) changed the result"):
        xl.compile(module)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("row-major-entry", "ENTRY e { x = f32[3,5]{0,1} parameter(0) ROOT y = f32[3,5]{0,1} negate(x) }"),
        (
            "dynamic-padding",
            "ENTRY e { x = f32[<=9] parameter(0) y = f32[<=9] negate(x) ROOT r = (f32[<=9], f32[<=9]) tuple(x, y) }",
        ),
    ],
)
def test_passes_that_change_the_entry_say_how(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(f"HloModule m\n{text}")
    run_passes(module.clone(""), name, compare=True)
    made = PASSES[name]
    right = made.run

    def wrong(self: Pass, module: Module) -> bool:
        next(i for i in module.instructions if i.opcode == "negate").opcode = "abs"
        return right(self, module)

    monkeypatch.setattr(made, "run", wrong)
    with pytest.raises(WrongValueError):
        run_passes(module, name, compare=True)


def test_trials_see_each_value_in_loops() -> None:
    module = parse(LOOP.replace("TRIPS", "3"))
    x = np.arange(4, dtype=np.float32) / 3
    runs = [trial(module, [x], Loops.of(module, module), None, run=run) for run in (0, 2)]
    assert [f"state {n} of w" in runs[0] for n in range(5)] == [True, True, True, True, False]
    assert difference(*(r["result"] for r in runs)), "a run of other roundings"
    with pytest.raises(TooMuchWork):
        trial(module, [x], Loops.of(module, module), None, work=1000)
