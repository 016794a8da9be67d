"""Programs of many small loop nests: equal ones are compiled once, and the entry function only calls them."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import process_target

LAYER = """
  d{k} = f32[4,8] dot(x{k}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h{k} = f32[4,8] tanh(d{k})
  r{k} = f32[4] reduce(h{k}, zero), dimensions={{1}}, to_apply=sum
  b{k} = f32[4,8] broadcast(r{k}), dimensions={{0}}
  c{k} = f32[] constant({scale})
  m{k} = f32[4,8] broadcast(c{k}), dimensions={{}}
  q{k} = f32[4,8] multiply(h{k}, m{k})
  x{next} = f32[4,8] subtract(q{k}, b{k})"""


def chain(layers: int, scale=lambda k: 0.5) -> str:
    body = "".join(LAYER.format(k=f".{k}", next=f".{k + 1}", scale=scale(k)) for k in range(layers))
    return f"""HloModule chain
sum {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }}
ENTRY main {{
  x.0 = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  zero = f32[] constant(0){body}
  ROOT y = f32[4,8] negate(x.{layers})
}}"""


def arguments() -> list[np.ndarray]:
    g = np.random.default_rng(0)
    return [g.standard_normal((4, 8)).astype(np.float32), g.standard_normal((8, 8)).astype(np.float32)]


@pytest.mark.parametrize("scale", [lambda k: 0.5, lambda k: 1 + k / 8], ids=["equal", "different"])
def test_value(scale):
    module = xl.parse(chain(30, scale))
    expected = xl.evaluate(module, *arguments())
    np.testing.assert_allclose(xl.compile(module)(*arguments()), expected, rtol=1e-4, atol=1e-4)


def test_equal_layers_are_compiled_once():
    few = lowered(prepared(xl.parse(chain(20))), process_target())[2]
    many = lowered(prepared(xl.parse(chain(80))), process_target())[2]
    assert many.main_pipeline is few.main_pipeline is PassPipeline.CALLS
    assert sum(len(u.text) for u in many.modules.values()) < 1.2 * sum(len(u.text) for u in few.modules.values())


def test_layers_with_other_constants_are_other_code():
    same, other = (
        lowered(prepared(xl.parse(chain(20, s))), process_target())[2] for s in (lambda k: 0.5, lambda k: 1 + k / 8)
    )
    count = [sum(u.text.count("define void") for u in p.modules.values()) for p in (same, other)]
    assert count[1] >= count[0] + 15


def test_short_programs_are_one_function():
    program = lowered(prepared(xl.parse(chain(2))), process_target())[2]
    assert not any(name.startswith("batch") for name in program.modules)


def test_memory_is_planned_in_linear_time():
    """An allocation that thousands of arrays have after one another is not searched for those that are gone."""
    module = xl.parse(chain(60))
    _, assignment, _ = lowered(prepared(module), process_target())
    assert max(len(assignment.allocations.live_values(a)) for a in set(assignment.allocations.values())) < 5
