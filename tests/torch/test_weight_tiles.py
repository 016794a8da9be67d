"""Weights of bf16 that stay as they are come in the tiles that AMX multiplies."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import xloom as xl
from tests.cpu.test_dot import values
from xloom.cpu.kernels.matmul import amx_product
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import host_level, target_named
from xloom.passes import product_tiling
from xloom.torch.frozen import weight_tiles
from xloom.torch.frozen.division import divided

AMX = target_named("x86-64-v4-amx")
has_tiles = pytest.mark.skipif(not host_level().has_tiles, reason="no AMX, or a process may not use it")


def in_tiles(text, monkeypatch) -> Any:
    """A program whose second parameter is such weights, and what is computed of these before."""
    monkeypatch.setattr(weight_tiles, "process_target", lambda: AMX)
    module = xl.parse(text)
    weight_tiles.put_in_tiles(module.entry, {1})
    return divided(module, {1})


DOT = """HloModule m
ENTRY e {{
  p0 = bf16[{m},{k}] parameter(0)
  p1 = bf16[{w}] parameter(1)
  x = f32[{m},{k}] convert(p0)
  w = f32[{w}] convert(p1)
  ROOT d = f32[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{turned}}}
}}"""
CONVOLUTION = """HloModule m
ENTRY e {{
  p0 = bf16[2,9,11,64] parameter(0)
  p1 = bf16[{w}] parameter(1)
  x = f32[2,9,11,64] convert(p0)
  w = f32[{w}] convert(p1)
  ROOT d = f32[2,9,11,96] convolution(x, w), window={{size=1x1}}, dim_labels=b01f_{labels}->b01f
}}"""


def dot(m, k, n, turned):
    return DOT.format(m=m, k=k, n=n, w=f"{n},{k}" if turned else f"{k},{n}", turned=int(turned))


@has_tiles
@pytest.mark.parametrize(
    "text",
    [
        dot(70, 64, 96, turned=True),
        dot(600, 96, 64, turned=False),
        dot(1000, 2112, 320, turned=True),
        CONVOLUTION.format(w="96,1,1,64", labels="o01i"),
        CONVOLUTION.format(w="1,1,64,96", labels="01io"),
    ],
    ids=["nt", "nn", "deep", "o01i", "01io"],
)
def test_values(text, monkeypatch):
    division, rng = in_tiles(text, monkeypatch), np.random.default_rng(0)
    x, w = (values(rng, p.shape.dims, "bf16") for p in xl.parse(text).entry.parameters)
    (product,) = [i for i in division.rest.instructions if i.opcode in ("dot", "convolution")]
    assert product.opcode == "dot" and product.operands[1].shape.rank == 6
    want, (tiles,) = np.asarray(xl.evaluate(xl.parse(text), x, w)), xl.evaluate(division.weights, w)
    for got in (xl.evaluate(division.rest, x, tiles), xl.compile(division.rest)(x, tiles)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_kernels_read_tiles_where_they_lie(monkeypatch):
    seen = []
    tiled = amx_product.tiled

    def noted(kernel, arithmetic, product, *arrays):
        seen.append(amx_product.packings(product, *arrays[:2])[1].lies_in_tiles)
        return tiled(kernel, arithmetic, product, *arrays)

    from xloom.cpu.kernels.matmul import multiply
    from xloom.cpu.printers import asm_text

    monkeypatch.setattr(multiply, "tiled", noted)
    monkeypatch.setitem(multiply._MEANING, noted, "tiles")
    division = in_tiles(dot(128, 64, 96, turned=True), monkeypatch)
    assert "tdpbf16ps" in asm_text(division.rest, AMX) and seen == [True]


@pytest.mark.parametrize("m,k,n", [(64, 64, 64), (128, 32, 64), (128, 64, 80)], ids=lambda n: str(n))
def test_what_is_no_whole_number_of_tiles_stays(m, k, n, monkeypatch):
    assert in_tiles(dot(m, k, n, turned=True), monkeypatch) is None  # nothing is computed of weights


@has_tiles
def test_networks(monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layers: Any = nn.Conv2d(64, 128, 1), nn.GELU(), nn.Conv2d(128, 64, 1, bias=False), nn.Flatten(2), nn.Linear(144, 96)
    model, x = nn.Sequential(*layers).eval().bfloat16(), torch.randn(2, 64, 12, 12).bfloat16()
    compiled = torch.compile(model, backend="xloom")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=0.05, atol=0.02)
        layers[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x), rtol=0.05, atol=0.02)


def test_the_type_is_the_one_that_tiles_hold():
    assert DTYPES["bf16"].bytes * product_tiling.SIDE == amx_product.ROW_BYTES
