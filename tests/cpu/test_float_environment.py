"""Denormals and rounding: of the program, whatever the thread has that runs it."""

import ctypes
import platform
import sys
from dataclasses import replace

import numpy as np
import pytest

import xloom as xl
from tests.cpu.aarch64_emulator import emulated
from xloom.cpu.compile import compile
from xloom.llvm.target import Target, process_target, target_named
from xloom.pjrt import Client

LIBC = ctypes.CDLL(None)
KEPT, FLUSHES = process_target(), replace(process_target(), flushes_denormals=True)
TINY = np.full(4, 1e-40, np.float32)
UPWARD = 0x800
"""C's FE_UPWARD on x86."""
FLUSHING = 0x8040
MXCSR = 28
"""Where C's fenv_t has it."""

on_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="sets the thread as x86 has it"
)


def doubled(count: int) -> xl.Module:
    return xl.parse(f"""HloModule m
ENTRY main {{
  x = f32[{count}] parameter(0)
  ROOT y = f32[{count}] add(x, x)
}}""")


@pytest.fixture
def flushing_thread():
    """The test's own thread takes denormals for 0, and rounds up."""
    before, changed = (ctypes.create_string_buffer(64) for _ in range(2))
    LIBC.fegetenv(before)
    LIBC.fesetround(UPWARD)
    LIBC.fegetenv(changed)
    word = ctypes.c_uint32.from_buffer(changed, MXCSR)
    word.value |= FLUSHING
    LIBC.fesetenv(changed)
    yield
    LIBC.fesetenv(before)


@pytest.mark.parametrize("count", [4, 3_000_000])
def test_kept_or_flushed_as_the_target_says(count: int):
    """In the caller's thread, and in those of the pool."""
    x = np.full(count, 1e-40, np.float32)
    assert (compile(doubled(count), KEPT)(x) == x + x).all()
    assert not compile(doubled(count), FLUSHES)(x).any()
    assert (x + x).all(), "the thread has its own setting again"
    assert (compile(doubled(count), KEPT)(x) == x + x).all()


@on_x86
def test_the_thread_has_no_say(flushing_thread):
    x, numbers = TINY, np.array([0.1, 0.3, 0.7, 1.1], np.float32)
    found = compile(doubled(4), KEPT)(x)
    assert found.view(np.int32).all() and not (x + x).view(np.int32).any()
    square = xl.parse("HloModule m\nENTRY main { x = f32[4] parameter(0) ROOT y = f32[4] multiply(x, x) }")
    nearest, upward = compile(square, KEPT)(numbers), numbers * numbers
    assert (nearest <= upward).all() and (nearest < upward).any()


@on_x86
def test_nor_has_that_which_starts_the_queue(flushing_thread):
    """Threads start with the setting of who starts them."""
    client, x = Client.cpu(), TINY
    device = client.addressable_devices[0]
    done: list[bool] = []
    device.queue.submit(lambda: done.append(bool(np.asarray(x + x).view(np.int32).any())))
    (result,) = client.compile(doubled(4)).execute([client.buffer_from_host(x)])
    assert np.asarray(result).view(np.int32).all()
    client.close()
    assert done == [False]


def test_a_sign_of_what_is_flushed_is_0():
    signs = xl.parse("HloModule m\nENTRY main { x = f32[5] parameter(0) ROOT y = f32[5] sign(x) }")
    x = np.array([1e-40, -1e-40, -0.0, np.nan, -3], np.float32)
    np.testing.assert_array_equal(compile(signs, FLUSHES)(x), np.array([0, -0.0, -0.0, np.nan, -1], np.float32))
    np.testing.assert_array_equal(compile(signs, KEPT)(x), np.array([1, -1, -0.0, np.nan, -1], np.float32))


def test_on_arm():
    arm, x = target_named("aarch64"), TINY
    (kept,), (flushed,) = (emulated(doubled(4), each, [x]) for each in (arm, replace(arm, flushes_denormals=True)))
    np.testing.assert_array_equal(kept, x + x)
    assert not flushed.any()


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("log(guarded)", [np.log(np.float32(1e-40)), 0, np.log(np.float32(2))]),
        ("atan2(zeros, guarded)", [0, 0, 0]),
    ],
)
def test_a_denormal_constant_in_place_of_zeros_is_one_number(operation: str, wanted: list[float]):
    """LLVM, which knows that the constant is not 0, and the program, to which it may be, agree on the result."""
    module = xl.parse(f"""HloModule m
ENTRY main {{
  x = f32[3] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[3] broadcast(zero), dimensions={{}}
  least = f32[] constant(1e-40)
  leasts = f32[3] broadcast(least), dimensions={{}}
  is_none = pred[3] compare(x, zeros), direction=EQ
  guarded = f32[3] select(is_none, leasts, x)
  ROOT y = f32[3] {operation}
}}""")
    for target in (KEPT, FLUSHES):
        np.testing.assert_allclose(compile(module, target)(np.array([0, 1, 2], np.float32)), wanted, rtol=1e-6)


@pytest.mark.parametrize("target", [KEPT, FLUSHES])
def test_cube_roots_of_denormals(target: Target):
    module = xl.parse("HloModule m\nENTRY main { x = f64[4] parameter(0) ROOT y = f64[4] cbrt(x) }")
    x = np.array([5e-324, -1e-310, 3e-320, 8.0])
    np.testing.assert_allclose(compile(module, target)(x), np.cbrt(x), rtol=1e-15)
