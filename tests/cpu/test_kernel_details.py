"""What a trace says of a kernel: its operators, its source, and what it moves at the least."""

import numpy as np

import xloom as xl
from xloom.trace import trace


def kernels(text, *arguments):
    with trace() as taken:
        xl.compile(xl.parse(text))(*arguments)
    return taken.spans("kernel")


def test_a_fusion_says_what_it_computes_and_for_which_line():
    text = """HloModule m
    ENTRY e {
      x = f32[64] parameter(0)
      c = f32[] constant(2)
      b = f32[64] broadcast(c), dimensions={}
      select_n.39 = f32[64] multiply(x, b), metadata={op_name="jit(f)/mul" source_file="model.py" source_line=7}
      ROOT r = f32[64] exponential(select_n.39), metadata={op_name="jit(f)/exp" source_file="model.py" source_line=8}
    }"""
    (kernel,) = kernels(text, np.ones(64, np.float32))
    assert kernel["name"] == "r: multiply, exponential"
    told = {"opcode": "fusion", "instructions": "r", "fused": "multiply, exponential"}
    told |= {"op_name": "jit(f)/exp", "source": "model.py:8", "bytes": 512, "flops": 128, "element_bytes": 4}
    assert kernel["args"] == told


def test_what_is_read_in_part_is_not_counted_whole():
    text = """HloModule m
    ENTRY e {
      x = f32[1000,64] parameter(0)
      i = s32[] parameter(1)
      z = s32[] constant(0)
      s = f32[1,64] dynamic-slice(x, i, z), dynamic_slice_sizes={1,64}
      ROOT n = f32[1,64] negate(s)
    }"""
    (kernel,) = kernels(text, np.ones((1000, 64), np.float32), np.int32(3))
    assert kernel["args"]["bytes"] == 2 * 64 * 4 + 4 and kernel["args"]["fused"] == "dynamic-slice, negate"


def test_an_update_in_place_is_as_large_as_the_update():
    text = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
    ENTRY e {
      x = f32[1000,64] parameter(0)
      u = f32[1,64] parameter(1)
      i = s32[] parameter(2)
      z = s32[] constant(0)
      ROOT d = f32[1000,64] dynamic-update-slice(x, u, i, z)
    }"""
    module, x = xl.parse(text), np.ones((1000, 64), np.float32)
    with trace() as taken:
        xl.compile(module)(x, np.zeros((1, 64), np.float32), np.int32(3), donated=[0])
    kernel = taken.spans("kernel")[-1]
    assert kernel["args"]["instructions"] == "d" and kernel["args"]["bytes"] == 2 * 64 * 4 + 4
