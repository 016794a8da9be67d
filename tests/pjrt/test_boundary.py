"""A backend that gives something else than the program says is found out before anybody reads it."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.errors import EvaluationError, LoweringError
from xloom.pjrt import Client, Compiler

ONE = "HloModule one ENTRY e { a = f32[4096] parameter(0) ROOT b = f32[4096] negate(a) }"
TWO = """HloModule two ENTRY e {
  a = f32[4096] parameter(0) n = s32[2,3] iota(), iota_dimension=1 ROOT t = (f32[4096], s32[2,3]) tuple(a, n) }"""
SWAPPED = """HloModule swapped, entry_computation_layout={(f32[4096]{0})->f32[2,3]{0,1}}
ENTRY e { ROOT n = f32[2,3]{0,1} iota(), iota_dimension=1 a = f32[4096]{0} parameter(0) }"""
BIG, SMALL = np.zeros(4096, np.float32), np.zeros((2, 3), np.int32)


class Program:
    memory = CompiledMemoryStats(0, 0, 0, 0)

    def __init__(self, value):
        self.value = value

    def run(self, arguments, launch):
        return self.value

    def rendezvous(self):
        return None


class Giving(Compiler):
    platform_name = device_kind = "giving"

    def __init__(self, value):
        self.program = Program(value)

    def compile(self, module):
        return self.program


def results(text, value, argument=BIG, compiler=Giving):
    client = Client(compiler(value))
    return client.compile(xl.parse(text)).execute([client.buffer_from_host(argument)])


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        (ONE, BIG[:2], r"gave float32\[2\] as result 0, where the module says f32\[4096\]"),
        (ONE, BIG.astype(np.float64), r"float64\[4096\] as result 0"),
        (ONE, BIG.astype(">f4"), r"float32\[4096\]|>f4\[4096\]"),
        (ONE, BIG.reshape(64, 64), r"float32\[64,64\] as result 0"),
        (ONE, (BIG, BIG), "gave a tuple as result 0"),
        (ONE, None, "gave a NoneType as result 0"),
        (ONE, BIG.tolist(), "gave a list as result 0"),
        (ONE, np.float32(1), r"float32\[\] as result 0"),
        (TWO, BIG, r"gave float32\[4096\], which is no tuple"),
        (TWO, (BIG,), "gave 1 results of 2"),
        (TWO, (BIG, SMALL, SMALL), "gave 3 results of 2"),
        (TWO, (SMALL, BIG), r"int32\[2,3\] as result 0"),
        (TWO, (BIG, SMALL.T), r"int32\[3,2\] as result 1, where the module says s32\[2,3\]"),
        (SWAPPED, np.zeros((2, 3), np.float32), r"float32\[2,3\] as result 0"),
    ],
)
def test_wrong_results(text, value, message):
    with pytest.raises(EvaluationError, match=message) as caught:
        [r.block_until_ready() for r in results(text, value)]
    assert caught.value.where == xl.parse(text).name and "array for each result" in caught.value.hint


def test_arguments_that_are_others():
    (found,) = results(ONE, BIG, BIG[:7])
    with pytest.raises(EvaluationError, match=r"given float32\[7\] for parameter 0, where the module says f32\[4096\]"):
        found.block_until_ready()


def test_right_results_in_other_forms():
    matrix = np.arange(6, dtype=np.int32).reshape(3, 2)
    _, found = results(TWO, [BIG, matrix.T])
    assert found.ready.result().flags.c_contiguous and np.array_equal(found, matrix.T)
    (found,) = results(SWAPPED, np.ones((3, 2), np.float32))
    assert np.asarray(found).shape == (2, 3)
    scalar = "HloModule s ENTRY e { a = f32[4096] parameter(0) ROOT c = f32[] constant(1) }"
    assert np.asarray(results(scalar, np.float32(1))[0]) == 1


class Away(Giving):
    """Its device has memory of its own."""

    def to_device(self, array, device):
        return list(array)

    def to_host(self, value, device):
        return np.array(value, np.float32)


@pytest.mark.parametrize("size", [2, 4096])
def test_what_comes_back_from_a_device(size):
    (found,) = results(ONE, [0.0] * size, compiler=Away)
    if size == 4096:
        assert np.array_equal(found, BIG)
        return
    with pytest.raises(EvaluationError, match=r"gave the host float32\[2\], where the module says f32\[4096\]"):
        np.asarray(found)
    copy = found.copy_to(found.memory_space)
    with pytest.raises(EvaluationError, match="gave the host"):
        copy.block_until_ready()


def test_what_is_no_program():
    class Nothing(Compiler):
        def compile(self, module):
            return 3  # type: ignore[return-value]

    with pytest.raises(LoweringError, match=r"Nothing\.compile gave 3, which has no run"):
        Client(Nothing()).compile(xl.parse(ONE))
