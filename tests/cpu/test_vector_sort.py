import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import kernel_of
from tests.cpu.test_sort import CANONICAL, LESS, check, program
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import Target, process_target

RNG = np.random.default_rng(1)
LONG = 40_000
SHAPES_OF_DATA = {
    "one value": lambda n: np.full(n, 7),
    "few values": lambda n: RNG.integers(-2, 3, n),
    "in order": np.arange,
    "reversed": lambda n: np.arange(n)[::-1],
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "most are one value": lambda n: np.where(RNG.random(n) < 0.98, 5, RNG.integers(-9, 99, n)),
    "sizes far apart": lambda n: np.left_shift(1, RNG.integers(0, 31, n) * RNG.integers(0, 2, n)),
    "extremes": lambda n: RNG.choice([-(1 << 31), (1 << 31) - 1, 0, -1], n),
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u16", "bf16", "f16", "s32", "u32", "s64", "u64", "f32", "f64"])
@pytest.mark.parametrize("size", [16, 17, 31, 63, 127, 128, 129, 255, 256, 257, 500, 1000, 1025, 2300, 5121])
def test_about_the_size_of_vectors(dtype, size):
    check(program(f"[3,{size}]", [dtype], 1, LESS + ", type=TOTALORDER" if DTYPES[dtype].is_float else LESS))


@pytest.mark.sampled
@pytest.mark.parametrize("data", SHAPES_OF_DATA.values(), ids=SHAPES_OF_DATA)
@pytest.mark.parametrize("dtype", ["s16", "s32", "s64"])
@pytest.mark.parametrize("size", [3000, LONG, 150_000])
def test_any_distribution(data, dtype, size):
    values = data(size).astype(DTYPES[dtype].numpy)
    check(program(f"[{size}]", [dtype], 0, LESS), data=[values])
    check(program(f"[{size}]", [dtype, "s32"], 0, LESS, "GT"), data=[values, np.arange(size, dtype=np.int32)])


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("size", [100, 2 * LONG])
def test_equal_floats_stay_in_order(dtype, size, direction):
    """Zeros of both signs and NaNs of any bits, which the comparator holds to be equal, keep their bits and order."""
    kind = DTYPES[dtype].numpy
    width = 8 * kind.itemsize
    word = np.dtype(f"u{kind.itemsize}")
    bits = RNG.integers(0, 1 << width, size, dtype=word, endpoint=False)
    special = np.array([0, 1 << (width - 1)], word)
    nans = np.array(np.nan, kind).view(word) | RNG.integers(0, 99, size, dtype=word) | (bits & special[1])
    bits = np.choose(RNG.integers(0, 5, size), [bits, bits, nans, special[:1], special[1:]])
    check(program(f"[2,{size}]", [dtype], 1, CANONICAL, direction), data=[np.stack([bits, bits[::-1]]).view(kind)])
    check(program(f"[{size}]", [dtype], 0, LESS, direction), data=[np.where(bits & 1, 0.0, -0.0).astype(kind)])


@pytest.mark.parametrize("dims", ["[9,40]", "[700]", "[20000]"])
@pytest.mark.parametrize("dtypes", [["s32"], ["f64"], ["f32", "s32"]], ids=len)
def test_processors_without_such_vectors(monkeypatch, dims, dtypes):
    monkeypatch.setattr(Target, "packs_lanes", lambda self, bits=32: False)
    check(program(dims, dtypes, dims.count(","), CANONICAL if dtypes[0][0] == "f" else LESS))


@pytest.mark.skipif(not process_target().packs_lanes(), reason="needs vectors of 64 bytes")
def test_machine_code_of_the_algorithm_depends_on_no_shape():
    short, longer, longest = (kernel_of(program(f"[{n}]", ["f32"], 0, CANONICAL)).needed for n in (30, 3000, LONG))
    assert short
    assert short == longer
    assert longer.keys() < longest.keys()


@pytest.mark.parametrize("dtype", ["f32", "s32", "u32"])
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("dims", ["[3,600]", f"[{LONG}]"])
def test_keys_of_any_operand_with_others(dtype, operand, dims):
    types = ["s32", "s32"]
    types[operand] = dtype
    if dtype == "f32":
        region = CANONICAL.replace("{t}", dtype).replace("{d}", "GT")
    else:
        region = LESS.replace("{t}", dtype).replace("{d}", "GT")
    first, other = 2 * operand, 2 - 2 * operand
    region = region.replace("parameter(0)", f"parameter({first})").replace("parameter(1)", f"parameter({first + 1})")
    text = f"""HloModule m
less {{ {region} o = s32[] parameter({other}) r = s32[] parameter({other + 1}) }}
ENTRY e {{ x = {types[0]}{dims} parameter(0) y = {types[1]}{dims} parameter(1)
  ROOT s = ({types[0]}{dims}, {types[1]}{dims}) sort(x, y), dimensions={{{dims.count(",")}}}, to_apply=less }}"""
    check(text)


def by_keys(types, directions):
    """A comparator of the first operands, one after the other."""
    names = [f"a{k} = {t}[] parameter({2 * k}) b{k} = {t}[] parameter({2 * k + 1})" for k, t in enumerate(types)]
    found = ""
    for k, direction in reversed(list(enumerate(directions))):
        names.append(f"l{k} = pred[] compare(a{k}, b{k}), direction={direction}")
        if found:
            names.append(f"e{k} = pred[] compare(a{k}, b{k}), direction=EQ c{k} = pred[] select(e{k}, {found}, l{k})")
        found = f"c{k}" if found else f"l{k}"
    return f"less {{ {' '.join(names)} }}".replace(f" {found} = ", f" ROOT {found} = ")


@pytest.mark.parametrize("dims", ["[10000]", "[3,9000]", "[30,40]"])
@pytest.mark.parametrize(
    ("types", "directions"),
    [
        (["s32", "s32"], ["LT", "GT"]),
        (["s32", "u32", "s32"], ["GT", "LT"]),
        (["s32", "s32", "u32", "s8", "s64"], ["LT", "LT", "GT"]),
        (["u16", "u16", "u16", "u16"], ["LT", "GT", "LT"]),  # of which two fit 32 bits
        (["f16", "s32", "f64"], ["LT", "GT"]),
    ],
)
def test_several_keys(types, directions, dims):
    arrays = [f"{t}{dims}" for t in types]
    parameters = " ".join(f"x{k} = {a} parameter({k})" for k, a in enumerate(arrays))
    text = f"""HloModule m
{by_keys(types, directions)}
ENTRY e {{ {parameters} ROOT s = ({", ".join(arrays)}) sort({", ".join(f"x{k}" for k in range(len(types)))}),
  dimensions={{{dims.count(",")}}}, is_stable=true, to_apply=less }}"""
    data = []
    for k, p in enumerate(xl.parse(text).entry.parameters):
        data.append(RNG.integers(0, 5 if k < len(directions) else 99, p.shape.dims).astype(p.shape.dtype.numpy))
    check(text, data=data)


@pytest.mark.skipif(not process_target().packs_lanes(), reason="the host sorts otherwise")
@pytest.mark.parametrize(
    ("keys", "leaves", "arrays"),
    [(1, [1], 1), (1, [0, 1], 0), (2, [0, 1, 2], 0), (2, [2], 2)],
)
def test_numbers_are_sorted_with_few_arrays(keys, leaves, arrays):
    """`leaves` of a sort by some keys, with the elements' numbers last, need so many more arrays."""
    types = ["s32"] * (keys + 1)
    parameters = " ".join(f"x{k} = s32[2,{LONG}] parameter({k})" for k in range(keys))
    wanted = " ".join(f"r{k} = s32[2,{LONG}] get-tuple-element(s), index={k}" for k in leaves)
    module = xl.parse(f"""HloModule m
{by_keys(types, ["LT", "GT"][:keys])}
ENTRY e {{ {parameters} i = s32[2,{LONG}] iota(), iota_dimension=1
  s = ({", ".join(["s32[2," + str(LONG) + "]"] * len(types))}) sort({", ".join(f"x{k}" for k in range(keys))}, i),
  dimensions={{1}}, is_stable=true, to_apply=less {wanted}
  ROOT t = ({", ".join(["s32[2," + str(LONG) + "]"] * len(leaves))}) tuple({", ".join(f"r{k}" for k in leaves)}) }}""")
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == arrays * 8 * LONG
    data = [RNG.integers(0, 50, (2, LONG)).astype(np.int32) for _ in range(keys)]
    for got, expected in zip(executable(*data), xl.evaluate(module, *data), strict=True):
        np.testing.assert_array_equal(got, expected)
