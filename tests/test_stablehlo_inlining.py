"""Calls are part of their callers where jaxlib cannot propagate shardings over them."""

import numpy as np
import pytest

import xloom as xl

pytest.importorskip("jax")

from xloom.stablehlo import inlining

NESTED = """module {
  sdy.mesh @mesh = <["x"=1]>
  func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<4xf32>, tensor<i32>) {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%k = %zero, %y = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %more = func.call @less(%k, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next:2 = func.call @both(%k, %y) : (tensor<i32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>)
      stablehlo.return %next#1, %next#0 : tensor<i32>, tensor<4xf32>
    }
    return %r#1, %r#0 : tensor<4xf32>, tensor<i32>
  }
  func.func private @both(%k: tensor<i32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %is_less = func.call @less(%k, %one) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %z = "stablehlo.if"(%is_less) ({
      %s = stablehlo.add %y, %y : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      %s = stablehlo.multiply %y, %y : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %next = stablehlo.add %k, %one : tensor<i32>
    return %z, %next : tensor<4xf32>, tensor<i32>
  }
  func.func private @less(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i1> {
    %r = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    return %r : tensor<i1>
  }
}"""


def test_nested_calls_in_regions(monkeypatch):
    monkeypatch.setattr(inlining, "_NEED_IT", "0.")
    module = xl.from_stablehlo(NESTED)
    assert all(i.opcode != "call" for i in module.instructions)
    y, count = xl.evaluate(module, np.array([0, 1, 2, -1], np.float32))
    assert y.tolist() == [0, 16, 256, 16]
    assert count == 3
