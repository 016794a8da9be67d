"""Entries whose layout is not row-major: the same program on arrays that are byte for byte those of the layout."""

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.passes import run_passes
from xloom.passes.row_major_entry import has_permuted_entry

PROGRAMS = {
    "both": """HloModule both, entry_computation_layout={(f32[2,3]{0,1}, f32[3]{0})->f32[3,2]{0,1}}
      ENTRY e { x = f32[2,3] parameter(0)  b = f32[3] parameter(1)
        r = f32[2,3] broadcast(b), dimensions={1}
        s = f32[2,3] add(x, r)
        ROOT t = f32[3,2] transpose(s), dimensions={1,0} }""",
    "given_back": """HloModule given_back, entry_computation_layout={(f32[2,3,4]{1,2,0})->f32[2,3,4]{0,2,1}}
      ENTRY e { ROOT x = f32[2,3,4] parameter(0) }""",
    "several": """HloModule several, entry_computation_layout={(f32[2,3]{0,1})->(f32[2,3]{0,1}, f32[], f32[2,3]{1,0})}
      ENTRY e { x = f32[2,3] parameter(0)  c = f32[] constant(3)  n = f32[2,3] negate(x)
        ROOT t = (f32[2,3], f32[], f32[2,3]) tuple(x, c, n) }""",
    "from_a_call": """HloModule from_a_call, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{0,1}, f32[2,3]{1,0})}
      f { x = f32[2,3] parameter(0)  n = f32[2,3] negate(x)  ROOT t = (f32[2,3], f32[2,3]) tuple(x, n) }
      ENTRY e { x = f32[2,3] parameter(0)  ROOT r = (f32[2,3], f32[2,3]) call(x), to_apply=f }""",
    "places_in_memory": """HloModule places, entry_computation_layout={(f32[2,3]{0,1})->f32[6]{0}}
      ENTRY e { x = f32[2,3]{0,1} parameter(0)  ROOT b = f32[6]{0} bitcast(x) }""",
}


def lying(value, shape):
    return np.ascontiguousarray(value.transpose(shape.major_to_minor))


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_same_bytes(text):
    before, after = parse(text), parse(text)
    run_passes(after, "row-major-entry")
    assert not has_permuted_entry(after)
    arguments = [
        np.random.default_rng(k).normal(size=s.dims).astype(np.float32) for k, s in enumerate(before.parameter_shapes)
    ]
    wanted = evaluate(before, *arguments)
    found = evaluate(after, *[lying(x, s) for x, s in zip(arguments, before.parameter_shapes, strict=True)])
    result = before.result_shape
    if not result.is_tuple:
        wanted, found, result = [wanted], [found], before.result_shape
    for x, y, shape in zip(wanted, found, result.elements if before.result_shape.is_tuple else [result], strict=True):
        np.testing.assert_array_equal(lying(x, shape), y)


def test_row_major_stays():
    module = parse("HloModule m  ENTRY e { ROOT x = f32[2,3]{1,0} parameter(0) }")
    assert not run_passes(module, "row-major-entry")[0].changed
