"""Expressions that are longer than one loop nest may be."""

import numpy as np

import xloom as xl
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.producer_consumer import DEPTH_LIMIT, producer_consumer_fusion
from xloom.codegen.loop_ir.nest import cost_of
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

TERMS = 40


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


def two_sums(between=""):
    """A weighted mean of many exponentials; `between` the terms of the sum of weights."""
    terms = [
        f"part{k} = f32[64,64] slice(x), slice={{[{k}:{k + 64}], [0:64]}} d{k} = f32[64,64] subtract(part{k}, x0) "
        f"m{k} = f32[64,64] multiply(d{k}, d{k}) n{k} = f32[64,64] negate(m{k}) w{k} = f32[64,64] exponential(n{k}) "
        f"p{k} = f32[64,64] multiply(w{k}, part{k})"
        for k in range(TERMS)
    ]
    above = [f"above{k} = f32[64,64] add({f'above{k - 1}' if k else 'p0'}, p{k})" for k in range(TERMS)]
    below = ["below0 = f32[64,64] add(w0, w0)"]
    for k in range(1, TERMS):
        below += [between.format(k=k, before=k - 1)] if between else []
        before = f"between{k}" if between else f"below{k - 1}"
        below.append(f"below{k} = f32[64,64] add({before}, w{k})")
    return xl.parse(
        f"""ENTRY e {{ x = f32[104,64] parameter(0) x0 = f32[64,64] slice(x), slice={{[0:64], [0:64]}}
        {" ".join([*terms, *above, *below])} ROOT r = f32[64,64] divide(above{TERMS - 1}, below{TERMS - 1}) }}"""
    )


def test_sums_that_share_their_terms_are_cut_together():
    """Each exponential is computed once, and two sums are stored where they are cut."""
    m = two_sums()
    schedule, *_ = lowered(prepared(m), process_target())
    groups = [thunk for thunk in schedule.thunks if isinstance(thunk, FusionGroup)]
    stored = [root.opcode for group in groups for root in group.roots]
    assert "exponential" not in stored
    computed = [i for group in groups for i in (*group.roots, *group.inlined) if i.opcode == "exponential"]
    assert len(computed) == TERMS
    given = np.random.default_rng(0).normal(size=(104, 64)).astype(np.float32)
    assert np.allclose(xl.compile(m)(given), xl.evaluate(m, given), rtol=1e-4)


def test_what_is_cut_together_is_no_reshape():
    """It is what that forwards."""
    flat = "line{k} = f32[4096] reshape(below{before}) not{k} = f32[4096] negate(line{k})"
    fusion = producer_consumer_fusion(two_sums(flat + " between{k} = f32[64,64] reshape(not{k})").entry)
    assert len(fusion.stored) > 2
    assert not [i for i in fusion.stored if i.opcode == "reshape"]


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
