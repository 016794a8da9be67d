"""Which arrays have no -0.0, through loops."""

from xloom.hlo.text.parser import parse
from xloom.passes.negative_zeros import NegativeZeros

STATE = "(f32[4], f32[4], f32[4])"


def _loop(first: str, second: str) -> str:
    return f"""
HloModule loop
body {{
  s = {STATE} parameter(0)
  a = f32[4] get-tuple-element(s), index=0
  b = f32[4] get-tuple-element(s), index=1
  c = f32[4] get-tuple-element(s), index=2
  first = f32[4] {first}
  second = f32[4] {second}
  ROOT out = {STATE} tuple(first, second, c)
}}
more {{
  s = {STATE} parameter(0)
  ROOT p = pred[] constant(false)
}}
ENTRY main {{
  zero = f32[] constant(0)
  zeros = f32[4] broadcast(zero), dimensions={{}}
  x = f32[4] parameter(0)
  init = {STATE} tuple(zeros, zeros, x)
  ROOT loop = {STATE} while(init), condition=more, body=body
}}"""


def _excluded(first: str, second: str) -> list[bool]:
    module = parse(_loop(first, second))
    known = NegativeZeros(module)
    body = next(c for c in module.computations if c.name == "body")
    return [known.is_excluded(element) for element in body.root.operands]


def test_states_that_nothing_makes_negative_zeros_of() -> None:
    assert _excluded("add(a, c)", "maximum(b, b)") == [True, False, False]
    assert _excluded("reverse(b), dimensions={0}", "reverse(a), dimensions={0}") == [True, True, False]
    assert _excluded("add(b, a)", "copy(c)") == [True, False, False]


def test_what_was_refuted_is_no_assumption() -> None:
    assert _excluded("add(b, b)", "copy(c)") == [False, False, False]
