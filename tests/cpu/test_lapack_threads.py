"""LAPACK's calls of small or of many matrices are computed by one thread each, and leave OpenBLAS as it was."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import xloom as xl
from xloom.calls.openblas import thread_functions
from xloom.cpu.custom_calls import lapack_threads
from xloom.thread_count import thread_count

functions = thread_functions()
if functions is None:
    pytest.skip("SciPy's LAPACK is not OpenBLAS", allow_module_level=True)


@pytest.fixture
def threads():
    """The functions that say, and set, how many threads OpenBLAS has: two, at the beginning."""
    assert functions is not None
    get = ctypes.CFUNCTYPE(ctypes.c_int)(functions.get)
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(functions.set)
    before = get()
    put(2)
    yield get
    put(before)


def test_overlapping_calls(threads) -> None:
    library = lapack_threads._library()
    begin, end = (ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address(name)) for name in lapack_threads._NAMES)
    few, many = thread_count() - 1, thread_count()
    begin(few)
    assert threads() == 2
    end(few)
    begin(many)
    begin(lapack_threads._ALWAYS)
    assert threads() == 1
    end(many)
    assert threads() == 1
    end(lapack_threads._ALWAYS)
    assert threads() == 2


def test_programs_leave_it_as_it_was(threads) -> None:
    x = np.random.default_rng(0).standard_normal((8, 30, 20)).astype(np.float32)
    lowered = jax.jit(lambda x: jax.numpy.linalg.qr(x)[1]).lower(x)
    program = xl.compile(xl.from_stablehlo(str(lowered.compiler_ir("stablehlo"))))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(program, [x] * 40))
    assert threads() == 2
    np.testing.assert_allclose(found[-1], lowered.compile()(x), rtol=1e-4, atol=1e-4)


def test_failing_calls_leave_it_as_it_was(threads) -> None:
    program = xl.compile(
        xl.parse("""HloModule m
ENTRY e { x = f32[4,4] parameter(0)
  ROOT r = (f32[4,4], s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi", api_version=API_VERSION_TYPED_FFI,
    operand_layout_constraints={f32[4,4]{1,0}}, backend_config={} }""")
    )
    with pytest.raises(xl.CustomCallError):
        program(np.eye(4, dtype=np.float32))
    assert threads() == 2
