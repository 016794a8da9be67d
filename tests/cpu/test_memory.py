"""How much memory programs need besides their arguments and results."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xloom as xl
from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.thresholds import POOLED
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.runtime.memory_pool import HUGE_BYTES, MemoryPool
from xloom.llvm.target import process_target

RANDOM = np.random.default_rng(0)
N = 128
SQUARE = 4 * N * N
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SOFTMAX = f"""
max {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{N},{N}] parameter(0) y = f32[{N},{N}] parameter(1) z = f32[{N},2] parameter(2)
  s = f32[{N},{N}] dot(x, y), {DOT}
  low = f32[] constant(-inf) zero = f32[] constant(0)
  m = f32[{N}] reduce(s, low), dimensions={{1}}, to_apply=max
  mb = f32[{N},{N}] broadcast(m), dimensions={{0}}
  d = f32[{N},{N}] subtract(s, mb)
  e = f32[{N},{N}] exponential(d)
  t = f32[{N}] reduce(e, zero), dimensions={{1}}, to_apply=add
  tb = f32[{N},{N}] broadcast(t), dimensions={{0}}
  p = f32[{N},{N}] divide(e, tb)
  ROOT r = f32[{N},2] dot(p, z), {DOT}
}}"""


ROWS_OF_TWO = f"""
max {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{N},{N}] parameter(0) y = f32[{N},{N}] parameter(1)
  low = f32[] constant(-inf) zero = f32[] constant(0)
  m = f32[{N}] reduce(x, low), dimensions={{1}}, to_apply=max
  mb = f32[{N},{N}] broadcast(m), dimensions={{0}}
  d = f32[{N},{N}] subtract(x, mb)
  e = f32[{N},{N}] exponential(d)
  t = f32[{N}] reduce(e, zero), dimensions={{1}}, to_apply=add
  tb = f32[{N},{N}] broadcast(t), dimensions={{0}}
  p = f32[{N},{N}] divide(e, tb)
  n = f32[{N}] reduce(y, low), dimensions={{1}}, to_apply=max
  nb = f32[{N},{N}] broadcast(n), dimensions={{0}}
  c = f32[{N},{N}] subtract(y, nb)
  q = f32[{N},{N}] multiply(p, c)
  ROOT r = f32[{N}] reduce(q, zero), dimensions={{1}}, to_apply=add
}}"""


def squares(text: str) -> str:
    """A program of two square matrices, x and y."""
    return f"ENTRY e {{ x = f32[{N},{N}] parameter(0) y = f32[{N},{N}] parameter(1) {text} }}"


@pytest.mark.parametrize(
    "text, expected",
    [
        # what is computed from a result element by element lies where it does
        (squares(f"a = f32[{N},{N}] dot(x, y), {DOT} ROOT b = f32[{N},{N}] exponential(a)"), 0),
        # the same, where some of the operands live on
        (
            squares(
                f"a = f32[{N},{N}] dot(x, y), {DOT} b = f32[{N},{N}] subtract(a, x) c = f32[{N},{N}] dot(b, y), {DOT} "
                f"ROOT t = (f32[{N},{N}], f32[{N},{N}]) tuple(c, b)"
            ),
            0,
        ),
        # an array that dies before a result is written lies there
        (
            squares(
                f"a = f32[{N},{N}] dot(x, y), {DOT} b = f32[{N},{N}] dot(a, y), {DOT} "
                f"ROOT c = f32[{N},{N}] dot(b, y), {DOT}"
            ),
            SQUARE,
        ),
        # rows of which sums are needed first are overwritten all the same
        (SOFTMAX, SQUARE),
        # two arrays' rows that are needed for each other's stay in the cache
        (ROWS_OF_TWO, 0),
    ],
)
def test_temporary_arrays(text, expected):
    module = xl.parse(text)
    arguments = [RANDOM.normal(size=p.shape.dims).astype(np.float32) for p in module.entry.parameters]
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes <= expected + 1024
    got, wanted = executable(*arguments), xl.evaluate(module, *arguments)
    np.testing.assert_allclose(np.asarray(got).astype(float), np.asarray(wanted).astype(float), rtol=1e-3, atol=1e-3)


def test_a_long_computation_is_one_thunk():
    steps, last = [], "x"
    for k in range(160):
        steps.append(f"a{k} = f32[5000] multiply({last}, x) b{k} = f32[5000] add(a{k}, y)")
        last = f"b{k}"
    module = xl.parse(
        f"ENTRY e {{ x = f32[5000] parameter(0) y = f32[5000] parameter(1) {' '.join(steps)} "
        f"ROOT t = (f32[5000], f32[5000]) tuple(b79, {last}) }}"
    )
    schedule, _, program = lowered(prepared(module), process_target())
    assert len(schedule.thunks) == 1 and program.arena_bytes == 0


def test_rows_that_are_read_again_are_kept():
    text = SOFTMAX.replace(
        f"ROOT r = f32[{N},2] dot(p, z)", f"q = f32[{N},{N}] add(p, sr) ROOT r = f32[{N},2] dot(q, z)"
    )
    text = text.replace("  low =", f"  sr = f32[{N},{N}] reverse(s), dimensions={{1}}\n  low =")
    module = xl.parse(text)
    arguments = [RANDOM.normal(size=p.shape.dims).astype(np.float32) for p in module.entry.parameters]
    np.testing.assert_allclose(xl.compile(module)(*arguments), xl.evaluate(module, *arguments), rtol=1e-3, atol=1e-2)


@pytest.mark.sampled
@pytest.mark.parametrize("dims", [(301, 610, 333), (640, 301, 200)])
@pytest.mark.parametrize("contracting", [(1, 0), (0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s16", "s8"])
def test_products_pack_no_whole_operand(dtype, contracting, dims):
    m, k, n = dims
    lhs, rhs = ((k, m) if contracting[0] == 0 else (m, k)), ((k, n) if contracting[1] == 0 else (n, k))
    result = "s32" if dtype[0] == "s" else "f32"
    module = xl.parse(
        f"ENTRY e {{ x = {dtype}[{lhs[0]},{lhs[1]}] parameter(0) y = {dtype}[{rhs[0]},{rhs[1]}] parameter(1) "
        f"ROOT d = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{{contracting[0]}}}, "
        f"rhs_contracting_dims={{{contracting[1]}}} }}"
    )
    # whole numbers, whose sums are exact
    x, y = (RANDOM.integers(-9, 9, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters)
    executable = xl.compile(module)
    if not (process_target().has_tiles and dtype in ("bf16", "s8")):  # AMX reads tiles
        assert executable.memory.temporary_bytes == 0
    left, right = (a.astype(np.int64) for a in (x, y))
    expected = (left.T if contracting[0] == 0 else left) @ (right if contracting[1] == 0 else right.T)
    np.testing.assert_array_equal(executable(x, y), expected)


@pytest.mark.parametrize(
    "x, w, y, window",
    [
        ((2, 28, 31, 16), (3, 3, 16, 48), (2, 28, 31, 48), "size=3x3 pad=1_1x1_1"),
        ((1, 3, 4, 16), (5, 7, 16, 16), (1, 3, 4, 16), "size=5x7 pad=2_2x3_3"),  # more padding than image
        ((1, 30, 33, 3), (7, 7, 3, 32), (1, 15, 17, 32), "size=7x7 stride=2x2 pad=3_2x3_3"),
        ((1, 20, 22, 16), (3, 3, 16, 16), (1, 20, 22, 16), "size=3x3 pad=2_2x2_2 rhs_dilate=2x2"),
        ((1, 14, 13, 16), (4, 4, 16, 16), (1, 28, 26, 16), "size=4x4 pad=2_2x2_2 lhs_dilate=2x2"),
        ((1, 20, 22, 16), (3, 3, 16, 16), (1, 20, 22, 16), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1"),
        pytest.param(
            (1, 20, 22, 64),
            (3, 3, 16, 128),
            (1, 20, 22, 128),
            "size=3x3 pad=1_1x1_1 groups=4",
            marks=pytest.mark.skipif(
                process_target().registers.nbytes < 64, reason="tiles of narrower registers do not lie along lines"
            ),
        ),
        ((1, 20, 22, 48), (3, 3, 1, 48), (1, 20, 22, 48), "size=3x3 pad=1_1x1_1 groups=48"),
        ((2, 9, 40, 60), (3, 3, 4, 60), (2, 5, 20, 60), "size=3x3 stride=2x2 pad=1_1x1_1 groups=15"),
        ((1, 20, 22, 16), (3, 3, 16, 32), (1, 18, 20, 32), "size=3x3"),
        ((3, 300, 16), (9, 16, 64), (3, 300, 64), "size=9 pad=4_4"),
        ((1, 6, 7, 16, 16), (3, 3, 3, 16, 16), (1, 6, 7, 16, 16), "size=3x3x3 pad=1_1x1_1x1_1"),
    ],
)
def test_convolutions_copy_no_whole_input(x, w, y, window):
    window, *groups = window.split(" groups=")
    space = "012"[: len(x) - 2]
    module = xl.parse(
        f"ENTRY e {{ x = f32[{','.join(map(str, x))}] parameter(0) w = f32[{','.join(map(str, w))}] parameter(1) "
        f"ROOT c = f32[{','.join(map(str, y))}] convolution(x, w), window={{{window}}}, "
        f"dim_labels=b{space}f_{space}io->b{space}f{f', feature_group_count={groups[0]}' if groups else ''} }}"
    )
    arguments = [RANDOM.integers(-9, 9, dims).astype(np.float32) for dims in (x, w)]
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == 0
    np.testing.assert_array_equal(executable(*arguments), xl.evaluate(module, *arguments))


def test_convolutions_of_one_image_in_planes_copy_them_without_padding():
    module = xl.parse(
        "ENTRY e { x = f32[1,48,40,42] parameter(0) w = f32[128,48,3,3] parameter(1) "
        "ROOT c = f32[1,128,40,42] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01 }"
    )
    arguments = [RANDOM.integers(-9, 9, p.shape.dims).astype(np.float32) for p in module.entry.parameters]
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == sum(a.nbytes for a in arguments)
    np.testing.assert_array_equal(executable(*arguments), xl.evaluate(module, *arguments))


def test_memory_of_kernels_is_used_again():
    """The copies that a sort needs lie where other arrays of the program do at other times."""
    n = 1 << 15
    module = xl.parse(
        f"less {{ a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) "
        f"ROOT l = pred[] compare(a, b), direction=LT }}\n"
        f"ENTRY e {{ x = f32[{n}] parameter(0) i = s32[{n}] parameter(1) "
        f"s = (f32[{n}], s32[{n}]) sort(x, i), dimensions={{0}}, to_apply=less "
        f"k = f32[{n}] get-tuple-element(s), index=0 j = s32[{n}] get-tuple-element(s), index=1 "
        f"b = f32[16,{n}] broadcast(k), dimensions={{1}} c = f32[16,{n}] exponential(b) "
        f"ROOT t = (f32[16,{n}], s32[{n}]) tuple(c, j) }}"
    )
    x, i = RANDOM.normal(size=n).astype(np.float32), np.arange(n, dtype=np.int32)
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes <= 4 * n + 1024
    for got, expected in zip(executable(x, i), xl.evaluate(module, x, i), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_large_windows_go_on_in_place():
    module = xl.parse(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[200,300] parameter(0) zero = f32[] constant(0) "
        "ROOT s = f32[200,300] reduce-window(x, zero), window={size=9x11 pad=4_4x5_5}, to_apply=add }"
    )
    x = RANDOM.integers(-9, 9, (200, 300)).astype(np.float32)
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == 0
    np.testing.assert_array_equal(executable(x), xl.evaluate(module, x))


def test_little_that_a_kernel_needs_is_on_the_stack():
    n = 1 << 16
    module = xl.parse(
        f"add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n"
        f"ENTRY e {{ x = f32[{n}] parameter(0) zero = f32[] constant(0) "
        f"ROOT s = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add }}"
    )
    x = RANDOM.normal(size=n).astype(np.float32)
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == 0
    np.testing.assert_allclose(executable(x), x.astype(float).sum(), rtol=1e-3)


def test_attention_keeps_a_block_of_its_scores():
    heads, length, width = 8, 1024, 16
    full, row = f"f32[{heads},{length},{length}]", f"f32[{heads},{length}]"
    array = f"f32[{heads},{length},{width}]"
    module = xl.parse(
        SOFTMAX.partition("ENTRY")[0]
        + f"""ENTRY e {{
  q = {array} parameter(0) k = {array} parameter(1) v = {array} parameter(2)
  s = {full} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  low = f32[] constant(-inf) zero = f32[] constant(0)
  m = {row} reduce(s, low), dimensions={{2}}, to_apply=max
  mb = {full} broadcast(m), dimensions={{0,1}}
  d = {full} subtract(s, mb)
  e = {full} exponential(d)
  t = {row} reduce(e, zero), dimensions={{2}}, to_apply=add
  tb = {full} broadcast(t), dimensions={{0,1}}
  p = {full} divide(e, tb)
  ROOT r = {array} dot(p, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}"""
    )
    q, k, v = (RANDOM.normal(size=(heads, length, width)).astype(np.float32) for _ in range(3))
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes <= 4 << 20
    scores = q.astype(float) @ k.swapaxes(1, 2)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ v
    np.testing.assert_allclose(executable(q, k, v), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not process_target().packs_lanes(), reason="the host sorts long rows otherwise")
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64, np.float64])
@pytest.mark.parametrize("n", [512, 513, 515, 1000, 100_000])
def test_long_rows_are_sorted_in_place(dtype, n):
    name = {"int32": "s32", "float32": "f32", "int64": "s64", "float64": "f64"}[np.dtype(dtype).name]
    order = ", type=TOTALORDER" if name[0] == "f" else ""
    module = xl.parse(
        f"less {{ a = {name}[] parameter(0) b = {name}[] parameter(1) "
        f"ROOT l = pred[] compare(a, b), direction=LT{order} }}\n"
        f"ENTRY e {{ x = {name}[{n}] parameter(0) ROOT s = {name}[{n}] sort(x), dimensions={{0}}, to_apply=less }}"
    )
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes <= 512
    for spread in (3, 1000, 1 << 30):  # few values, many, and next to all different
        x = RANDOM.integers(-spread, spread, n).astype(dtype)
        np.testing.assert_array_equal(executable(x), np.sort(x))
        np.testing.assert_array_equal(executable(np.sort(x)[::-1].copy()), np.sort(x))


@pytest.mark.skipif(not process_target().packs_lanes(), reason="the host sorts rows otherwise")
@pytest.mark.parametrize("dtype, dims", [("f32", "40,255"), ("s32", "40,255"), ("s32", "3,30000")])
def test_rows_are_sorted_where_they_lie(dtype, dims):
    order = ", type=TOTALORDER" if dtype == "f32" else ""
    text = f"""less {{ p = {dtype}[] parameter(0) q = {dtype}[] parameter(1) KEYS
        ROOT l = pred[] compare(a, b), direction=LT{order} }}
        ENTRY e {{ x = {dtype}[{dims}] parameter(0) n = {dtype}[{dims}] reverse(x), dimensions={{0}}
        ROOT s = {dtype}[{dims}] sort(n), dimensions={{1}}, is_stable=true, to_apply=less }}"""
    keys = f"a = {dtype}[] copy(p) b = {dtype}[] copy(q)"
    if dtype == "f32":  # equal zeros and NaNs, which stay in their order
        keys = "zero = f32[] constant(0) nan = f32[] constant(nan)"
        for a, p in (("a", "p"), ("b", "q")):
            keys += f" n{a} = pred[] compare({p}, {p}), direction=NE z{a} = pred[] compare({p}, zero), direction=EQ"
            keys += f" s{a} = f32[] select(z{a}, zero, {p}) {a} = f32[] select(n{a}, nan, s{a})"
    module = xl.parse(text.replace("KEYS", keys))
    x = RANDOM.integers(-3, 3, [int(n) for n in dims.split(",")])
    x = x.astype(np.float32) * RANDOM.choice([-1, 1, np.nan], x.shape) if dtype == "f32" else x.astype(np.int32)
    x = x.astype(module.entry.parameters[0].shape.dtype.numpy)
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes <= 512
    got, expected = (np.asarray(f(x)).view(np.int32) for f in (executable, lambda x: xl.evaluate(module, x)))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("n", [1, 9, 300, 20_000])
@pytest.mark.parametrize("order", ["compare(a, b), direction=LT", "not(u)"])
def test_a_sort_does_not_write_what_nobody_reads(n, order):
    less = f"u = pred[] compare(a, b), direction=LE ROOT l = pred[] {order}"
    module = xl.parse(
        f"less {{ a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) {less} }}\n"
        f"ENTRY e {{ x = s32[{n}] parameter(0) i = s32[{n}] iota(), iota_dimension=0 "
        f"s = (s32[{n}], s32[{n}]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=less "
        f"ROOT r = s32[{n}] get-tuple-element(s), index=1 }}"
    )
    x = RANDOM.permutation(n).astype(np.int32)
    _, assignment, _ = lowered(prepared(module), process_target())
    sort = next(s for s, _ in assignment.allocations if s.opcode == "sort")
    assert assignment.of((sort, 0)).nbytes == 0
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


def test_small_temporary_arrays_of_calls_at_once_are_not_shared():
    module = xl.parse("""HloModule m
    ENTRY e { x = f32[40,40] parameter(0)
      y = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT z = f32[40,40] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={1} }""")
    run = xl.compile(module)
    assert 0 < run.memory.temporary_bytes < POOLED
    inputs = [np.full((40, 40), k, np.float32) for k in range(1, 5)]

    def wrong(x):
        return sum(not (np.asarray(run(x)) == 1600 * x[0, 0] ** 3).all() for _ in range(300))

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert not sum(pool.map(wrong, inputs))


def test_arrays_that_are_made_together_lie_together_and_are_used_again():
    pool, count, nbytes = MemoryPool(), 80, 1 << 16
    makers = [pool.maker((nbytes,), np.dtype(np.uint8), nbytes, aligned=True) for _ in range(count)]
    assert count * nbytes >= HUGE_BYTES

    def make(value):
        arrays = [maker() for maker in makers]
        for array in arrays:
            array[...] = value
        return arrays, sorted(a.ctypes.data for a in arrays)

    first, places = make(1)
    assert set(np.diff(places)) == {nbytes + ALIGNMENT}
    second, others = make(2)
    assert not set(places) & set(others)
    kept = first[3][5:]
    del first
    third, again = make(3)
    assert len(set(places) & set(again)) == count - 1
    assert (kept == 1).all()
    assert all((a == 2).all() for a in second) and all((a == 3).all() for a in third)


def test_arrays_of_threads_at_once_are_not_shared():
    pool = MemoryPool()
    make = pool.maker((POOLED,), np.dtype(np.uint8), POOLED, aligned=True)

    def wrong(value):
        found = 0
        for _ in range(2000):
            array = make()
            array[...] = value
            found += not (array == value).all()
        return found

    with ThreadPoolExecutor(4) as threads:
        assert not sum(threads.map(wrong, range(4)))


def test_each_array_of_a_constant_tuple_has_its_own_memory():
    a, b, c = (", ".join(map(str, range(k, k + 100))) for k in (0, 7, 9))
    module = xl.parse(f"""ENTRY e {{ p = f32[100] parameter(0)
      t = (f32[100], f32[100]) constant(({{{a}}}, {{{b}}})) d = f32[100] constant({{{c}}})
      x = f32[100] get-tuple-element(t), index=1 s = f32[100] add(x, p)
      ROOT r = (f32[100], f32[100], (f32[100], f32[100])) tuple(s, d, t) }}""")
    summed, last, (first, second) = xl.compile(module)(np.zeros(100, np.float32))
    assert [x[0] for x in (first, second, last, summed)] == [0, 7, 9, 7]
