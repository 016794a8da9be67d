"""Python kernels say by their signatures what they are written for, and get a typed call's attributes."""

import re
import subprocess
import sys
import textwrap
import typing
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import xloom as xl
from xloom.calls import registry
from xloom.sim import Simulator

X = np.arange(4, dtype=np.float32)
MODULE = """ENTRY e { a = f32[128] parameter(0) b = s32[4,2] parameter(1)
  ROOT called = f32[4] custom-call(a, b), custom_call_target="t", metadata={source_file="model.py" source_line=7} }"""


def kernel(out, a, b):
    raise AssertionError("it is not to be called")


def annotated(**annotations):
    """Registers a kernel of two operands with these annotations."""

    def fresh(out, a, b):
        kernel(out, a, b)

    fresh.__annotations__ = annotations
    xl.custom_call("t")(fresh)


ZEROS = [np.zeros(128, np.float32), np.zeros((4, 2), np.int32)]


def compiles(module):
    xl.compile(module)


def is_interpreted(module):
    xl.evaluate(module, *ZEROS)


def runs_on_device(module):
    Simulator.check(Device(), module)


class Device(Simulator):
    platform = "Host"


WAYS = pytest.mark.parametrize("way", [compiles, is_interpreted, runs_on_device])


@WAYS
@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"a": xl.f32[64]}, "expects f32[64] for a, got f32[128]"),
        ({"a": xl.f32[128, 1]}, "expects f32[128,1] for a, got f32[128]"),
        ({"b": xl.f32}, "expects f32 for b, got s32[4,2]"),
        ({"out": xl.s32[4]}, "expects s32[4] for out, got f32[4]"),
        ({"out": np.float64}, "expects f64 for out, got f32[4]"),
        ({"b": NDArray[np.float32]}, "expects f32 for b, got s32[4,2]"),
        ({"b": "s32[4,3]"}, "expects s32[4,3] for b, got s32[4,2]"),
        ({"b": "s32[?]"}, "expects s32[?] for b, got s32[4,2]"),
        (
            {"out": "f32[n]", "a": "f32[n]"},
            "expects f32[n] for a, got f32[128] (at %called, model.py:7)\n  hint: there n is 4",
        ),
        ({"a": (xl.f32[128],)}, "expects (f32[128]) for a, got f32[128]"),
        ({"a": Annotated[np.ndarray, xl.f32[2]]}, "expects f32[2] for a, got f32[128]"),
        ({"a": xl.f32[2], "b": xl.f32}, "expects f32[2] for a, got f32[128]; it expects f32 for b, got s32[4,2]"),
    ],
)
def test_what_does_not_fit_is_told_before_it_is_called(way, annotations, message):
    annotated(**annotations)
    with pytest.raises(xl.CustomCallError) as caught:
        way(xl.parse(MODULE))
    assert f"custom call 't' {message}" in str(caught.value)
    assert "(at %called, model.py:7)" in str(caught.value)


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"out": xl.f32[4], "a": xl.f32[128], "b": xl.s32[4, 2]},
        {"out": "f32[n]", "a": "f32[?]", "b": "s32[n, k]"},
        {"out": "xl.f32[4]", "a": "'f32[m]'", "b": "np.ndarray"},
        {"out": Any, "a": "NoSuchName", "b": np.integer},
        {"out": NDArray[np.float32], "a": NDArray[Any], "b": Annotated[np.ndarray, "s32[4,2]"]},
    ],
)
def test_what_fits_compiles(annotations):
    annotated(**annotations)
    compiles(xl.parse(MODULE))
    with pytest.raises(xl.CustomCallError, match="it is not to be called"):
        is_interpreted(xl.parse(MODULE))


def test_tuples_are_annotated_by_tuples():
    m = xl.parse("""ENTRY e { p = (f32[4], (s32[])) parameter(0)
      ROOT c = (f32[4], f32[4]) custom-call(p), custom_call_target="t" }""")

    @xl.custom_call("t")
    def fits(out: (xl.f32[4], xl.f32), p: tuple[xl.f32, tuple[xl.s32[()]]]): ...  # pyright: ignore

    compiles(m)

    @xl.custom_call("t")
    def nested(out, p: (xl.f32, (xl.s32[2],))): ...  # pyright: ignore

    with pytest.raises(xl.CustomCallError, match=r"expects \(f32, \(s32\[2\]\)\) for p, got \(f32\[4\], \(s32\[\]\)\)"):
        compiles(m)


@WAYS
def test_number_of_operands(way):
    @xl.custom_call("t")
    def one(out, a): ...

    with pytest.raises(xl.CustomCallError, match=r"for \(out, a\), where the first is the result; got 2 operands"):
        way(xl.parse(MODULE))

    @xl.custom_call("t")
    def three(out, a, b, c, *more): ...

    with pytest.raises(xl.CustomCallError, match=r"\(out, a, b, c, \*more\), where .*; got 2 operands"):
        way(xl.parse(MODULE))


def test_any_number_of_operands():
    @xl.custom_call("t")
    def some(out, *operands: xl.f32): ...  # pyright: ignore

    with pytest.raises(xl.CustomCallError, match=r"expects f32 for \*operands, got s32\[4,2\]"):
        compiles(xl.parse(MODULE))

    @xl.custom_call("t")
    def optional(out, a, b=None, c=None): ...

    compiles(xl.parse(MODULE))


def test_text_that_is_no_annotation_is_told_at_once():
    with pytest.raises(xl.CustomCallError, match=r"the annotation 'f32\[n' is no shape"):
        annotated(a="f32[n")


def test_annotations_that_python_keeps_as_text(tmp_path):
    (tmp_path / "kernels.py").write_text(
        textwrap.dedent("""
        from __future__ import annotations
        import xloom as xl
        @xl.custom_call("t")
        def t(out: xl.f32[4], a: "f32[n]", b: xl.s32[n_rows, 2]): ...
        n_rows = 3
        @xl.custom_call("u")
        def u(out: xl.f32[4], a: "f32[n]", b: xl.s32[n_rows, 2]): ...
        """)
    )
    code = f"""
import sys, xloom as xl
sys.path.insert(0, {str(tmp_path)!r})
import kernels
xl.compile(xl.parse('''{MODULE}'''))  # n_rows was not known yet
try:
    xl.compile(xl.parse('''{MODULE}'''.replace('"t"', '"u"')))
except xl.CustomCallError as error:
    assert "expects s32[3,2] for b, got s32[4,2]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_without_a_signature():
    xl.custom_call("t")(max)
    m = xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), custom_call_target="t" }')
    assert registry.lookup("t").signature is None
    compiles(m)


# -- attributes
TYPED = """ENTRY e { x = f32[4] parameter(0)
  ROOT called = f32[4] custom-call(x), custom_call_target="t", api_version=API_VERSION_TYPED_FFI, backend_config=CONFIG }"""


@pytest.mark.parametrize("run", [xl.evaluate, lambda m, *a: xl.compile(m)(*a)], ids=["interpreter", "compiled"])
def test_attributes_are_decoded_for_python(run):
    seen = []

    @xl.custom_call("t")
    def axpy(out, x, *, attributes, opaque):
        seen.append((attributes, opaque))
        out[...] = attributes["a"] * x

    text = '{a = 2.5 : f32, n = dense<[1, 2]> : tensor<2xi16>, name = "text", o = {deep = true}, b = 3.0 : bf16}'
    assert np.array_equal(run(xl.parse(TYPED.replace("CONFIG", text)), X), 2.5 * X)
    ((found, opaque),) = seen
    assert found["a"].dtype == np.float32 and found["name"] == "text" and found["o"]["deep"] is np.True_
    assert found["n"].dtype == np.int16 and found["n"].tolist() == [1, 2] and not found["n"].flags.writeable
    assert found["b"] == 3 and found["b"].dtype == xl.bf16.numpy
    assert opaque == text.encode()


def test_attributes_of_jaxs_calls():
    jax = pytest.importorskip("jax")

    @xl.custom_call("t")
    def scale(out, x, *, attributes):
        out[...] = x * attributes["factor"] + len(attributes["names"]["first"])

    shape = jax.ShapeDtypeStruct((4,), np.float32)
    call = jax.ffi.ffi_call("t", shape)
    lowered = jax.jit(lambda x: call(x, factor=np.float32(3), names={"first": "ab"})).lower(X)
    assert np.array_equal(xl.compile(xl.from_stablehlo(lowered.as_text()))(X), 3 * X + 2)


def test_other_calls_have_no_attributes():
    @xl.custom_call("t")
    def needs(out, x, *, attributes): ...

    m = xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT called = f32[4] custom-call(x), custom_call_target="t" }')
    with pytest.raises(xl.CustomCallError, match="which a call with API_VERSION_ORIGINAL has not") as caught:
        compiles(m)
    assert caught.value.where.startswith("%called")


def test_attributes_that_are_malformed_are_told_when_it_is_compiled():
    @xl.custom_call("t")
    def needs(out, x, *, attributes): ...

    with pytest.raises(xl.ParseError, match="at %called"):
        compiles(xl.parse(TYPED.replace("CONFIG", '"{a ="')))


@pytest.mark.skipif(not hasattr(typing, "TypeAliasType"), reason="Python has the statement `type` since 3.12")
def test_names_of_types_stand_for_what_they_name():
    names: dict = {"xl": xl, "np": np, "NDArray": NDArray}
    exec("type Rows = xl.f32[128, 1]\ntype Of[S, T] = NDArray[T]\ntype Again = Of[int, np.float64]", names)
    for annotations, message in (
        ({"a": names["Rows"]}, "expects f32[128,1] for a, got f32[128]"),
        ({"a": names["Again"]}, "expects f64 for a, got f32[128]"),
    ):
        annotated(**annotations)
        with pytest.raises(xl.CustomCallError, match=re.escape(message)):
            compiles(xl.parse(MODULE))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated when a function is made")
def test_names_that_only_type_checkers_have_say_nothing():
    names: dict = {"xl": xl}
    exec("def fresh(out, a: Nowhere, b: xl.f32): pass", names)
    xl.custom_call("t")(names["fresh"])
    with pytest.raises(xl.CustomCallError, match="expects f32 for b"):
        compiles(xl.parse(MODULE))
