import sys

import numpy as np
import pytest

import xloom as xl
from xloom.stablehlo.bytecode_strings import has_only_text

pytest.importorskip("jaxlib")

TEXT = """module {
  func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %a, %a : tensor<3xf32>
    %1 = chlo.erf %0 : tensor<3xf32> -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""


def test_text_with_chlo():
    module = xl.from_stablehlo(TEXT)
    x = np.array([0.1, -0.2, 3], np.float32)
    import math

    np.testing.assert_allclose(xl.evaluate(module, x), [math.erf(2 * v) for v in x.tolist()], rtol=1e-6)


def test_portable_artifact():
    import jax

    exported = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((4,), np.float32))
    module = xl.from_stablehlo(exported.mlir_module_serialized)
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(xl.evaluate(module, x), 2 * x)


def test_errors_have_a_place():
    with pytest.raises(xl.ParseError) as caught:
        xl.from_stablehlo(TEXT.replace("stablehlo.add", "stablehlo.ad"))
    assert caught.value.span is not None and caught.value.span.line == 3


def test_load_tells_formats_apart(tmp_path):
    (tmp_path / "m.mlir").write_text(TEXT)
    (tmp_path / "unnamed").write_text(TEXT)
    module = xl.load(tmp_path / "m.mlir")
    # the metadata may name the file
    assert xl.load(tmp_path / "unnamed").to_text(print_metadata=False) == module.to_text(print_metadata=False)
    (tmp_path / "m.hlo").write_text(str(module))
    (tmp_path / "m.pb").write_bytes(module.to_proto())
    assert str(xl.load(tmp_path / "m.hlo")) == str(xl.load(tmp_path / "m.pb")) == str(module)


def test_bytecode_with_strings_that_are_no_text(monkeypatch):
    """jaxlib may abort on them, in messages: so another process converts it."""
    import jax

    good = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((4,), np.float32)).mlir_module_serialized
    damaged = good.replace(b"multiply", b"multipl\xff")
    assert has_only_text(good) and not has_only_text(damaged)
    assert not any(has_only_text(good[:size]) for size in range(4, 60))
    with pytest.raises(xl.ParseError, match="failed to deserialize"):
        xl.from_stablehlo(damaged)
    monkeypatch.setattr(sys, "executable", "/bin/false")  # which ends as jaxlib does, without a word
    with pytest.raises(xl.ParseError, match="ends jaxlib's process"):
        xl.from_stablehlo(damaged)


@pytest.mark.parametrize("size", [1500, 2000, 20_000])
def test_what_is_nested_is_an_error_at_any_size(size: int):
    """Small programs are read on the caller's stack."""
    with pytest.raises(xl.ParseError):
        xl.from_stablehlo("module attributes {a.b = " + "[" * size)
