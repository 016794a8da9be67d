"""Expressions that are longer than one loop nest may be."""

import numpy as np

import xloom as xl
from xloom.cpu.fusion import NODE_LIMIT


def test_the_cut_is_not_at_a_reshape():
    steps = "\n".join(f"t{k + 1} = f32[12] tanh(t{k})" for k in range(NODE_LIMIT - 2))
    m = xl.parse(f"""ENTRY e {{ x = f32[12] parameter(0) t0 = f32[12] add(x, x) {steps}
      r = f32[4,3] reshape(t{NODE_LIMIT - 2}) ROOT n = f32[4,3] negate(r) }}""")
    given = np.linspace(-1, 1, 12, dtype=np.float32)
    assert np.allclose(xl.compile(m)(given), xl.evaluate(m, given), rtol=1e-5)


def test_a_concatenation_of_many_parts():
    count = 600
    parts = "\n".join(
        f"part.{k} = f32[1] slice(x), slice={{[{k}:{k + 1}]}} n.{k} = f32[1] negate(part.{k})" for k in range(count)
    )
    names = ", ".join(f"n.{k}" for k in range(count))
    m = xl.parse(f"""ENTRY e {{ x = f32[{count}] parameter(0) {parts}
      ROOT all = f32[{count}] concatenate({names}), dimensions={{0}} }}""")
    given = np.arange(count, dtype=np.float32)
    assert np.array_equal(xl.compile(m)(given), -given)
