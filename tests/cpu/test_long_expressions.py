"""Expressions that are longer than one loop nest may be."""

import numpy as np

import xloom as xl
from xloom.codegen.fusion.producer_consumer import DEPTH_LIMIT, FusionGroup
from xloom.codegen.loop_ir.nest import cost_of
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target


def test_the_cut_is_not_at_a_reshape():
    steps = "\n".join(f"t{k + 1} = f32[12] tanh(t{k})" for k in range(DEPTH_LIMIT - 2))
    m = xl.parse(f"""ENTRY e {{ x = f32[12] parameter(0) t0 = f32[12] add(x, x) {steps}
      r = f32[4,3] reshape(t{DEPTH_LIMIT - 2}) ROOT n = f32[4,3] negate(r) }}""")
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


def test_a_series_of_many_terms_is_one_expression():
    """Its coefficients are no part of what is computed."""
    lines, a, b = [], "x", "x"
    for k in range(60):
        lines.append(
            f"c{k} = f32[] constant({k / 64}) w{k} = f32[1000] broadcast(c{k}), dimensions={{}} "
            f"p{k} = f32[1000] multiply(x, {a}) q{k} = f32[1000] subtract(p{k}, {b}) t{k} = f32[1000] add(q{k}, w{k})"
        )
        a, b = f"t{k}", a
        if k == 29:  # two halves, each of no great depth
            lines.append("h = f32[1000] negate(t29)")
            a, b = "x", "x"
    m = xl.parse(f"ENTRY e {{ x = f32[1000] parameter(0) {' '.join(lines)} ROOT r = f32[1000] add(h, {a}) }}")
    given = np.linspace(-1, 1, 1000, dtype=np.float32)
    executable = xl.compile(m)
    assert executable.memory.temporary_bytes == 0
    assert np.allclose(executable(given), xl.evaluate(m, given), rtol=1e-3, atol=1e-3)


def test_what_takes_many_instructions_is_in_shorter_expressions():
    """LLVM's time grows with the square of a function's length: of 240 sines it was seconds."""
    steps = " ".join(f"x{k + 1} = f32[12] sine(x{k})" for k in range(300))
    m = xl.parse(f"ENTRY e {{ x0 = f32[12] parameter(0) {steps} ROOT r = f32[12] negate(x300) }}")
    schedule, *_ = lowered(prepared(m), process_target())
    groups = [thunk for thunk in schedule.thunks if isinstance(thunk, FusionGroup)]
    costs = [sum(cost_of([s.node for s in stage.stores]) for stage in group.nest.stages) for group in groups]
    assert sum(costs) > 3000
    assert max(costs) < 640
    given = np.linspace(0.5, 1, 12, dtype=np.float32)
    assert np.allclose(xl.compile(m)(given), xl.evaluate(m, given), rtol=1e-4)


def test_sums_that_share_their_terms_are_cut_together():
    """A weighted mean of many exponentials: each is computed once, and two sums are stored where they are cut."""
    count = 40
    terms = [
        f"part{k} = f32[64,64] slice(x), slice={{[{k}:{k + 64}], [0:64]}} d{k} = f32[64,64] subtract(part{k}, x0) "
        f"m{k} = f32[64,64] multiply(d{k}, d{k}) n{k} = f32[64,64] negate(m{k}) w{k} = f32[64,64] exponential(n{k}) "
        f"p{k} = f32[64,64] multiply(w{k}, part{k})"
        for k in range(count)
    ]
    sums = [
        f"{name}{k} = f32[64,64] add({name}{k - 1 if k > 1 else '.0'}, {of}{k})"
        for name, of in (("above", "p"), ("below", "w"))
        for k in range(1, count)
    ]
    starts = "above.0 = f32[64,64] add(p0, p0) below.0 = f32[64,64] add(w0, w0)"
    m = xl.parse(
        f"""ENTRY e {{ x = f32[104,64] parameter(0) x0 = f32[64,64] slice(x), slice={{[0:64], [0:64]}}
        {" ".join(terms)} {starts} {" ".join(sums)}
        ROOT r = f32[64,64] divide(above{count - 1}, below{count - 1}) }}"""
    )
    schedule, *_ = lowered(prepared(m), process_target())
    groups = [thunk for thunk in schedule.thunks if isinstance(thunk, FusionGroup)]
    stored = [root.opcode for group in groups for root in group.roots]
    assert "exponential" not in stored
    computed = [i for group in groups for i in (*group.roots, *group.inlined) if i.opcode == "exponential"]
    assert len(computed) == count
    given = np.random.default_rng(0).normal(size=(104, 64)).astype(np.float32)
    assert np.allclose(xl.compile(m)(given), xl.evaluate(m, given), rtol=1e-4)


def test_what_is_cut_may_forward_a_parameter():
    """As many scalars put together as no expression may have: what a cut reshape forwards is in memory anyway."""
    count = 250
    scalars = [f"x{k} = f32[] parameter({k}) r{k} = f32[1] reshape(x{k})" for k in range(count)]
    m = xl.parse(
        f"ENTRY e {{ {' '.join(scalars)} "
        f"ROOT all = f32[{count}] concatenate({', '.join(f'r{k}' for k in range(count))}), dimensions={{0}} }}"
    )
    given = np.arange(count, dtype=np.float32)
    assert np.array_equal(xl.compile(m)(*given), given)
