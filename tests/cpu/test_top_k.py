import math

import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from tests.cpu.test_sort import TYPES, values
from xloom.cpu.kernels.sort import selection
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import Target, process_target

RNG = np.random.default_rng(0)


def check(dtype, dims, k, largest, data=None):
    out = ",".join([*map(str, dims[:-1]), str(k)])
    text = f"""HloModule m
ENTRY e {{ x = {dtype}[{",".join(map(str, dims))}] parameter(0)
  ROOT t = ({dtype}[{out}], s32[{out}]) topk(x), k={k}, largest={str(largest).lower()} }}"""
    module = xl.parse(text)
    x = values(module.entry.parameters[0].shape, 0) if data is None else data
    for e, f in zip(xl.evaluate(module, x), run_kernel(text, x, split=3), strict=True):
        assert f.tobytes() == np.asarray(e).tobytes()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype, largest):
    check(dtype, (3, 700), 5, largest)


@pytest.mark.parametrize("k", [1, 5, 60, 300, 700, 2500])
@pytest.mark.parametrize("dims", [(700,), (20, 70), (12, 400), (2, 3, 3000), (20000,)], ids=str)
def test_sizes(dims, k):
    check("f32", dims, min(k, dims[-1]), True)


@pytest.mark.parametrize("k", [1, 3, 100])
@pytest.mark.parametrize("largest", [True, False])
def test_orders(k, largest):
    up = np.arange(5000, dtype=np.float32)
    for x in (up, up[::-1].copy(), up % 7, np.full(5000, -np.nan, np.float32), np.full(5000, np.nan, np.float32)):
        check("f32", (5000,), k, largest, x)


@pytest.mark.parametrize("k", [1, 40, 300])
@pytest.mark.parametrize("dtype", ["f32", "s32", "u16", "bf16", "f64"])
def test_rows_in_order(dtype, k):
    """Of which each element is better than all before."""
    up = np.arange(6000) - 3000
    nearly = up + RNG.integers(-20, 20, 6000)
    for x in (up, nearly, np.repeat(up, 2)[:6000], np.append(up[:3000], -up[:3000])):
        rows = np.stack([x, up[::-1]]).astype(DTYPES[dtype].numpy)
        for largest in (True, False):
            check(dtype, rows.shape, k, largest, rows if largest else rows[:, ::-1].copy())


def test_the_greatest_keys_are_found():
    x = np.append(np.zeros(3000, np.int32), np.full(3000, np.iinfo(np.int32).min, np.int32))
    for k in (1, 50):
        check("s32", x.shape, k, True, x)
        check("s32", x.shape, k, False, -1 - x)


def test_rows_in_order_take_few_elements():
    text = (
        "HloModule m\nENTRY e { x = f32[2,4096] parameter(0) ROOT t = (f32[2,9], s32[2,9]) topk(x), k=9, largest=true }"
    )
    if not process_target().packs_lanes():
        pytest.skip("there are no vectors of keys")
    modules = lowered(prepared(xl.parse(text)), process_target())[-1].modules.values()
    assert any("call i32 @xloom.sort.bound" in module.text.replace('"', "") for module in modules)


def test_nothing():
    check("f32", (3, 4), 0, True)
    check("f32", (0, 4), 2, True)


def test_one_candidate_a_row():
    text = (
        "HloModule m\nENTRY e { x = s32[16,1] parameter(0) ROOT t = (s32[16,1], s32[16,1]) topk(x), k=1, largest=true }"
    )
    x = np.arange(16, dtype=np.int32)[:, None]
    values, places = run_kernel(text, x)
    assert np.array_equal(values, x) and not places.any()


@pytest.mark.parametrize("k", [5, 300])
@pytest.mark.parametrize("dtype", ["f32", "s64"])
def test_processors_that_pack_no_lanes(monkeypatch, dtype, k):
    monkeypatch.setattr(Target, "packs_lanes", lambda self, bits=32: False)
    check(dtype, (2, 3000), k, True)


@pytest.mark.parametrize("dtype", ["s8", "s16", "bf16"])
def test_all_of_many_narrow_ones_are_candidates(dtype):
    """Each block has as many as vectors hold that are better than all before."""
    x = np.repeat(np.arange(-100, 100), 64).astype(DTYPES[dtype].numpy)
    check(dtype, x.shape, 100, True, x)


@pytest.mark.parametrize(("k", "size"), [(1, 600), (8, 8192), (64, 100_000), (100, 1 << 20), (500, 1 << 24)])
def test_rows_without_order_are_not_taken_for_ordered_ones(k: int, size: int):
    """Half as many again as they have taken; of rows in order, more are before a pass over the rest pays."""
    taken = int(1.5 * k * (1 + math.log(size / k))) + 8
    assert min(taken, 2 * k + 100 + size // 100) <= selection._most_taken(k, size) <= 1.2 * taken
