"""Random chains of operators that move elements: all elements are different, so any wrong move shows."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.passes import run_passes
from xloom.passes.hooks import difference

Dims = tuple[int, ...]


def _spell(dims: Dims) -> str:
    return f"s32[{','.join(map(str, dims))}]"


def _ints(values) -> str:
    return "{" + ",".join(map(str, values)) + "}"


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Dims]:
    start: Dims = draw(st.sampled_from([(4, 3), (2, 1, 3), (6,), (1, 2, 2), (5, 1)]))
    lines = [f"x0 = {_spell(start)} parameter(0)", "s = s32[] parameter(1)", "one = s32[] constant(1)"]
    values: list[tuple[str, Dims]] = [("x0", start)]
    for k in range(1, draw(st.integers(2, 9))):
        name, dims = draw(st.sampled_from(values[-3:]))
        if draw(st.integers(0, 9)) == 0:
            halves, along = _cut_and_join(draw, name, dims)
            lines += [f"{h}{k} = {shape} {line}" for h, (shape, line) in zip("ab", halves, strict=True)]
            line, out = f"concatenate(a{k}, b{k}), dimensions={{{along}}}", dims
        else:
            line, out = draw(st.sampled_from(MOVES))(draw, name, dims)
        if line is None or math.prod(out) > 400:
            continue
        lines.append(f"x{k} = {_spell(out)} {line}")
        values.append((f"x{k}", out))
    shapes, names = ", ".join(_spell(d) for _, d in values), ", ".join(n for n, _ in values)
    return "ENTRY main {\n" + "\n".join([*lines, f"ROOT r = ({shapes}) tuple({names})"]) + "\n}", start


def _transpose(draw, x, dims):
    order = draw(st.permutations(range(len(dims))))
    return f"transpose({x}), dimensions={_ints(order)}", tuple(dims[d] for d in order)


def _reshape(draw, x, dims):
    size = math.prod(dims)
    first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0] or [0]))
    out = draw(st.sampled_from([(size,), (first, size // max(first, 1)), (1, size), (size, 1), dims]))
    return (f"reshape({x})", out) if math.prod(out) == size else (None, out)


def _broadcast(draw, x, dims):
    places = sorted(draw(st.permutations(range(len(dims) + 1)))[: len(dims)])
    new = draw(st.sampled_from([1, 2]))
    out = [new] * (len(dims) + 1)
    for place, d in zip(places, dims, strict=True):
        out[place] = d
    return f"broadcast({x}), dimensions={_ints(places)}", tuple(out)


def _fill(draw, x, dims):
    return "broadcast(s), dimensions={}", dims


def _slice(draw, x, dims):
    parts, out = [], []
    for d in dims:
        low = draw(st.integers(0, d))
        high = draw(st.integers(low, d))
        stride = draw(st.sampled_from([1, 1, 2, 3]))
        parts.append(f"[{low}:{high}:{stride}]")
        out.append(-(-(high - low) // stride))
    return f"slice({x}), slice={{{', '.join(parts)}}}", tuple(out)


def _dynamic_slice(draw, x, dims):
    out = tuple(draw(st.integers(0, d)) for d in dims)
    starts = ", ".join(draw(st.sampled_from(["one", "s"])) for _ in dims)
    return f"dynamic-slice({x}, {starts}), dynamic_slice_sizes={_ints(out)}", out


def _reverse(draw, x, dims):
    return f"reverse({x}), dimensions={_ints(d for d in range(len(dims)) if draw(st.booleans()))}", dims


def _pad(draw, x, dims):
    pads = [
        (draw(st.integers(-1, 1)), draw(st.integers(-1, 1)), draw(st.integers(0, 1)) if draw(st.booleans()) else 0)
        for _ in dims
    ]
    out = tuple(low + high + d + max(d - 1, 0) * i for d, (low, high, i) in zip(dims, pads, strict=True))
    line = f"pad({x}, s), padding={'x'.join(f'{a}_{b}_{c}' for a, b, c in pads)}"
    return (line, out) if all(n >= 0 for n in out) else (None, out)


def _concatenate(draw, x, dims):
    along = draw(st.integers(0, len(dims) - 1))
    out = tuple(2 * d if k == along else d for k, d in enumerate(dims))
    return f"concatenate({x}, {x}), dimensions={{{along}}}", out


def _cut_and_join(draw, x, dims):
    """Two slices of x next to each other, in either order, joined."""
    along = draw(st.integers(0, len(dims) - 1))
    cut = draw(st.integers(0, dims[along]))
    halves = []
    for low, high in ((0, cut), (cut, dims[along])):
        spans = [(low, high) if k == along else (0, d) for k, d in enumerate(dims)]
        shape = _spell(tuple(b - a for a, b in spans))
        halves.append((shape, f"slice({x}), slice={{{', '.join(f'[{a}:{b}]' for a, b in spans)}}}"))
    if draw(st.booleans()):
        halves.reverse()
    return halves, along


def _add(draw, x, dims):
    return f"add({x}, {x})", dims


MOVES = [_transpose, _reshape, _broadcast, _fill, _slice, _dynamic_slice, _reverse, _pad, _concatenate, _add]


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(-1, 3))
def test_values_are_kept(program: tuple[str, Dims], scalar: int) -> None:
    text, start = program
    before, after = parse(text), parse(text)
    run_passes(after, "layout-simplification")
    x = np.arange(math.prod(start), dtype=np.int32).reshape(start)
    arguments = x, np.int32(scalar)
    found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
    assert not found, f"{found}\n{after}"
    assert not any(run.changed for run in run_passes(after, "layout-simplification"))


@pytest.mark.parametrize("reversal", ["", " rhs_reversal=1x0"])
def test_kernel_gradients_of_spread_inputs_spread_windows(reversal: str) -> None:
    """So that all places of the result meet as many elements; the result may be backwards."""
    module = parse(f"""HloModule m
ENTRY e {{
  x = s32[2,3,4,5] parameter(0)
  g = s32[2,6,8,12] parameter(1)
  ROOT y = s32[6,3,4,2] convolution(x, g), window={{size=8x12 pad=2_2x1_3 lhs_dilate=2x2{reversal}}},
    dim_labels=fb01_io01->fb01
}}""")
    arguments = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5), np.arange(1152, dtype=np.int32).reshape(2, 6, 8, 12)
    before = evaluate(module, *arguments)
    run_passes(module, "layout-simplification")
    [convolution] = [i for i in module.instructions if i.opcode == "convolution"]
    assert all((d.base_dilation, d.window_dilation) == (1, 2) for d in convolution["window"])
    assert not difference(before, evaluate(module, *arguments))


@pytest.mark.parametrize("reversal", ["", " rhs_reversal=1x0"])
@pytest.mark.parametrize(("result", "padding"), [("6,3,4,2", "2_2x1_3"), ("6,3,3,2", "3_0x-1_5")])
def test_what_is_not_finite_meets_the_zeros_of_spread_inputs(reversal: str, result: str, padding: str) -> None:
    """And no zeros around what was the kernel, wherever the operands are exchanged."""
    module = parse(f"""HloModule m
ENTRY e {{
  x = f32[2,3,4,5] parameter(0)
  g = f32[2,6,8,12] parameter(1)
  ROOT y = f32[{result}] convolution(x, g), window={{size=8x12 pad={padding} lhs_dilate=2x2{reversal}}},
    dim_labels=fb01_io01->fb01
}}""")
    exchanged = parse(str(module))
    run_passes(exchanged, "layout-simplification")
    assert any(d.window_dilation == 2 for i in exchanged.instructions if i.opcode == "convolution" for d in i["window"])
    random = np.random.default_rng(len(padding))
    for trial in range(12):
        arguments = [random.integers(-4, 5, p.shape.dims).astype(np.float32) for p in module.entry.parameters]
        spoilt = arguments[trial % 2].reshape(-1)
        spoilt[random.integers(spoilt.size)] = (np.nan, np.inf)[trial % 3 == 0]
        assert not difference(evaluate(module, *arguments), evaluate(exchanged, *arguments))


def test_all_of_a_reshape_is_all_of_what_it_is_of() -> None:
    module = parse("""add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
    ENTRY e { x = s32[4,6] parameter(0) s = s32[] parameter(1) y = s32[8,3] reshape(x)
      ROOT r = s32[] reduce(y, s), dimensions={0,1}, to_apply=add }""")
    run_passes(module, "layout-simplification,dce")
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "parameter", "reduce"]
    assert evaluate(module, np.arange(24, dtype=np.int32).reshape(4, 6), np.int32(5)) == 5 + 23 * 12
