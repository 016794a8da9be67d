"""Programs as deep as their authors like: no stage needs Python's stack for it."""

import copy
import inspect
import pickle
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import loops_text, schedule_text
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.pjrt.cost import is_cheap

FRAMES = 120
"""Of Python's stack, which callers may have used up nearly: JAX alone takes hundreds."""


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What stages import when they first run takes more of the stack than all else."""
    for program in (chain(1), moves(1)):
        module = xl.parse(program)
        xl.compile(module)
        xl.evaluate(module, np.zeros(4, module.entry.parameters[0].shape.dtype.numpy))


@pytest.fixture(autouse=True)
def little_stack(imported: None) -> Iterator[None]:
    """A program that is deeper than this, and a stage that calls itself for it, do not go together."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    yield
    sys.setrecursionlimit(before)


def sines(count: int) -> str:
    """Of each other."""
    lines = " ".join(f"x{i + 1} = f32[4] sine(x{i})" for i in range(count))
    return f"ENTRY e {{ x0 = f32[4] parameter(0) {lines} ROOT r = f32[4] negate(x{count}) }}"


def chain(count: int) -> str:
    """x = x * 1.5 + c, as unrolled integrators have it."""
    lines = [
        f"k{i} = f32[] constant({i / count}) w{i} = f32[4] broadcast(k{i}), dimensions={{}} "
        f"m{i} = f32[4] multiply(x{i}, h) x{i + 1} = f32[4] add(m{i}, w{i})"
        for i in range(count)
    ]
    return f"""ENTRY e {{ x0 = f32[4] parameter(0) half = f32[] constant(0.5) h = f32[4] broadcast(half), dimensions={{}}
      {" ".join(lines)} ROOT r = f32[4] negate(x{count}) }}"""


def moves(count: int) -> str:
    """Operators that choose between places, and places that are data, one in the other."""
    lines = [
        f"p{i} = s32[6] pad(x{i}, z), padding=1_1 v{i} = s32[4] slice(p{i}), slice={{[1:5]}} "
        f"c{i}_ = s32[8] concatenate(v{i}, x0), dimensions={{0}} o{i} = s32[1] slice(c{i}_), slice={{[3:4]}} "
        f"at{i} = s32[] reshape(o{i}) x{i + 1} = s32[4] dynamic-slice(c{i}_, at{i}), dynamic_slice_sizes={{4}}"
        for i in range(count)
    ]
    return f"""ENTRY e {{ x0 = s32[4] parameter(0) z = s32[] constant(3)
      {" ".join(lines)} ROOT r = s32[4] negate(x{count}) }}"""


@pytest.mark.parametrize(
    ("program", "count"),
    [(chain, 10), (chain, 100), (chain, 1000), (sines, 10), (sines, 5000), (moves, 10), (moves, 400)],
)
def test_long_chains(program, count):
    module = xl.parse(program(count))
    given = np.array([1, 3, 0, 2], module.entry.parameters[0].shape.dtype.numpy)
    assert np.allclose(xl.compile(module)(given), xl.evaluate(module, given), rtol=1e-5)


def calls(count: int, opcode: str = "call", times: int = 1) -> str:
    """Computations that call each other, each the one before so many times."""
    kind, dims = ("f32[]", ", dimensions={}") if opcode == "map" else ("f32[4]", "")
    text = f"f0 {{ p = {kind} parameter(0) ROOT r = {kind} sine(p) }}\n"
    for i in range(1, count):
        inner = "".join(f" x{k + 1} = {kind} {opcode}(x{k}){dims}, to_apply=f{i - 1}" for k in range(times))
        text += f"f{i} {{ x0 = {kind} parameter(0){inner} ROOT r = {kind} negate(x{times}) }}\n"
    dims = ", dimensions={0}" if opcode == "map" else ""
    return f"{text} ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[4] {opcode}(p){dims}, to_apply=f{count - 1} }}"


def loops(count: int, *, bounded: bool = False) -> str:
    """Loops in loops: each of one iteration, or of as many as an argument says."""
    bound, kept, last = ("s32[], ", "n, ", 2) if bounded else ("", "", 1)
    state = f"(s32[], {bound}f32[4])"
    limit = "get-tuple-element(s), index=1" if bounded else "constant(1)"
    head = f"s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] {limit}"
    text = f"test {{ {head} ROOT r = pred[] compare(i, n), direction=LT }}\n"
    for k in range(count):
        inner = (
            f"zero = s32[] constant(0) t = {state} tuple(zero, {kept}x) w = {state} while(t), condition=test, "
            f"body=b{k - 1} y = f32[4] get-tuple-element(w), index={last}"
        )
        text += f"""b{k} {{ {head} one = s32[] constant(1) j = s32[] add(i, one)
          x = f32[4] get-tuple-element(s), index={last} {inner if k else "y = f32[4] cosine(x)"} v = f32[4] sine(y)
          ROOT r = {state} tuple(j, {kept}v) }}\n"""
    return f"""{text} ENTRY e {{ p = f32[4] parameter(0) {"n = s32[] parameter(1)" if bounded else ""}
      z = s32[] constant(0) t = {state} tuple(z, {kept}p) w = {state} while(t), condition=test, body=b{count - 1}
      ROOT r = f32[4] get-tuple-element(w), index={last} }}"""


def bounded_loops(count: int) -> str:
    """Those whose iterations nobody knows before they run."""
    return loops(count, bounded=True)


@pytest.mark.parametrize("program", [calls, lambda n: calls(n, "map"), loops], ids=["calls", "maps", "loops"])
def test_deep_nests_are_evaluated(program):
    given = np.linspace(0, 1, 4, dtype=np.float32)
    expected = given
    module = xl.parse(program(1000))
    if program is loops:
        expected = np.cos(expected)
        for _ in range(1000):
            expected = np.sin(expected)
    else:
        expected = -np.sin(expected)  # 999 signs
    assert np.allclose(xl.evaluate(module, given), expected, rtol=1e-4)


def test_deep_calls_are_compiled():
    given = np.linspace(0, 1, 4, dtype=np.float32)
    assert np.allclose(xl.compile(xl.parse(calls(1000)))(given), -np.sin(given), rtol=1e-5)


def branches(count: int) -> str:
    """Conditionals in conditionals, on data."""
    text = "leaf { p = f32[4] parameter(0) ROOT r = f32[4] cosine(p) }\n"
    for i in range(count):
        text += f"""t{i} {{ p = f32[4] parameter(0) v = f32[1] slice(p), slice={{[0:1]}} s = f32[] reshape(v)
          k = f32[] constant(5) q = pred[] compare(s, k), direction=LT
          c = f32[4] conditional(q, p, p), true_computation={f"t{i - 1}" if i else "leaf"}, false_computation=leaf
          ROOT r = f32[4] negate(c) }}\n"""
    return f"""{text} ENTRY e {{ p = f32[4] parameter(0) m = s32[] parameter(1) q = pred[] compare(m, m), direction=EQ
      ROOT r = f32[4] conditional(q, p, p), true_computation=t{count - 1}, false_computation=leaf }}"""


@pytest.mark.parametrize("program", [bounded_loops, branches])
@pytest.mark.parametrize("count", [10, 200])
def test_deep_nests_are_compiled(program, count):
    module = xl.parse(program(count))
    given = np.linspace(0, 1, 4, dtype=np.float32), np.int32(1)
    assert np.allclose(xl.compile(module)(*given), xl.evaluate(module, *given), rtol=1e-4)


@pytest.mark.parametrize("program", [loops, bounded_loops, branches])
def test_deep_nests_have_stage_texts(program):
    module = xl.parse(program(100))
    assert schedule_text(module) and loops_text(module)
    assert is_cheap(module, CompiledMemoryStats(0, 0, 0, 0)) in (True, False)


def test_deep_calls_of_scalars_are_compiled():
    text = "f0 { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }\n"
    for i in range(1, 300):
        text += (
            f"f{i} {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] call(p, q), to_apply=f{i - 1} }}\n"
        )
    text += "ENTRY e { p = f32[9] parameter(0) z = f32[] constant(0) "
    module = xl.parse(text + "ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f299 }")
    assert xl.compile(module)(np.ones(9, np.float32)) == 9


@pytest.mark.parametrize("count", [10, 1000])
def test_a_long_chain_is_pickled(count):
    module = xl.parse(chain(count))
    copied = pickle.loads(pickle.dumps(module))
    assert str(copied) == str(module)
    assert [[u.name for u in i.users] for i in copied.instructions] == [
        [u.name for u in i.users] for i in module.instructions
    ]
    entry, root, again = pickle.loads(pickle.dumps((module.entry, module.entry.root, module)))
    assert entry is again.entry and root is again.entry.root
    assert copy.deepcopy(root).name == root.name


def test_deep_calls_are_pickled():
    module = xl.parse(loops(1000))
    assert str(pickle.loads(pickle.dumps(module))) == str(module)


@pytest.mark.parametrize("opcode", ["call", "map"])
def test_calls_that_double(opcode: str):
    module = xl.parse(calls(60, opcode, times=2))
    with pytest.raises(xl.LoweringError, match=r"stands for [0-9]{18}"):
        xl.compile(module)
    with pytest.raises(xl.EvaluationError, match=r"stands for [0-9]{18}"):
        xl.evaluate(module, np.zeros(4, np.float32))
    with pytest.raises(xl.PassError, match=r"stands for [0-9]{18}"):
        xl.run_passes(module, "call-inlining")


def fusions(count: int) -> str:
    """The same of fusions."""
    return calls(count, "fusion").replace("to_apply=", "kind=kLoop, calls=")


@pytest.mark.parametrize(("program", "name"), [(calls, "call-inlining"), (fusions, "fusion-inlining")])
def test_what_deep_calls_do_is_copied_once(program, name):
    """Not once for each level."""
    module = xl.parse(program(300))
    before = sum(map(len, module.computations))
    assert xl.run_passes(module, name)[0].changed
    assert sum(map(len, module.computations)) < 2 * before
    assert not any(i.called_computations for i in module.entry)
    given = np.linspace(0, 1, 4, dtype=np.float32)
    assert np.allclose(xl.evaluate(module, given), -np.sin(given), rtol=1e-5)


def test_a_long_chain_is_copied():
    module = xl.parse(chain(1000))
    assert str(copy.deepcopy(module)) == str(module)
