"""Random bits and states are the interpreter's, bit for bit."""

import numpy as np
import pytest
from kernels import run_kernel

import xloom as xl


def check(algorithm: str, state: str, shape: str) -> None:
    text = (
        f"HloModule m\nENTRY e {{ s = {state} parameter(0)\n"
        f"ROOT r = ({state}, {shape}) rng-bit-generator(s), algorithm={algorithm} }}"
    )
    module = xl.parse(text)
    kind = module.entry.parameters[0].shape
    words = np.random.default_rng(1).integers(0, 2**kind.dtype.bits, kind.dims, kind.dtype.numpy)
    words[1:] = np.iinfo(words.dtype).max - 3  # carries soon
    for expected, got in zip(xl.evaluate(module, words), run_kernel(text, words, split=3), strict=True):
        assert expected.dtype == got.dtype
        if expected.dtype.kind == "V" and expected.dtype.name.endswith(("2", "4")):
            assert got.tolist() == expected.tolist()  # the upper bits of their bytes mean nothing
        else:
            assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox", "rng_default"])
@pytest.mark.parametrize("dims", ["", "7", "0", "64", "3,5", "5,3,7", "3,4,5", "2,0", "1000"])
def test_bits_of_any_shape(algorithm: str, dims: str) -> None:
    check(algorithm, "u64[2]", f"u32[{dims}]")


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("dtype", ["u64", "s64", "s32", "u16", "s8", "u8", "s4", "u4", "s2"])
def test_bits_of_any_type(algorithm: str, dtype: str) -> None:
    check(algorithm, "u64[2]", f"{dtype}[3,67]")


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3fn"])
def test_bits_as_floats(dtype: str) -> None:
    check("rng_philox", "u64[3]", f"{dtype}[67]")


@pytest.mark.parametrize("state", ["u64[3]", "u32[4]", "u32[6]"])
def test_states(state: str) -> None:
    check("rng_philox", state, "u32[130]")


def test_threefry_of_32_bit_words() -> None:
    check("rng_three_fry", "u32[4]", "u32[130]")
