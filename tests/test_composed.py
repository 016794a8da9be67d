"""The judge of composed programs: that it makes, prints, runs and compares programs, and finds what is wrong."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("jax")

from tests.judges.composed.program import Case, Program, Step
from tests.judges.composed.reduction import reduced
from tests.judges.composed.trial import near


def test_dead_steps_go():
    steps = (Step("jnp.sin({0})", (0,)), Step("jnp.cos({0})", (0,)), Step("{0} + {1}", (2, 0)))
    program = Program(1, steps, (3,)).without_dead_steps()
    assert program == Program(1, (steps[1], Step("{0} + {1}", (1, 0))), (2,))


def test_source_is_what_runs():
    body = Program(2, (Step("{0} * {1}", (0, 1)),), (2, 0))
    program = Program(1, (Step("{b0}({0}, {0})", (0,), 2, (body,)), Step("{0} + {1}", (1, 2))), (3,))
    assert "def program_1_0(v0, v1):" in program.source()
    (result,) = program.function()(np.arange(3.0))
    np.testing.assert_array_equal(result, [0, 2, 6])
    assert "v0 = jnp.array([0.0, 1.0, 2.0], jnp.float64)" in Case(program, (np.arange(3.0),)).source()


def test_reduction_keeps_what_fails():
    """Of a program with a sort in a loop, the sort is left, of an argument."""
    body = Program(2, (Step("jnp.sin({0})", (1,)), Step("jnp.sort({0})", (2,))), (3,))
    loop = "lax.fori_loop(0, 2, lambda i, s: {b0}(i, *s), ({0},))"
    steps = (Step("jnp.exp({0})", (0,)), Step(loop, (1,), 1, (body,)), Step("{0} + {1}", (2, 1)))
    case = Case(Program(1, steps, (3, 1)), (np.arange(3.0),), (0,))
    small = reduced(case, lambda smaller: "jnp.sort" in smaller.source())
    assert small.program.operators() == 2
    assert [s.template for s in small.program.steps[0].bodies[0].steps] == ["jnp.sort({0})"]
    assert small.donated == ()
    assert len(small.program.results) == 1


def test_near():
    x = np.array([1.0, np.nan, np.inf, 0.0, 1.0])
    assert near(x, np.array([1 + 1e-15, np.nan, np.inf, 1e-309, 1 + 1e-13])).tolist() == [True] * 4 + [False]
    assert near(np.array([1, 2]), np.array([1, 3])).tolist() == [True, False]


@pytest.mark.parametrize(("types", "first"), [("f64", 1), ("all", 4), ("embedded", 7)])
def test_a_few_programs(tmp_path, types, first):
    """No value is wrong, and most are compared within a hundredth."""
    out = tmp_path / f"{types}.jsonl"
    command = [sys.executable, "-m", "tests.judges.composed", "--count", "7", "--first", str(first)]
    command += ["--types", types, "--out", str(out), "--timeout", "1500"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(r["compared"] for r in records) > 0.9 * sum(r["elements"] for r in records)
