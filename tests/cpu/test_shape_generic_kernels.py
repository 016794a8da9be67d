"""Machine code that serves many shapes: what is computed of their sizes, the conditions, and results on other shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import xloom as xl
from xloom.cli.main import cli
from xloom.compilation_cache import shipped
from xloom.cpu import compilation, kept_programs
from xloom.cpu.entry import function as entry_function
from xloom.cpu.kernel_modules import shape_generic
from xloom.cpu.library import programs, reductions
from xloom.cpu.loops.lowering import Lowering
from xloom.llvm import jit
from xloom.llvm.symbolic_dimension import SymbolicDimensions, divides, greatest, if_less, least
from xloom.llvm.target import process_target

SIZE = st.integers(16, 90) | st.sampled_from([128, 256, 257, 300])


@pytest.fixture
def emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that were written out, in a process that has compiled nothing."""
    found: list[str] = []

    def noted(rule: Callable) -> Callable:
        def run(kernel, instruction):
            found.append(instruction.opcode)
            rule(kernel, instruction)

        return run

    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "kernels")  # what `make kernels` may have left is not used
    shipped.shipped.cache_clear()
    original = entry_function.rule_of
    monkeypatch.setattr(entry_function, "rule_of", lambda opcode: (r := original(opcode)) and noted(r))
    for cache in (kept_programs.linked, jit.object_cache, shape_generic.kept):
        cache.clear()
    yield found
    shipped.shipped.cache_clear()
    for cache in (kept_programs.linked, jit.object_cache, shape_generic.kept):
        cache.clear()


def dot(rows: int, depth: int, columns: int, left: int = 1, right: int = 0, dtype: str = "f32") -> xl.Module:
    a = (rows, depth) if left == 1 else (depth, rows)
    b = (depth, columns) if right == 0 else (columns, depth)
    return xl.parse(f"""HloModule m
    ENTRY e {{
      a = {dtype}[{a[0]},{a[1]}] parameter(0)
      b = {dtype}[{b[0]},{b[1]}] parameter(1)
      ROOT c = {dtype}[{rows},{columns}] dot(a, b), lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
    }}""")


def agrees(module: xl.Module) -> bool:
    random = np.random.default_rng(0)
    arguments = [random.integers(-4, 5, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters]
    return np.array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_what_is_computed_is_written_down():
    sizes = SymbolicDimensions([100, 7])
    a, b = sizes.symbols
    pieces = -(-a // 16)
    assert least(pieces, b) is least(pieces, b)
    assert (pieces * 1 + 0) is pieces and a * 0 == 0
    assert greatest(3, 4) == 4
    sizes.slot(least(pieces, b))
    formula = sizes.formula([a % b, 5], [a - 1])
    assert formula.of((100, 7)) == [[7], [2, 5], [99]]
    assert formula.of((33, 70)) == [[3], [33, 5], [32]]


def test_what_is_decided_is_a_condition():
    sizes = SymbolicDimensions([100, 7])
    a, b = sizes.symbols
    assert a > 50 and b != 8 and a == a and not divides(10, a)
    assert list(range(b)) == list(range(7))
    formula = sizes.formula()
    assert formula.of((51, 7)) == [[]]
    assert formula.of((50, 7)) is None
    assert formula.of((51, 6)) is None


def test_a_choice_of_numbers_is_no_condition():
    sizes = SymbolicDimensions([100, 7])
    a, b = sizes.symbols
    assert if_less(3, 4, 1, 2) == 1 and if_less(4, 4, 1, 2) == 2
    formula = sizes.formula([if_less(a, 50, b, a), if_less(b, a, 1, 2)])
    assert formula.of((100, 7)) == [[], [100, 1]] and formula.of((49, 60)) == [[], [60, 2]]
    assert formula.of((50, 50)) == [[], [50, 2]]


def test_how_many_blocks_there_are_is_no_condition(emitted):
    assert agrees(dot(160, 400, 520)) and agrees(dot(160, 400, 200))  # an even number where there are few
    assert emitted == ["dot"]


def test_a_product_of_another_shape_is_not_written_again(emitted):
    assert agrees(dot(300, 700, 500)) and agrees(dot(301, 999, 777))
    assert emitted == ["dot"]
    assert agrees(dot(300, 400, 500, right=1))  # other code
    assert emitted == ["dot", "dot"]


def pooled(batch: int, rows: int, columns: int, channels: int, opcode: str = "add", side: int = 2) -> xl.Module:
    counts = ",".join(str((n - side) // 2 + 1) for n in (rows, columns))
    return xl.parse(f"""HloModule m
    f {{
      x = f32[] parameter(0)
      y = f32[] parameter(1)
      ROOT z = f32[] {opcode}(x, y)
    }}
    ENTRY e {{
      a = f32[{batch},{rows},{columns},{channels}] parameter(0)
      zero = f32[] constant(0)
      ROOT r = f32[{batch},{counts},{channels}] reduce-window(a, zero),
        window={{size=1x{side}x{side}x1 stride=1x2x2x1}}, to_apply=f
    }}""")


@pytest.mark.parametrize("channels", [[20, 20], [130, 5000]])
def test_small_windows_of_another_image_are_not_written_again(emitted, channels):
    few, many = channels
    assert agrees(pooled(1, 31, 50, few)) and agrees(pooled(1, 10, 77, few)) and agrees(pooled(1, 3, 4, few))
    assert emitted == ["reduce-window"]
    assert agrees(pooled(3, 31, 50, few)) and agrees(pooled(2, 7, 9, few))
    assert agrees(pooled(2, 7, 9, many, "maximum"))


def test_windows_that_share_much_have_code_for_their_sizes(emitted):
    assert agrees(pooled(1, 31, 50, 20, "maximum", 3)) and agrees(pooled(1, 10, 77, 20, "maximum", 3))
    assert emitted == ["reduce-window"] * 2


def test_another_process_finds_it(emitted):
    xl.compile(dot(300, 400, 500))
    for cache in (kept_programs.linked, jit.object_cache, shape_generic.kept):
        compilation.cache.flush()
        cache.clear()
    assert agrees(dot(310, 410, 510))
    assert emitted == ["dot"]


def test_lost_machine_code_is_made_again(emitted):
    xl.compile(dot(300, 400, 500))
    compilation.cache.flush()
    jit.object_cache.clear()
    for path in Path(compilation.cache.folder().path).rglob("*"):
        if path.is_file():
            path.unlink()
    assert agrees(dot(310, 410, 510))
    assert emitted == ["dot", "dot"]


def test_a_panel_of_one_element_more_than_a_vector():
    assert agrees(dot(65, 300, 63, 0, 1, "f64")) and agrees(dot(33, 17, 300, 0, 0, "f64"))
    text = """HloModule m
    ENTRY e {
      a = f32[65,17,17] parameter(0)
      b = f32[7,17,65] parameter(1)
      ROOT c = f32[17,7] dot(a, b), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,1}
    }"""
    assert agrees(xl.parse(text))
    assert agrees(xl.parse(text.replace("{0,2}, rhs_contracting_dims={2,1}", "{0,1}, rhs_contracting_dims={2,1}")))


def test_the_library_is_what_it_says():
    texts = list(programs.programs())
    assert len(set(texts)) == len(texts)
    for text in texts:
        xl.verify(xl.parse(text))


def test_the_library_command_keeps_kernels(emitted, monkeypatch):
    text = dot(300, 400, 500).to_text()
    monkeypatch.setattr(programs, "programs", lambda: iter([text]))
    assert CliRunner().invoke(cli, ["library"]).exit_code == 0
    for cache in (kept_programs.linked, jit.object_cache, shape_generic.kept):
        cache.clear()
    assert agrees(dot(310, 410, 510))
    assert emitted == ["dot"]
    monkeypatch.setenv("XLOOM_CACHE", "0")
    assert "keeps nothing" in str(CliRunner().invoke(cli, ["library"]).exception)


@settings(max_examples=60, deadline=None)
@given(SIZE, SIZE, SIZE, st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from(["f32", "bf16", "s8"]))
def test_products_of_any_sizes(rows, depth, columns, left, right, dtype):
    if dtype == "s8":
        depth = min(depth, 64)
    module = dot(rows, depth, columns, left, right, dtype)
    assert agrees(module)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(5, 40), st.integers(5, 40)),
    st.sampled_from([1, 3, 16, 17, 40, 64]),
    st.sampled_from([1, 8, 16, 33, 64]),
    st.sampled_from(["1x1", "3x3", "3x3 pad=1_1x1_1", "3x3 stride=2x2 pad=0_1x0_1", "3x3 rhs_dilate=2x2"]),
    st.sampled_from(["b01f_01io->b01f", "bf01_oi01->bf01"]),
)
def test_convolutions_of_any_sizes(image, features, outputs, window, labels):
    batch, height, width = image
    size = int(window[0])
    x = (batch, height, width, features) if labels[1] == "0" else (batch, features, height, width)
    w = (size, size, features, outputs) if labels[1] == "0" else (outputs, features, size, size)
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{",".join(map(str, x))}] parameter(0)
      w = f32[{",".join(map(str, w))}] parameter(1)
      ROOT y = SHAPE convolution(x, w), window={{size={window}}}, dim_labels={labels}
    }}"""
    pad, stride = (1, 1) if "pad=1" in window else (0.5, 2) if "pad=0" in window else (0, 1)
    reach = 5 if "dilate" in window else size
    places = [(int(n + 2 * pad) - reach) // stride + 1 for n in (height, width)]
    y = (batch, *places, outputs) if labels[1] == "0" else (batch, outputs, *places)
    assert agrees(xl.parse(text.replace("SHAPE", f"f32[{','.join(map(str, y))}]")))


@pytest.mark.parametrize("window", ["size=3x3 pad=1_1x1_1", "size=5x5 stride=2x2 pad=2_2x2_2"])
def test_one_kernel_serves_any_number_of_groups(window, emitted):
    for features, side in ((64, 56), (96, 56), (256, 112)):
        size, places = window[5], side // 2 if "stride" in window else side
        module = xl.parse(f"""HloModule m
        ENTRY e {{
          x = f32[1,{side},{side},{features}] parameter(0)
          w = f32[{size},{size},1,{features}] parameter(1)
          ROOT c = f32[1,{places},{places},{features}] convolution(x, w), window={{{window}}},
            dim_labels=b01f_01io->b01f, feature_group_count={features}
        }}""")
        assert agrees(module)
    assert len(emitted) == 1


def test_functions_that_a_kernel_calls_are_there_for_other_shapes(emitted):
    """That which makes NaN of padding, wherever it meets what is not finite."""
    for side, features in ((20, 16), (33, 48), (1, 64)):
        module = xl.parse(f"""HloModule m
        ENTRY e {{
          x = f32[2,{side},18,{features}] parameter(0)
          w = f32[3,3,{features},32] parameter(1)
          ROOT c = f32[2,{side},18,32] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
        }}""")
        x, w = (np.ones(p.shape.dims, np.float32) for p in module.entry.parameters)
        w[0, 2, 3, 4] = np.nan
        np.testing.assert_array_equal(xl.compile(module)(x, w), xl.evaluate(module, x, w))
    assert len(emitted) == 2  # of an image of one line, no output meets all places of the window


def test_one_kernel_solves_systems_of_either_triangle_and_any_number(emitted):
    for batch, n, m, lower, transpose in (
        ("", 4, 64, "true", "NO_TRANSPOSE"),
        ("5,", 200, 100, "true", "TRANSPOSE"),
        ("", 33, 70, "false", "NO_TRANSPOSE"),
    ):
        module = xl.parse(
            f"HloModule m\nENTRY e {{ a = f32[{batch}{n},{n}] parameter(0) b = f32[{batch}{n},{m}] parameter(1)\n"
            f"ROOT x = f32[{batch}{n},{m}] triangular-solve(a, b), left_side=true, lower={lower}, "
            f"transpose_a={transpose} }}"
        )
        a, b = (np.random.default_rng(n).normal(size=p.shape.dims).astype(np.float32) for p in module.entry.parameters)
        a += 3 * n**0.5 * np.eye(n, dtype=np.float32)
        np.testing.assert_allclose(xl.compile(module)(a, b), xl.evaluate(module, a, b), rtol=1e-3, atol=1e-4)
    assert len(emitted) == 1


def rows_of(dims: str, opcode: str = "add", dtype: str = "f32") -> xl.Module:
    outer = dims.rpartition(",")[0]
    return xl.parse(f"""HloModule m
    fold {{
      p = {dtype}[] parameter(0)
      q = {dtype}[] parameter(1)
      ROOT r = {dtype}[] {opcode}(p, q)
    }}
    ENTRY e {{
      x = {dtype}[{dims}] parameter(0)
      zero = {dtype}[] constant(0)
      sum = {dtype}[{outer}] reduce(x, zero), dimensions={{{outer.count(",") + 1}}}, to_apply=fold
      sums = {dtype}[{dims}] broadcast(sum), dimensions={{{",".join(map(str, range(outer.count(",") + 1)))}}}
      ROOT y = {dtype}[{dims}] subtract(x, sums)
    }}""")


@pytest.fixture
def nests(emitted: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Lowering]:
    """The loop nests that were written out, in a process that has compiled nothing."""
    found: list[Lowering] = []
    run = Lowering.run
    monkeypatch.setattr(Lowering, "run", lambda self: (found.append(self), run(self))[1])
    return found


@pytest.mark.parametrize("opcode", ["add", "maximum", "multiply"])
def test_code_of_rows_serves_any_number_of_them(nests: list[Lowering], opcode: str):
    assert agrees(rows_of("64,200", opcode))
    assert len(nests) == 1
    assert agrees(rows_of("96,200", opcode)) and agrees(rows_of("1021,200", opcode))
    assert len(nests) == 1
    assert agrees(rows_of("96,201", opcode))
    assert len(nests) == 2


def test_code_of_rows_in_groups_serves_any_number_of_groups(nests: list[Lowering]):
    assert agrees(rows_of("2,48,200")) and agrees(rows_of("5,48,200"))
    assert len(nests) == 1


@pytest.mark.parametrize("dims", ["4,16,200", "2,2,16,200"])
def test_rows_of_more_dimensions_are_rows(nests: list[Lowering], dims: str):
    assert agrees(rows_of("48,200"))
    assert agrees(rows_of(dims))
    assert agrees(reduction_of("64,300", "1", "add"))
    assert agrees(reduction_of("2,16,3,100", "2,3", "add"))
    assert len(nests) == 2


def test_code_of_rows_that_no_cache_holds_is_another(nests: list[Lowering]):
    many = 4 << 20
    for rows in (64, many // 200 + 1, 2 * (many // 200)):
        xl.compile(rows_of(f"{rows},200"))
    assert len(nests) == 2


def test_rows_that_differ_are_not_shared(nests: list[Lowering]):
    for rows in (100, 120):
        text = rows_of(f"{rows},300", dtype="s32").to_text()
        numbered = f"i = s32[{rows},300] iota(), iota_dimension=0\n  xi = s32[{rows},300] multiply(%x, i)\n"
        lines = text.replace("reduce(%x,", "reduce(xi,").replace("subtract(%x,", "subtract(xi,").splitlines()
        at = next(k for k, line in enumerate(lines) if "%x = " in line)
        assert agrees(xl.parse("\n".join([*lines[: at + 1], numbered, *lines[at + 1 :]])))
    assert len(nests) == 2


FOLD = "fold { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }"


def test_rows_inside_of_another_loop_have_code_of_their_own():
    for rows in (4, 6, 40):
        assert agrees(
            xl.parse(f"""HloModule m
    {FOLD}
    ENTRY e {{
      x = f32[2,{rows},2,900] parameter(0)
      g = f32[2,{rows}] parameter(1)
      b = f32[2,{rows},2,900] broadcast(g), dimensions={{0,1}}
      y = f32[2,{rows},2,900] multiply(x, b)
      zero = f32[] constant(0)
      ROOT s = f32[{rows},2] reduce(y, zero), dimensions={{0,3}}, to_apply=fold
    }}""")
        )


@pytest.mark.parametrize("rows", [2, 4, 40])
def test_rows_that_are_joined_with_a_loop_inside_of_another_one_have_code_of_their_own(rows):
    assert agrees(
        xl.parse(f"""HloModule m
    {FOLD}
    ENTRY e {{
      x = f32[{rows},16,2,16] parameter(0)
      g = f32[2,16] parameter(1)
      b = f32[{rows},16,2,16] broadcast(g), dimensions={{2,3}}
      y = f32[{rows},16,2,16] add(x, b)
      z = f32[{rows},16,2,16] multiply(y, y)
      zero = f32[] constant(0)
      ROOT s = f32[{rows},16,2] reduce(z, zero), dimensions={{3}}, to_apply=fold
    }}""")
    )


def test_columns_of_joined_loops_are_no_rows():
    assert agrees(
        xl.parse("""HloModule m
    fold {
      p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT r = f32[] add(p, q)
    }
    ENTRY e {
      x = f32[300,3,4] parameter(0)
      zero = f32[] constant(0)
      ROOT sum = f32[3,4] reduce(x, zero), dimensions={0}, to_apply=fold
    }""")
    )


def reduction_of(dims: str, over: str, opcode: str) -> xl.Module:
    kept = ",".join(n for k, n in enumerate(dims.split(",")) if str(k) not in over.split(","))
    return xl.parse(f"""HloModule m
    fold {{
      p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT r = f32[] {opcode}(p, q)
    }}
    ENTRY e {{
      x = f32[{dims}] parameter(0)
      init = f32[] constant({0 if opcode == "add" else "-inf"})
      ROOT y = f32[{kept}] reduce(x, init), dimensions={{{over}}}, to_apply=fold
    }}""")


@pytest.mark.parametrize("opcode", ["add", "maximum"])
@pytest.mark.parametrize(
    ("over", "sizes"),
    [
        ("0", ("205,300", "211,999", "101,700")),
        ("0", ("200,128", "104,128")),
        ("1", ("20,205,300", "17,211,777")),
        ("0", ("70000", "99999")),
        ("0,1", ("300,257", "271,321")),
    ],
)
def test_one_kernel_reduces_columns_and_arrays_of_other_sizes(
    nests: list[Lowering], opcode: str, over: str, sizes: tuple[str, ...]
):
    for dims in sizes:
        assert agrees(reduction_of(dims, over, opcode))
    assert len(nests) == 1


def test_one_kernel_finds_the_first_of_the_greatest_in_columns_of_other_sizes(nests: list[Lowering]):
    for rows, columns in ((205, 300), (211, 999)):
        assert agrees(xl.parse(reductions.first_of("f32", (rows, columns), 0, "argmax")))
    assert len(nests) == 1


def test_rows_that_are_left_of_eight_are_reduced_too():
    for rows in (65, 66, 71, 72, 1033):
        for opcode in ("add", "maximum"):
            assert agrees(reduction_of(f"{rows},70", "0", opcode))


def sort(dims: str, along: int, keys: int, result: str = "ROOT ") -> xl.Module:
    """By the first of two arrays or both, the second falling, with the elements' numbers; or these alone."""
    more = "" if result else f"ROOT numbers = s32[{dims}] get-tuple-element(c), index=2\n"
    shapes = f"f32[{dims}], s32[{dims}], s32[{dims}]"
    return xl.parse(f"""HloModule m
    less {{
      p = f32[] parameter(0)
      q = f32[] parameter(1)
      r = s32[] parameter(2)
      s = s32[] parameter(3)
      i = s32[] parameter(4)
      j = s32[] parameter(5)
      first = pred[] compare(p, q), direction=LT, type=TOTALORDER
      same = pred[] compare(p, q), direction=EQ, type=TOTALORDER
      second = pred[] compare(r, s), direction=GT
      both = pred[] select(same, second, first)
      ROOT less = pred[] copy({"first" if keys == 1 else "both"})
    }}
    ENTRY e {{
      a = f32[{dims}] parameter(0)
      b = s32[{dims}] parameter(1)
      n = s32[{dims}] iota(), iota_dimension={along}
      {result}c = ({shapes}) sort(a, b, n), dimensions={{{along}}}, is_stable=true, to_apply=less
      {more}
    }}""")


def sorts_as_numpy(shape: tuple[int, int], along: int, keys: int, result: str = "ROOT ") -> None:
    rng = np.random.default_rng(shape)
    a = rng.integers(0, 9, shape).astype(np.float32)
    b = rng.integers(0, 9, shape).astype(np.int32)
    found = xl.compile(sort("{},{}".format(*shape), along, keys, result))(a, b)
    order = np.lexsort((-b, a) if keys == 2 else (a,), axis=along)
    if not result:
        np.testing.assert_array_equal(found, order)
        return
    wanted = np.take_along_axis(a, order, along), np.take_along_axis(b, order, along), order
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("first", "others", "along", "keys"),
    [
        ((9, 600), [(40, 999), (1, 700)], 1, 2),
        ((3, 20_000), [(5, 22_001), (1, 30_000)], 1, 1),
        ((3, 9000), [(5, 12_001)], 1, 2),
        ((9, 40), [(21, 64), (800, 33)], 1, 1),
        ((30, 24), [(64, 31), (17, 9)], 0, 1),
        ((600, 24), [(900, 31), (700, 9)], 0, 1),
    ],
)
def test_sorts_of_rows_of_other_lengths_and_numbers(emitted, first, others, along, keys):
    for shape in (first, *others):
        sorts_as_numpy(shape, along, keys)
    if process_target().packs_lanes():
        assert emitted.count("sort") == 1


def test_a_sort_of_which_only_the_numbers_are_wanted_is_another(emitted):
    sorts_as_numpy((9, 300), 1, 1)
    sorts_as_numpy((11, 400), 1, 1, "")
    assert emitted.count("sort") == 2
