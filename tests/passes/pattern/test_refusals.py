"""Matches that cannot be cut out of the program, and what the report says of them."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from tests.passes.pattern.roundtrip import expanded, same
from xloom.cli.main import cli
from xloom.hlo.text.parser import parse
from xloom.hlo.verify.module import verify
from xloom.passes import add_pattern, outline_pattern, run_passes
from xloom.passes.pattern import PATTERNS, find_pattern, pattern_of, report_text

CHAIN = """ENTRY chain {
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] cosine(a)
  ROOT c = f32[4] tanh(b)
}"""


def refused(pattern: str, text: str) -> str:
    module = parse(text)
    before = str(module)
    done = outline_pattern(module, pattern_of(pattern, "p"), "Kernel")
    assert not done.found
    assert str(module) == before
    return done.missed[0].reason


def chain(last: str, more: str = "") -> str:
    return f"""ENTRY main {{
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] cosine(a){more}
  c = f32[4] tanh(b)
  {last}
}}"""


def test_a_value_inside_that_others_use() -> None:
    text = chain("ROOT r = (f32[4], f32[4]) tuple(c, b)")
    assert refused(CHAIN, text) == "b is inside the match, but r uses it too"
    assert refused(CHAIN, chain("d = f32[4] negate(c)").replace("b = ", "ROOT b = ")) == (
        "b is inside the match, but it is the computation's result too"
    )


def test_it_may_become_an_output() -> None:
    text = chain("ROOT r = (f32[4], f32[4]) tuple(c, b)")
    module = parse(text)
    add_pattern("test-chain", pattern_of(CHAIN, "chain"))
    try:
        run_passes(module, "outline{pattern=test-chain,target=K,escaping=true}", compare=True)
    finally:
        del PATTERNS["test-chain"]
    call = next(i for i in module.entry if i.opcode == "custom-call")
    assert len(call.shape.elements) == 2
    verify(module)
    assert same(expanded(module), parse(text))


def test_a_call_that_would_wait_for_itself() -> None:
    pattern = """ENTRY p {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] sine(x)
  b = f32[4] cosine(a)
  c = f32[4] add(b, y)
  ROOT r = (f32[4], f32[4]) tuple(b, c)
}"""
    text = """ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] cosine(a)
  between = f32[4] exponential(b)
  ROOT c = f32[4] add(b, between)
}"""
    assert refused(pattern, text) == "the operand between needs a result of the match: a call would wait for itself"


def test_two_matches_that_would_wait_for_each_other() -> None:
    pattern = """ENTRY p {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] sine(x)
  b = f32[4] sine(y)
  s = f32[4] cosine(a)
  t = f32[4] cosine(b)
  ROOT r = (f32[4], f32[4]) tuple(s, t)
}"""
    text = """ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  s = f32[4] cosine(a)
  y = f32[4] negate(x)
  b = f32[4] sine(y)
  t = f32[4] cosine(b)
  c = f32[4] sine(s)
  u = f32[4] cosine(c)
  d = f32[4] sine(t)
  v = f32[4] cosine(d)
  ROOT r = (f32[4], f32[4]) tuple(u, v)
}"""
    module = parse(text)
    outline_pattern(module, pattern_of(pattern, "p"), "Kernel")
    verify(module)
    assert same(expanded(module), parse(text))


def test_a_constant_may_be_inside_and_an_operand() -> None:
    pattern = """ENTRY p {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1), frontend_attributes={rank="broadcast"}
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  m = f32[4] multiply(x, twos)
  ROOT r = f32[4] subtract(m, y)
}"""
    text = """ENTRY main {
  x = f32[4] parameter(0)
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  m = f32[4] multiply(x, twos)
  ROOT r = f32[4] subtract(m, twos)
}"""
    module = parse(text)
    assert len(outline_pattern(module, pattern_of(pattern, "p"), "Kernel").found) == 1
    verify(module)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(xl.evaluate(expanded(module), x), 2 * x - 2)


def test_control_dependencies_and_effects() -> None:
    text = chain("ROOT r = f32[4] negate(c)", ", control-predecessors={w}").replace(
        "  a =", "  w = f32[4] abs(x)\n  a ="
    )
    assert refused(CHAIN, text) == "b has control dependencies"
    pattern = 'ENTRY p { x = f32[4] parameter(0) a = f32[4] custom-call(x), custom_call_target="T", custom_call_has_side_effect=true ROOT r = f32[4] sine(a) }'
    effect = pattern.replace("ENTRY p", "ENTRY main")
    assert refused(pattern, effect) == "a has an effect"


def test_a_constant_of_a_callee_that_text_cannot_hold() -> None:
    text = """f { a = f32[] parameter(0) z = f32[] constant(7) ROOT s = f32[] multiply(a, z) }
    ENTRY e { x = f32[4] parameter(0) ROOT m = f32[4] map(x), dimensions={0}, to_apply=f }"""
    module = parse(text)
    pattern = pattern_of(text, "p")
    assert outline_pattern(module.clone(""), pattern, "K").found
    constant = next(i for i in module.instructions if i.opcode == "constant")
    constant.attrs["literal"] = xl.literal(np.float32(-0.0))
    next(i for i in pattern.variants[0].module.instructions if i.opcode == "constant").attrs["literal"] = (
        constant.literal
    )
    done = outline_pattern(module, pattern, "K")
    assert not done.found and done.missed[0].reason == "m calls f, whose constant z text cannot hold"


@pytest.mark.parametrize("value", [complex(np.nan, 1), complex(1, np.nan), complex(np.nan, np.nan), complex(1, -0.0)])
def test_complex_constants_that_text_cannot_hold_become_operands(value: complex) -> None:
    text = """ENTRY e { x = c64[4] parameter(0) c = c64[] constant((5, 5))HOW
      b = c64[4] broadcast(c), dimensions={} ROOT s = c64[4] multiply(x, b) }"""
    pattern = pattern_of(text.replace("HOW", ', frontend_attributes={value="any"}'), "p")
    module = parse(text.replace("HOW", ""))
    constant = next(i for i in module.instructions if i.opcode == "constant")
    constant.attrs["literal"] = xl.literal(np.complex64(value))
    assert outline_pattern(module, pattern, "K").found
    run_passes(module, "expand")
    (back,) = (i for i in module.instructions if i.opcode == "constant")
    assert back.literal.value.tobytes() == np.complex64(value).tobytes()  # type: ignore[union-attr]


@pytest.fixture
def near_gelu(tmp_path: Path) -> Path:
    path = tmp_path / "model.hlo"
    gelu = Path(__file__).parents[2] / "golden" / "outline-gelu.hlo"
    text = gelu.read_text().partition("// ---- expect")[0]
    text = text.replace("constant(0.044715)", "constant(0.05)")
    path.write_text(text.replace("tanh(arg)", 'tanh(arg), metadata={source_file="model.py" source_line=7}'))
    return path


def test_the_report_names_the_reason_and_the_place(near_gelu: Path) -> None:
    done = outline_pattern(parse(near_gelu.read_text()), find_pattern("gelu"), "MyGelu")
    assert not done.found
    text = report_text("gelu", "MyGelu", done.found, done.missed)
    assert "c2 is 0.050048828125, not 0.044715" in text
    assert "%c2 = bf16[] constant(0.05005)" in text


def test_on_the_command_line(near_gelu: Path) -> None:
    ran = CliRunner().invoke(cli, ["opt", "-p", "outline{pattern=gelu,target=MyGelu,report=true}", str(near_gelu)])
    assert ran.exit_code == 0, ran.output
    assert "outline gelu -> MyGelu: 0 matches, 1 near miss" in ran.stderr
    near_gelu.write_text(near_gelu.read_text().replace("constant(0.05)", "constant(0.044715)"))
    ran = CliRunner().invoke(cli, ["opt", "-p", "outline{pattern=gelu,target=MyGelu}", "--compare", str(near_gelu)])
    assert ran.exit_code == 0, ran.output
    assert 'custom_call_target="MyGelu"' in ran.stdout
    assert not ran.stderr


@pytest.mark.parametrize(
    ("pattern", "text", "hint"),
    [
        (CHAIN, chain("ROOT r = (f32[4], f32[4]) tuple(c, b)"), "escaping=true makes it an output of the call"),
        (
            CHAIN,
            chain("ROOT r = f32[4] negate(c)").replace("cosine(a)", 'custom-call(a), custom_call_target="K", '
            'backend_config="ENTRY k { x = f32[4] parameter(0) ROOT y = f32[4] cosine(x) }"'),
            "run expand{target=K} first: the call carries HLO",
        ),
        (
            "ENTRY p { x = f32[4] parameter(0) c = f32[] constant(2) b = f32[4] broadcast(c), dimensions={} "
            "m = f32[4] multiply(x, b) ROOT s = f32[4] sine(m) }",
            "ENTRY e { x = f32[4] parameter(0) c = f32[] constant(3) b = f32[4] broadcast(c), dimensions={} "
            "m = f32[4] multiply(x, b) ROOT s = f32[4] sine(m) }",
            'frontend_attributes={value="any"} on the pattern\'s constant lets it be any, and binds it',
        ),
        (
            "ENTRY p { x = f32[4] parameter(0) c = pred[4] compare(x, x), direction=LT "
            "s = f32[4] sine(x) ROOT r = f32[4] select(c, s, x) }",
            "ENTRY p { x = f32[4] parameter(0) c = pred[4] compare(x, x), direction=NE "
            "s = f32[4] sine(x) ROOT r = f32[4] select(c, s, x) }",
            'frontend_attributes={NAME="any"} or NAME="this|that" in the pattern allows other attributes',
        ),
    ],
    ids=["escaping", "carried", "constant", "attribute"],
)  # fmt: skip
def test_a_miss_says_what_would_help(pattern: str, text: str, hint: str) -> None:
    done = outline_pattern(parse(text), pattern_of(pattern, "p"), "Kernel")
    assert [miss.hint for miss in done.missed] == [hint]
    assert f"    hint: {hint}" in report_text("p", "Kernel", [], done.missed)


def test_the_list_has_options_and_patterns() -> None:
    listed = CliRunner().invoke(cli, ["opt", "--list"]).output
    assert "\n  outline\n    Replaces each match of a pattern" in listed
    assert "      layouts=... (text)\n" in listed
    assert "      pattern=... (text, must be given)\n" in listed
    assert "\n  rms_norm\n    RMS norm along the last dimension" in listed
    assert "\n      epsilon\n" in listed
