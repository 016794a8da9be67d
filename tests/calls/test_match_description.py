"""What kernels hear of the match that their call stands for, in every interface and on every device."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.calls import load_library, load_source, register_c, register_pointer, register_symbol, remove
from xloom.calls.c_compiler import compile_source, compiled
from xloom.calls.match_description import MatchDescription, carried_text
from xloom.calls.typed_ffi.attributes import attributes_text, parse_attributes
from xloom.hlo.module import Module
from xloom.passes import outline_pattern
from xloom.passes.carried_hlo import carries_hlo
from xloom.passes.pattern import Pattern, pattern_of
from xloom.pjrt import Client

AXPY = """HloModule axpy, frontend_attributes={version="3",bind.half="a / 2",bind.turned="which(sum) == 'right'"}
ENTRY axpy {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[] constant(2), frontend_attributes={value="any"}
  as = f32[4] broadcast(a), dimensions={}
  ax = f32[4] multiply(as, x)
  shift = f32[] constant(1), frontend_attributes={value="any"}
  shifts = f32[4] broadcast(shift), dimensions={}
  left = f32[4] add(ax, y)
  right = f32[4] subtract(ax, shifts)
  ROOT sum = f32[4] custom-call(right, left), custom_call_target="xloom.either"
}"""
PROGRAM = """ENTRY main {
  x = f32[4] parameter(0)
  a = f32[] constant(VALUE)
  as = f32[4] broadcast(a), dimensions={}
  ax = f32[4] multiply(as, x)
  b = f32[] constant(-inf)
  bs = f32[4] broadcast(b), dimensions={}
  ROOT r = f32[4] subtract(ax, bs)
}"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def pattern() -> Pattern:
    return pattern_of(AXPY, "axpy")


@pytest.fixture(autouse=True)
def forget():
    yield
    for platform in ("Host", "sim"):
        remove("test.axpy", platform)
    remove("test.other")


def outlined(pattern: Pattern, value: str = "3", **options: Any) -> Module:
    module = xl.parse(PROGRAM.replace("VALUE", value))
    outline_pattern(module, pattern, "test.axpy", **options)
    return module


def call_of(module: Module) -> Any:
    return next((i for i in module.entry if i.opcode == "custom-call"), None)


@pytest.mark.parametrize("api_version", ["original", "typed-ffi"])
def test_the_call_says_what_matched_and_carries_it(pattern: Pattern, api_version: str) -> None:
    module = outlined(pattern, api_version=api_version)
    for form in (module, xl.parse(str(module)), xl.from_proto(module.to_proto()), module.clone("")):
        call = call_of(form)
        assert carries_hlo(call)
        assert MatchDescription.of(call) == MatchDescription(
            "axpy", 3, "axpy", ("x",), {"half": 1.5, "turned": True, "shift": -np.inf}
        )
        assert carried_text(call).startswith("HloModule axpy")
    expected = xl.evaluate(xl.parse(PROGRAM.replace("VALUE", "3")), X)
    xl.run_passes(module, "expand")
    assert call_of(module) is None
    np.testing.assert_array_equal(xl.evaluate(module, X), expected)


def test_json_is_what_every_reader_takes(pattern: Pattern) -> None:
    found = json.loads(call_of(outlined(pattern)).backend_config, parse_constant=pytest.fail)
    assert (found["pattern"], found["operands"], found["half"], found["shift"]) == ("axpy", "x", 1.5, "-inf")


@pytest.mark.parametrize("api_version", ["original", "typed-ffi"])
def test_python_kernels_get_it_by_name_as_a_dictionary_and_as_an_object(pattern: Pattern, api_version: str) -> None:
    seen = []

    @xl.custom_call("test.axpy")
    @xl.custom_call("test.axpy", platform="sim")
    def kernel(out, x, *, half, turned, match, attributes, absent=7):
        seen.append((half, turned, match.half, match.form, attributes["version"], absent, "hlo" in attributes))
        out[...] = 2 * half * x

    module = outlined(pattern, api_version=api_version)
    client = Client.sim(xl.sim.Simulator)
    results = [
        xl.evaluate(module, X),
        xl.compile(module)(X),
        xl.sim.Simulator().run(module, X),
        np.asarray(client.compile(module).execute([client.buffer_from_host(X)])[0]),
    ]
    for result in results:
        np.testing.assert_array_equal(result, 3 * X)
    assert seen == [(1.5, True, 1.5, "axpy", 3, 7, False)] * 4


def test_a_name_that_is_not_bound_is_said_when_the_program_is_compiled(pattern: Pattern) -> None:
    xl.custom_call("test.axpy")(lambda out, x, *, halve: None)
    with pytest.raises(xl.CustomCallError, match=r"takes 'halve'.*\n.*did you mean 'half'"):
        xl.compile(outlined(pattern))
    xl.custom_call("test.axpy")(lambda out, x, *, match: match.halve)
    with pytest.raises(xl.CustomCallError, match="binds no 'halve'; it binds half, turned, shift"):
        xl.evaluate(outlined(pattern), X)


def test_a_device_without_the_kernel_gets_the_operators(pattern: Pattern) -> None:
    module = outlined(pattern)
    np.testing.assert_array_equal(xl.sim.Simulator().run(module, X), np.full(4, np.inf, np.float32))


def test_what_the_kernel_does_not_take_stays(pattern: Pattern) -> None:
    xl.custom_call("test.axpy", when=lambda m: m.half < 1)(lambda out, x: None)
    module = xl.parse(PROGRAM.replace("VALUE", "3"))
    before = str(module)
    done = outline_pattern(module, pattern, "test.axpy")
    assert str(module) == before
    assert not done.found
    assert "'test.axpy' on Host does not take it: pattern=axpy version=3" in done.missed[0].reason
    assert call_of(outlined(pattern, "1")) is not None


def test_a_call_that_came_to_a_kernel_all_the_same_is_an_error(pattern: Pattern) -> None:
    module = outlined(pattern)
    xl.custom_call("test.axpy", when=lambda m: m.half < 1)(lambda out, x: None)
    with pytest.raises(xl.CustomCallError, match="does not take it"):
        xl.compile(module)


def test_a_condition_that_fails_names_the_kernel(pattern: Pattern) -> None:
    xl.custom_call("test.axpy", when=lambda m: m.causal)(lambda out, x: None)
    with pytest.raises(xl.CustomCallError, match=r"condition of 'test.axpy' on Host failed: .*binds no 'causal'"):
        outlined(pattern)


UNIFIED = """
#include <stdlib.h>
#include <string.h>
#include <xloom/custom_call.h>
void axpy(float* out, const float** in, const char* opaque, size_t size, XlaCustomCallStatus* status) {
  char text[256] = {0};
  memcpy(text, opaque, size < 255 ? size : 255);
  double half = atof(strstr(text, "\\"half\\": ") + 8);
  for (int i = 0; i < 4; ++i) out[i] = 2 * half * in[0][i];
}
"""
TYPED = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Axpy(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, ffi::Dictionary match) {
  auto half = match.get<double>("half");
  auto turned = match.get<bool>("turned");
  auto version = match.get<int64_t>("version");
  if (!half.has_value() || !turned.has_value() || !version.has_value() || *version != 3)
    return ffi::Error::InvalidArgument("not what was matched");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * *half * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attrs());
"""


@pytest.mark.parametrize("abi", ["status-returning-unified", "typed-ffi"])
def test_native_kernels_read_it_and_decide_the_api_version(pattern: Pattern, abi: str) -> None:
    options: dict[str, Any] = {"abi": abi}
    if abi == "typed-ffi":
        jax = pytest.importorskip("jax")
        options |= {"language": "c++", "include_dirs": [jax.ffi.include_dir()]}
    register_c("test.axpy", TYPED if abi == "typed-ffi" else UNIFIED, "axpy", **options)
    module = outlined(pattern)
    np.testing.assert_array_equal(xl.evaluate(module, X), 3 * X)
    np.testing.assert_array_equal(xl.compile(module)(X), 3 * X)


@pytest.mark.parametrize("door", ["source", "symbol", "pointer"])
def test_native_kernels_say_which_matches_they_take_and_in_which_layouts(pattern: Pattern, door: str) -> None:
    options: dict[str, Any] = {"abi": "status-returning-unified", "when": lambda m: m.half < 1, "layouts": "as-is"}
    if door == "source":
        register_c("test.axpy", UNIFIED, "axpy", **options)
    else:
        library = compiled(UNIFIED, language="c")[0]
        made = register_symbol("test.axpy", library, "axpy", **options)
        if door == "pointer":
            register_pointer("test.axpy", made.address, **options)
    refused = xl.parse(PROGRAM.replace("VALUE", "3"))
    before = str(refused)
    done = outline_pattern(refused, pattern, "test.axpy")
    assert (done.found, str(refused)) == ([], before)
    assert "'test.axpy' on Host does not take it" in done.missed[0].reason
    taken = outlined(pattern, "1")
    assert call_of(taken)["operand_layout_constraints"] is None
    np.testing.assert_array_equal(xl.compile(taken)(X), X)


OFFERED = (
    UNIFIED
    + """
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("test.axpy", axpy);
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("test.other", axpy);
"""
)


@pytest.mark.parametrize("door", ["library", "file"])
@pytest.mark.parametrize("by_name", [True, False])
def test_what_libraries_and_files_offer_takes_what_is_said_for_all_or_by_name(
    pattern: Pattern, tmp_path: Path, door: str, by_name: bool
) -> None:
    file = tmp_path / "kernels.c"
    file.write_text(OFFERED)

    def load(**options: Any) -> dict[str, Any]:
        made = load_source(file, **options) if door == "file" else load_library(compile_source(file), **options)
        return {r.name: (r.when, r.layouts) for r in made}

    def when(m: Any) -> bool:
        return m.half < 1

    if by_name:
        found = load(when={"test.axpy": when}, layouts={"test.axpy": "as-is"})
        assert found == {"test.axpy": (when, "as-is"), "test.other": (None, "")}
    else:
        assert load(when=when, layouts="as-is") == dict.fromkeys(("test.axpy", "test.other"), (when, "as-is"))
    assert call_of(outlined(pattern, "3")) is None
    taken = outlined(pattern, "1")
    assert call_of(taken)["operand_layout_constraints"] is None
    np.testing.assert_array_equal(xl.compile(taken)(X), X)
    with pytest.raises(xl.CustomCallError, match=r"layouts= names 'test.axpi'.*\n.*did you mean 'test.axpy'"):
        load(layouts={"test.axpi": "as-is"})
    assert load()["test.axpy"] == (None, "")


@pytest.mark.parametrize("run", [xl.evaluate, lambda module, x: xl.compile(module)(x)], ids=["interpreter", "compiled"])
def test_a_call_that_came_to_a_native_kernel_all_the_same_is_an_error(pattern: Pattern, run: Any) -> None:
    module = outlined(pattern)
    register_c("test.axpy", UNIFIED, "axpy", abi="status-returning-unified", when=lambda m: m.half < 1)
    with pytest.raises(xl.CustomCallError, match="does not take it"):
        run(module, X)


def test_attributes_are_written_as_they_are_read() -> None:
    given = {"a": True, "b": -3, "c": 1e-5, "d": 2.0, "e": -np.inf, "f": 'text "quoted"\n\\ and\ttabs', "g": 1e300}
    found: dict[str, Any] = parse_attributes(attributes_text(given))
    read = {name: value.decode() if isinstance(value, bytes) else value[()] for name, value in found.items()}
    assert read == given
    assert {name: v.dtype.name for name, v in found.items() if not isinstance(v, bytes)} == {
        "a": "bool", "b": "int64", "c": "float64", "d": "float64", "e": "float64", "g": "float64",
    }  # fmt: skip
