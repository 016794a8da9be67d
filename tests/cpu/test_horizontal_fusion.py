"""Loop nests that do not depend on each other are called together, and others are not."""

import re

import numpy as np
import pytest

import xloom as xl
from tests.judges.programs import generate
from xloom.cpu.entry import function as entry_function
from xloom.cpu.entry.horizontal_fusion import HorizontalFusion
from xloom.cpu.loops import phases
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target
from xloom.trace import trace

N = 20_000
UPDATES = f"""HloModule updates
ENTRY e {{
  p0 = f32[{N}] parameter(0) g0 = f32[{N}] parameter(1) p1 = f32[{N // 2}] parameter(2) g1 = f32[{N // 2}] parameter(3)
  p2 = f32[64,300] parameter(4) g2 = f32[64,300] parameter(5)
  e0 = f32[{N}] exponential(g0) e1 = f32[{N // 2}] exponential(g1) e2 = f32[64,300] tanh(g2)
  n0 = f32[{N}] subtract(p0, e0) n1 = f32[{N // 2}] subtract(p1, e1) n2 = f32[64,300] subtract(p2, e2)
  ROOT t = (f32[{N}], f32[{N // 2}], f32[64,300]) tuple(n0, n1, n2)
}}"""


def _flat(value):
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple) else [value]


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")


def _calls(module):
    """The loops that the entry function has threads share."""
    return re.findall(
        r'call void @"xloom_parallel_for"\([^@]*@"([^"]+)"', lowered(prepared(module), process_target())[-1].main
    )


def test_updates_of_several_arrays_are_one_loop():
    module = xl.parse(UPDATES)
    assert _calls(module) == ["xloom.side_by_side"]
    arguments = [np.random.default_rng(0).standard_normal(p.shape.dims, np.float32) for p in module.entry.parameters]
    for got, expected in zip(xl.compile(module)(*arguments), xl.evaluate(module, *arguments), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


def test_what_is_needed_is_done_before():
    module = xl.parse(
        f"ENTRY e {{ x = f32[{N}] parameter(0) y = f32[{N}] exponential(x) z = f32[{N}] reverse(y), dimensions={{0}} "
        f"w = f32[{N}] tanh(z) ROOT t = (f32[{N}], f32[{N}]) tuple(y, w) }}"
    )
    assert "xloom.side_by_side" not in _calls(module)


def test_memory_is_not_shared_by_what_runs_together():
    """Two chains by turns: each array of one would lie where one of the other has ended."""
    steps, chains = [], ["x", "y"]
    for k in range(6):
        for c in range(2):
            steps.append(f"s{c}{k} = f32[{N}] exponential({chains[c]})")
            steps.append(f"r{c}{k} = f32[{N}] reverse(s{c}{k}), dimensions={{0}}")
            steps.append(f"q{c}{k} = f32[{N}] multiply(r{c}{k}, s{c}{k}) t{c}{k} = f32[{N}] tanh(q{c}{k})")
            chains[c] = f"t{c}{k}"
    module = xl.parse(
        f"ENTRY e {{ x = f32[{N}] parameter(0) y = f32[{N}] parameter(1) {' '.join(steps)} "
        f"ROOT t = (f32[{N}], f32[{N}]) tuple({', '.join(chains)}) }}"
    )
    x, y = (np.random.default_rng(k).standard_normal(N).astype(np.float32) for k in range(2))
    for got, expected in zip(xl.compile(module)(x, y), xl.evaluate(module, x, y), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_return_the_same(first, monkeypatch):
    monkeypatch.setattr(entry_function, "INLINE_COST", -1)  # so that small nests wait too, and are cut
    monkeypatch.setattr(phases, "TASK_COST", 1)
    programs = [generate(5, number) for number in range(first, first + 10)]
    together = [xl.compile(p.module)(*p.arguments) for p in programs]
    monkeypatch.setattr(HorizontalFusion, "admit", lambda self, *_: self.finish())
    for program, result in zip(programs, together, strict=True):
        apart = xl.compile(program.module)(*program.arguments)
        for got, expected in zip(_flat(result), _flat(apart), strict=True):
            assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


def test_a_trace_tells_each_of_them(tmp_path):
    module = xl.parse(UPDATES)
    with trace(None) as taken:
        xl.compile(module)(*(np.zeros(p.shape.dims, np.float32) for p in module.entry.parameters))
    names = {s["name"] for s in taken.spans() if s["cat"] == "kernel"}
    assert names == {"n0: exponential, subtract", "n1: exponential, subtract", "n2: tanh, subtract"}


def test_what_one_thread_does_overwrites_nothing_that_waiting_calls_read():
    """The loops of a vectorised rejection sampling: constants begin the inner one's state, in memory of keys."""
    jax = pytest.importorskip("jax")
    sample = jax.jit(lambda seed: jax.random.loggamma(jax.random.key(seed), 1.0, (256,)))
    seed = np.asarray(7, np.int32)
    module = xl.from_stablehlo(sample.trace(seed).lower(lowering_platforms=("xloom",)).as_text())
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_allclose(xl.compile(module)(seed), sample(seed), rtol=1e-4, atol=1e-4)
