"""Loops over a whole number of blocks: no code for less than one."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

TYPES = {"f32": np.float32, "f64": np.float64, "s8": np.int8, "bf16": ml_dtypes.bfloat16, "pred": np.bool_}


def _module(dtype, size):
    return xl.parse(
        f"HloModule blocks\nENTRY e {{ p = {dtype}[{size}] parameter(0) f = f32[{size}] convert(p) "
        f"i = f32[{size}] iota(), iota_dimension=0 s = f32[{size}] add(f, i) ROOT r = (f32[{size}], {dtype}[{size}]) "
        "tuple(s, p) }"
    )


@pytest.mark.parametrize("size", [0, 1, 64, 100, 4096, 70000, 1 << 17])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_elements_are_computed(dtype, size):
    module = _module(dtype, size)
    argument = np.random.default_rng(0).integers(0, 2, size).astype(TYPES[dtype])
    for got, expected in zip(xl.compile(module)(argument), xl.evaluate(module, argument), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("size", "blocks"), [(65536, True), (65537, False)])
def test_only_whole_blocks_have_code(size, blocks):
    text = f"HloModule m\nENTRY e {{ p = f32[{size}] parameter(0) ROOT r = f32[{size}] negate(p) }}"
    _, _, program = lowered(prepared(xl.parse(text)), process_target())
    (kernel_module,) = program.modules.values()
    assert (kernel_module.phases[0].count < size) == blocks
    code = str(optimised(kernel_module.text))
    assert (" fneg float " not in code and "masked" not in code) == blocks


@pytest.mark.parametrize(("arrays", "fetches"), [(4, False), (5, True)])
def test_many_arrays_are_fetched_ahead(arrays, fetches):
    size = 1 << 16
    parameters = "".join(f"p{k} = f32[{size}] parameter({k}) " for k in range(arrays))
    sums = "".join(f"a{k} = f32[{size}] add({f'a{k - 1}' if k > 1 else 'p0'}, p{k}) " for k in range(1, arrays))
    module = xl.parse(f"HloModule m\nENTRY e {{ {parameters} {sums} ROOT r = f32[{size}] negate(a{arrays - 1}) }}")
    (kernel_module,) = lowered(prepared(module), process_target())[-1].modules.values()
    assert ("llvm.prefetch" in kernel_module.text) == fetches
    values = np.random.default_rng(0).standard_normal((arrays, size)).astype(np.float32)
    np.testing.assert_array_equal(xl.compile(module)(*values), -np.add.accumulate(values)[-1])
