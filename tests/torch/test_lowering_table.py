"""The lowering table against torch's own schemas and its rules of promotion."""

import importlib
import itertools
from contextlib import suppress

import pytest
import torch
import torch._inductor.inductor_prims  # it registers prims.fma

from xloom.errors import LoweringError
from xloom.hlo import dtype as dt
from xloom.hlo.builder import Builder
from xloom.torch.dtypes import FROM_TORCH, torch_dtype
from xloom.torch.lowering import LOWERINGS, Graph, Scalar, lower
from xloom.torch.lowering.promotion import result_type
from xloom.torch.lowering.registry import _binder, functional_form, has_lowering, overload

aten = torch.ops.aten


def graph():
    builder = Builder("test", source_lines=False)
    return Graph(builder), builder


with suppress(ImportError):
    importlib.import_module("transformers.integrations.moe")  # it registers operators of its own


def is_here(name):
    """False for what torch has taken back (2.15 has no torch.cholesky), and where transformers is not installed."""
    namespace, packet, _ = name.split(".")
    optional = namespace == "transformers" or name == "aten.cholesky.default"
    return not optional or hasattr(getattr(torch.ops, namespace), packet)


@pytest.mark.parametrize("name", list(filter(is_here, sorted(LOWERINGS))))
def test_every_row_takes_what_its_schema_has(name):
    _binder(overload(name), LOWERINGS[name])


def test_a_row_that_misses_an_argument_is_refused():
    with pytest.raises(TypeError, match="does not take alpha"):
        _binder(aten.add.Tensor, lambda g, x, y: x)


@pytest.mark.parametrize(
    ("op", "functional"),
    [
        (aten.add_.Tensor, "aten.add.Tensor"),
        (aten.add.out, "aten.add.Tensor"),
        (aten.view_copy.default, "aten.view.default"),
        (aten.squeeze_copy.dim, "aten.squeeze.dim"),
        (aten.add.Tensor, None),
    ],
)
def test_forms_of_an_operator_are_one(op, functional):
    assert functional_form(op) == functional
    assert has_lowering(op)


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
NUMBERS = [True, 2, 1.5, 1j]


def wide(dtype):
    """What tensors have whose torch dtype HLO has not: complex numbers of narrow floats (bf16 with 1j, from 2.15)."""
    return dtype if dtype in FROM_TORCH else torch.complex64


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, repeat=2)))
@pytest.mark.parametrize("ranks", [(1, 1), (1, 0), (0, 0)])
def test_tensors_promote_as_torch_promotes_them(a, b, ranks):
    _, builder = graph()
    operands = [builder.parameter(FROM_TORCH[d][(2,) * r]) for d, r in zip((a, b), ranks, strict=True)]
    expected = torch.result_type(*[torch.empty((2,) * r, dtype=d) for d, r in zip((a, b), ranks, strict=True)])
    assert torch_dtype(result_type(*operands)) == wide(expected)


@pytest.mark.parametrize(("dtype", "number"), list(itertools.product(DTYPES, NUMBERS)))
def test_numbers_promote_as_torch_promotes_them(dtype, number):
    g, builder = graph()
    tensor = builder.parameter(FROM_TORCH[dtype][3])
    expected = torch.result_type(torch.empty(3, dtype=dtype), number)
    assert torch_dtype(result_type(tensor, number)) == wide(expected)
    hoisted = Scalar(g.scalar(number, dt.c128 if isinstance(number, complex) else dt.f64), type(number))
    assert torch_dtype(result_type(tensor, hoisted)) == wide(expected)


def test_the_schema_fills_in_defaults_and_numbers_may_be_arguments():
    g, builder = graph()
    x, rate = builder.parameter(dt.f32[4]), builder.parameter(dt.f64[()])
    result = lower(g, aten.add.Tensor, (x, x), {"alpha": Scalar(rate, float)})
    assert result.shape == dt.f32[4]
    assert result.opcode == "add" and result.operands[1].opcode == "multiply"
    assert lower(g, aten.add.Tensor, (x, x), {}).operands == (x, x)


def test_an_operator_without_a_row_is_an_error_that_names_it():
    g, builder = graph()
    with pytest.raises(LoweringError, match=r"aten\.nonzero\.default has no lowering") as caught:
        lower(g, aten.nonzero.default, [builder.parameter(dt.f32[4])], {})
    assert "XLOOM_TORCH_FALLBACK=1" in str(caught.value)
