"""The rest of what the headers of the typed interface offer, natively compiled, interpreted and on a device."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.calls import c_compiler, register_pointer
from xloom.sim import Simulator
from xloom.status_code import Code

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def library(include, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLOOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        source = Path(__file__).with_name("typed_features.cc")
        return ctypes.CDLL(str(c_compiler.compile_source(source, language="c++", include_dirs=include)))


class Device(Simulator):
    platform = "Host"


def compiled(m, *arguments):
    return xl.compile(m)(*arguments)


def on_device(m, *arguments):
    return Device(memory_bytes=1 << 20).run(m, *arguments)


@pytest.fixture(params=[xl.evaluate, compiled, on_device], ids=["interpreter", "compiled", "device"])
def run(request):
    return request.param


def call(operands, result, attributes="{}"):
    names = [f"x{k}" for k in range(len(operands))]
    parameters = "\n".join(f"{n} = {s} parameter({k})" for k, (n, s) in enumerate(zip(names, operands, strict=True)))
    return xl.parse(f"""ENTRY e {{ {parameters}
      ROOT called = {result} custom-call({", ".join(names)}), custom_call_target="t",
        api_version=API_VERSION_TYPED_FFI, backend_config={attributes} }}""")


def test_all_attributes_as_a_dictionary_or_a_struct(run, library):
    attributes = "{first = 3 : i64, last = 8 : i64}"
    register_pointer("t", library.whole)
    assert run(call([], "s64[3]", attributes)).tolist() == [2, 1, 8]
    with pytest.raises(xl.CustomCallError, match="INTERNAL: Unexpected attribute: last"):
        run(call([], "s64[3]", "{first = 3 : i64}"))
    register_pointer("t", library.whole_struct)
    assert run(call([], "s64[2]", attributes)).tolist() == [3, 8]


@pytest.mark.parametrize("symbol", ["inferred", "with_traits"])
def test_bindings_that_are_inferred_and_traits(run, library, symbol):
    register_pointer("t", library[symbol])
    assert np.array_equal(run(call(["f32[4]"], "f32[4]"), X), 3 * X)


def test_the_whole_context(run, library):
    register_pointer("t", library.context)
    assert run(call([], "s64[4]")).tolist() == [1, 0, 1, run is on_device]


def test_tasks_of_the_pool_end_a_future(run, library):
    register_pointer("t", library.parts)
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(run(call(["f32[64]"], "f32[64]", "{wrong = -1 : i64}"), x), -x)
    with pytest.raises(xl.CustomCallError, match=r"'t' failed: DATA_LOSS: part 17 \(at %called"):
        run(call(["f32[64]"], "f32[64]", "{wrong = 17 : i64}"), x)


def test_remaining_arguments_and_results_by_type(run, library):
    register_pointer("t", library.ask)
    z = np.array([1, 2 + 7j], np.complex64)
    first, flags = run(call(["f32[3]", "c64[2]"], "(s64[4], pred[1])"), X[:3], z)
    assert first.tolist() == [12, 11, 7, 0] and flags.tolist() == [True]
    first, _ = run(call(["f32[3]", "f64[2]"], "(s64[4], pred[1])"), X[:3], z.real.astype(np.float64))
    assert first[2] == -1
    with pytest.raises(xl.CustomCallError, match="Wrong buffer dtype: expected PRED but got S32"):
        run(call(["f32[3]", "c64[2]"], "(s64[4], s32[1])"), X[:3], z)


@pytest.mark.parametrize("code", [c for c in Code if c != Code.OK], ids=lambda c: c.name)
def test_codes_of_errors(library, code):
    register_pointer("t", library.coded)
    with pytest.raises(xl.CustomCallError, match=f"'t' failed: {code.name}: of that code"):
        compiled(call([], "s64[1]", f"{{code = {int(code)} : i32}}"))


def test_stages_without_states(run, library):
    stages = {"prepare": library.only_prepare, "initialize": library.only_initialize, "execute": library.counts}
    register_pointer("t", stages)
    before = run(call([], "s64[2]", "{fails = 0 : i64}"))
    after = run(call([], "s64[2]", "{fails = 0 : i64}"))
    assert (after - before).tolist() == [1, 1]
    with pytest.raises(xl.CustomCallError, match="'t' failed: INTERNAL: not ready"):
        run(call([], "s64[2]", "{fails = 1 : i64}"))
