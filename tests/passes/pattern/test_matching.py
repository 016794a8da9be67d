"""What matches what: constants, attributes, views, dimensions, types, several outputs, sources."""

import numpy as np
import pytest

import xloom as xl
from tests.passes.pattern.roundtrip import expanded, same
from xloom.errors import PassError
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.hlo.verify.module import verify
from xloom.passes import Outlined, add_pattern, outline_pattern, pattern_from_jax, run_passes
from xloom.passes.pattern import PATTERNS, Pattern, pattern_of


def outlined(pattern: str | Pattern, body: str, more: str = "", **options) -> tuple[Module, Outlined]:
    found = pattern if isinstance(pattern, Pattern) else pattern_of(pattern, "p")
    before = parse(f"HloModule m\n{more}\nENTRY main {{\n{body}\n}}")
    module = before.clone("")
    done = outline_pattern(module, found, "Kernel", **options)
    verify(module)
    assert same(expanded(module), before)
    return module, done


def matches(pattern: str | Pattern, body: str, more: str = "", **options) -> int:
    return len(outlined(pattern, body, more, **options)[1].found)


AXPY = """ENTRY axpy {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[] constant(2)HOW
  as = f32[4] broadcast(a), dimensions={}
  ax = f32[4] multiply(as, x)
  ROOT r = f32[4] add(ax, y)
}"""


def axpy(dtype: str = "f32", value: str = "2", shape: str = "[4]", order: str = "x, as", last: str = "y, ax") -> str:
    return f"""  x = {dtype}{shape} parameter(0)
  y = {dtype}{shape} parameter(1)
  a = {dtype}[] constant({value})
  as = {dtype}{shape} broadcast(a), dimensions={{}}
  ax = {dtype}{shape} multiply({order})
  ROOT r = {dtype}{shape} add({last})"""


@pytest.mark.parametrize("order", ["x, as", "as, x"])
@pytest.mark.parametrize("last", ["y, ax", "ax, y"])
def test_operands_of_commutative_operators_in_any_order(order: str, last: str) -> None:
    module, done = outlined(AXPY.replace("HOW", ""), axpy(order=order, last=last))
    assert len(done.found) == 1
    assert [o.name for o in module.entry.root.operands] == ["x", "y"]


def test_operands_of_others_only_in_theirs() -> None:
    pattern = (
        "ENTRY p { x = f32[4] parameter(0) y = f32[4] parameter(1) e = f32[4] sine(x) ROOT r = f32[4] subtract(e, y) }"
    )
    body = "x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n e = f32[4] sine(x)\n ROOT r = f32[4] subtract({})"
    assert matches(pattern, body.format("e, y")) == 1
    assert matches(pattern, body.format("y, e")) == 0


CHOICE = """ENTRY p {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = s32[4] parameter(2)
  b = s32[4] parameter(3)
  c = pred[4] compare(a, b), direction=GE
  d = pred[4] compare(a, a), direction=NE
  both = pred[4] and(c, d)
  ROOT r = f32[4] select(both, x, y)
}"""


@pytest.mark.parametrize(
    ("conditions", "branches", "found"),
    [
        ("c = pred[4] compare(a, b), direction=GE d = pred[4] compare(a, a), direction=NE m = pred[4] and(d, c)", "m, x, y", 1),
        ("c = pred[4] compare(a, b), direction=LT d = pred[4] compare(a, a), direction=EQ m = pred[4] or(c, d)", "m, y, x", 1),
        ("c = pred[4] compare(b, a), direction=GT d = pred[4] compare(a, a), direction=EQ m = pred[4] or(d, c)", "n, x, y", 1),
        ("c = pred[4] compare(a, b), direction=LT d = pred[4] compare(a, a), direction=EQ m = pred[4] and(c, d)", "m, y, x", 0),
        ("c = pred[4] compare(a, b), direction=LE d = pred[4] compare(a, a), direction=EQ m = pred[4] or(c, d)", "m, y, x", 0),
    ],
)  # fmt: skip
def test_negated_conditions_choose_the_other_branch(conditions: str, branches: str, found: int) -> None:
    program = CHOICE[CHOICE.index("x =") : CHOICE.index("c =")] + conditions.replace(") d", ")\n d")
    negation = "n = pred[4] not(m)\n" if branches.startswith("n") else ""
    assert matches(CHOICE, f"{program}\n{negation}ROOT r = f32[4] select({branches})") == found


def test_comparisons_of_floats_are_not_negated_for_there_are_nans() -> None:
    less = "ENTRY p { x = f32[4] parameter(0) y = f32[4] parameter(1) c = pred[4] compare(x, y), direction=LT ROOT r = f32[4] select(c, x, y) }"
    body = "x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n c = pred[4] compare(x, y), direction={}\n ROOT r = f32[4] select(c, y, x)"
    assert matches(less, body.format("GE")) == 0
    assert matches(less.replace("LT", "EQ"), body.format("NE")) == 1


def test_division_by_a_constant_is_the_product_with_its_reciprocal() -> None:
    half, quarter = ("ENTRY p {{ x = f32[4] parameter(0) c = f32[] constant({}) cs = f32[4] broadcast(c), dimensions={{}} d = f32[4] {} ROOT r = f32[4] negate(d) }}".format(*each) for each in (("4", "divide(x, cs)"), ("0.25", "multiply(cs, x)")))  # fmt: skip
    body = "x = f32[4] parameter(0)\n c = f32[] constant({})\n cs = f32[4] broadcast(c), dimensions={{}}\n d = f32[4] {}\n ROOT r = f32[4] negate(d)"
    for pattern in (half, quarter):
        assert matches(pattern, body.format(4, "divide(x, cs)")) == 1
        assert matches(pattern, body.format(0.25, "multiply(x, cs)")) == 1
        assert matches(pattern, body.format(4, "multiply(x, cs)")) == 0
        assert matches(pattern, body.format(4, "divide(cs, x)")) == 0


def test_constants_by_value_or_any() -> None:
    by_value, anything = AXPY.replace("HOW", ""), AXPY.replace("HOW", ', frontend_attributes={value="any"}')
    assert matches(by_value, axpy(value="2")) == 1
    _, done = outlined(by_value, axpy(value="2.5"))
    assert not done.found
    assert "a is 2.5, not 2.0" in done.missed[0].reason
    assert matches(anything, axpy(value="2.5")) == 1
    assert matches(anything, axpy(value="-0")) == 1


def test_a_zero_keeps_its_sign_and_becomes_an_operand() -> None:
    module = parse("ENTRY e {" + axpy(value="7") + "}")
    next(i for i in module.instructions if i.opcode == "constant").attrs["literal"] = xl.literal(np.float32(-0.0))
    pattern = pattern_of(AXPY.replace("HOW", ', frontend_attributes={value="any"}'), "p")
    assert outline_pattern(module, pattern, "K").found
    call = module.entry.root
    assert [o.opcode for o in call.operands] == ["parameter", "parameter", "constant"]
    run_passes(module, "expand")
    assert np.signbit(next(i for i in module.instructions if i.opcode == "constant").literal.value)


@pytest.mark.parametrize(
    ("dtype", "value", "count"),
    [
        ("f64", "0.1", 1),
        ("f32", "0.1", 1),
        ("bf16", "0.1", 1),
        ("f16", "0.1", 1),
        ("f32", "0.1001", 0),
        ("s32", "0", 0),
        ("bf16", "0.11", 0),
    ],
)
def test_constants_are_rounded_to_the_programs_type(dtype: str, value: str, count: int) -> None:
    assert matches(AXPY.replace("HOW", "").replace("constant(2)", "constant(0.1)"), axpy(dtype, value)) == count


def test_attributes_must_agree_unless_the_pattern_says_which_may() -> None:
    pattern = """ENTRY p {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  c = pred[4] compare(x, y), direction=GTHOW
  ROOT r = f32[4] select(c, x, y)
}"""
    body = """x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  c = pred[4] compare(x, y), direction={}
  ROOT r = f32[4] select(c, x, y)"""
    plain = pattern.replace("HOW", "")
    assert matches(plain, body.format("GT")) == 1
    _, done = outlined(plain, body.format("GE"))
    assert done.missed[0].reason == "c has direction=GE, not GT"
    assert done.missed[0].program.name == "c"
    either = pattern.replace("HOW", ', frontend_attributes={direction="GT|GE"}')
    assert [matches(either, body.format(d)) for d in ("GT", "GE", "LT")] == [1, 1, 0]
    anything = pattern.replace("HOW", ', frontend_attributes={direction="any"}')
    assert matches(anything, body.format("NE")) == 1


SUM = "plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
ROWS = (
    SUM
    + """ENTRY rows {
  x = f32[4,8] parameter(0)
  z = f32[] constant(0)
  s = f32[4] reduce(x, z), dimensions={1}, to_apply=plus
  n = f32[] constant(8), frontend_attributes={value="count(s)"}
  ns = f32[4] broadcast(n), dimensions={}
  ROOT mean = f32[4] divide(s, ns)
}"""
)


def mean(shape: str, reduced: str, kept: str, n: int, apply: str = "plus") -> str:
    return f"""  x = f32{shape} parameter(0)
  z = f32[] constant(0)
  s = f32{kept} reduce(x, z), dimensions={reduced}, to_apply={apply}
  n = f32[] constant({n})
  ns = f32{kept} broadcast(n), dimensions={{}}
  ROOT mean = f32{kept} divide(s, ns)"""


def test_dimensions_stand_for_batches_and_for_none() -> None:
    assert matches(ROWS, mean("[3,5]", "{1}", "[3]", 5), SUM) == 1
    assert matches(ROWS, mean("[2,3,5]", "{2}", "[2,3]", 5), SUM) == 1
    assert matches(ROWS, mean("[2,3,5]", "{1,2}", "[2]", 15), SUM) == 1
    assert matches(ROWS, mean("[5]", "{0}", "[]", 5), SUM) == 1
    assert matches(ROWS, mean("[1,3,1,5]", "{3}", "[1,3,1]", 5), SUM) == 1


def test_dimensions_keep_their_order_and_counts_are_checked() -> None:
    _, done = outlined(ROWS, mean("[3,5]", "{0}", "[5]", 3), SUM)
    assert not done.found
    _, done = outlined(ROWS, mean("[3,5]", "{1}", "[3]", 4), SUM)
    assert done.missed[0].reason == "n is 4.0, not count(s) = 5"
    largest = SUM.replace("add", "maximum")
    _, done = outlined(ROWS, mean("[3,5]", "{1}", "[3]", 5), largest)
    assert "plus, which s applies, does something else than plus of the pattern" in done.missed[0].reason


def test_exact_shapes() -> None:
    exact = 'HloModule p, frontend_attributes={shapes="exact"}\n' + AXPY.replace("HOW", "")
    assert matches(exact, axpy()) == 1
    assert matches(exact, axpy(shape="[5]")) == 0
    assert matches(exact, axpy("f64")) == 0


def test_views_between_operators_do_not_matter() -> None:
    pattern = """ENTRY p {
  x = f32[4,8] parameter(0)
  v = f32[8] parameter(1)
  vs = f32[4,8] broadcast(v), dimensions={1}
  s = f32[4,8] add(x, vs)
  ROOT r = f32[4,8] tanh(s)
}"""
    direct = """x = f32[2,3,5] parameter(0)
  v = f32[5] parameter(1)
  vs = f32[2,3,5] broadcast(v), dimensions={2}
  s = f32[2,3,5] add(x, vs)
  ROOT r = f32[2,3,5] tanh(s)"""
    around = """x = f32[2,3,5] parameter(0)
  v = f32[5] parameter(1)
  v1 = f32[1,5] reshape(v)
  v2 = f32[5] reshape(v1)
  vs = f32[5,6] broadcast(v2), dimensions={0}
  flat = f32[6,5] reshape(x)
  turned = f32[5,6] transpose(flat), dimensions={1,0}
  s = f32[5,6] add(turned, vs)
  back = f32[6,5] transpose(s), dimensions={1,0}
  ROOT r = f32[6,5] tanh(back)"""
    assert matches(pattern, direct) == 1
    module, done = outlined(pattern, around)
    assert len(done.found) == 1
    assert [o.name for o in module.entry.root.operands] == ["x", "v"]


def test_an_operand_in_another_order_is_another_operand() -> None:
    pattern = "ENTRY p { x = f32[4,8] parameter(0) e = f32[4,8] sine(x) ROOT r = f32[4,8] add(x, e) }"
    body = """x = f32[4,4] parameter(0)
  t = f32[4,4] transpose(x), dimensions={1,0}
  e = f32[4,4] sine(t)
  ROOT r = f32[4,4] add(x, e)"""
    _, done = outlined(pattern, body)
    assert not done.found
    assert matches(pattern, body.replace("sine(t)", "sine(x)")) == 1


MIXED = """ENTRY mixed {
  x = f32[4,6] parameter(0)
  v = f32[6,3] parameter(1)
  e = f32[4,6] exponential(x)
  ROOT r = f32[4,3] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


@pytest.mark.parametrize("layout", ["", "{0,1}"])
def test_a_product_of_exchanged_operands_is_turned_for_the_call_and_back(layout: str) -> None:
    module, done = outlined(
        MIXED,
        f"""  x = f32[4,6] parameter(0)
  v = f32[6,3] parameter(1)
  e = f32[4,6] exponential(x)
  d = f32[3,4]{layout} dot(v, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
  ROOT r = f32[3,4]{layout} negate(d)""",
    )
    assert len(done.found) == 1
    (call,) = (i for i in module.entry if i.opcode == "custom-call")
    assert call.shape.dims == (4, 3)
    assert [o.name for o in call.operands] == ["x", "v"]


def test_what_is_not_found_in_another_order_stays_as_it_is() -> None:
    body = """  x = f32[4,6] parameter(0)
  v = f32[6,3] parameter(1)
  e = f32[4,6] exponential(x)
  d = f32[3,4] dot(v, e), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT r = (f32[3,4], f32[4,6]) tuple(d, e)"""
    module, done = outlined(MIXED, body)
    assert not done.found
    assert str(module) == str(parse(f"HloModule m\nENTRY main {{\n{body}\n}}"))


JOINED = """ENTRY joined {
  x = f32[5,3,8] parameter(0)
  y = f32[5,3,8] parameter(1)
  e = f32[5,3,8] exponential(x)
  ROOT r = f32[5,3] dot(e, y), lhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
}"""


def test_dimensions_that_a_reshape_joins_are_not_taken_apart_anyhow() -> None:
    pattern = JOINED.replace("ENTRY", 'HloModule joined, frontend_attributes={bind.heads="size(x, 1)"}\nENTRY')
    module, done = outlined(
        pattern,
        """  x = f32[5,24] parameter(0)
  y = f32[5,24] parameter(1)
  heads = f32[5,3,8] reshape(x)
  e = f32[5,3,8] exponential(heads)
  again = f32[5,3,8] reshape(y)
  ROOT r = f32[5,3] dot(e, again), lhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}""",
    )
    assert done.found[0].description.heads == 3
    assert [o.name for o in module.entry.root.operands] == ["heads", "again"]


def test_equal_views_of_a_value_are_one_operand() -> None:
    pattern = """ENTRY p {
  x = f32[5,3,8] parameter(0)
  e = f32[5,3,8] exponential(x)
  ROOT r = f32[5,3] dot(e, x), lhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
}"""
    program = """  x = f32[5,24] parameter(0)
  one = f32[5,3,8] reshape(x)
  e = f32[5,3,8] exponential(one)
  two = f32[5,3,8] reshape(x)
  ROOT r = f32[5,3] dot(e, two), lhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}"""
    module, done = outlined(pattern, program)
    assert len(done.found) == 1
    assert len(module.entry.root.operands) == 1
    assert not matches(
        pattern,
        program.replace("two = f32[5,3,8] reshape(x)", "n = f32[5,24] negate(x)\n  two = f32[5,3,8] reshape(n)"),
    )


def test_several_outputs_whose_parts_have_no_common_user() -> None:
    pattern = """ENTRY p {
  x = f32[4] parameter(0)
  e = f32[4] exponential(x)
  a = f32[4] sine(e)
  b = f32[4] cosine(e)
  ROOT r = (f32[4], f32[4]) tuple(a, b)
}"""
    body = """x = f32[4] parameter(0)
  e = f32[4] exponential(x)
  b = f32[4] cosine(e)
  a = f32[4] sine(e)
  s = f32[4] negate(a)
  ROOT r = (f32[4], f32[4]) tuple(b, s)"""
    module, done = outlined(pattern, body)
    assert len(done.found) == 1
    assert sorted(i.opcode for i in module.entry) == [
        "custom-call",
        "get-tuple-element",
        "get-tuple-element",
        "negate",
        "parameter",
        "tuple",
    ]


def test_matches_do_not_overlap() -> None:
    pattern = "ENTRY p { x = f32[4] parameter(0) a = f32[4] sine(x) ROOT b = f32[4] sine(a) }"
    body = "x0 = f32[4] parameter(0)\n" + "\n".join(f"x{k + 1} = f32[4] sine(x{k})" for k in range(5))
    module, done = outlined(pattern, body)
    assert len(done.found) == 2
    assert [i.opcode for i in module.entry].count("sine") == 1


def test_in_the_body_of_a_loop_but_not_in_a_fusion() -> None:
    body = """
cond { x = f32[4] parameter(0) ROOT r = pred[] constant(false) }
body { x = f32[4] parameter(0) a = f32[4] sine(x) ROOT r = f32[4] cosine(a) }
fused { x = f32[4] parameter(0) a = f32[4] sine(x) ROOT r = f32[4] cosine(a) }
"""
    pattern = "ENTRY p { x = f32[4] parameter(0) a = f32[4] sine(x) ROOT r = f32[4] cosine(a) }"
    entry = "x = f32[4] parameter(0)\n{}"
    assert matches(pattern, entry.format("ROOT w = f32[4] while(x), condition=cond, body=body"), body) == 1
    assert matches(pattern, entry.format("ROOT w = f32[4] fusion(x), kind=kLoop, calls=fused"), body) == 0


def test_a_pattern_from_the_builder_by_name() -> None:
    b = xl.Builder("twice")
    x = b.parameter(xl.f32[4])
    b.multiply(b.add(x, x), x)
    add_pattern("test-twice", b.build())
    try:
        module = parse("ENTRY e { y = f32[2,3] parameter(0) s = f32[2,3] add(y, y) ROOT r = f32[2,3] multiply(y, s) }")
        run_passes(module, "outline{pattern=test-twice,target=Twice}")
        assert module.entry.root["custom_call_target"] == "Twice"
    finally:
        del PATTERNS["test-twice"]


def test_a_pattern_from_a_jax_function() -> None:
    jax = pytest.importorskip("jax")
    jnp = pytest.importorskip("jax.numpy")

    def squash(x, limit):
        return x / (limit + jnp.abs(x))

    pattern = pattern_from_jax(squash, np.zeros((3,), np.float32), np.float32(0))
    text = jax.jit(lambda x: jnp.sin(squash(x, 7))).lower(np.zeros((4, 5), np.float32)).as_text(dialect="hlo")
    module = parse(text)
    assert len(outline_pattern(module, pattern, "Squash").found) == 1
    assert [o.opcode for o in module.entry.root.operands[0].operands] == ["parameter", "constant"]


def test_errors_say_what_to_do() -> None:
    with pytest.raises(PassError, match="there is no pattern 'sofmax'") as caught:
        run_passes(parse("ENTRY e { ROOT x = f32[] parameter(0) }"), "outline{pattern=sofmax,target=S}")
    assert "'softmax'" in caught.value.hint
    with pytest.raises(PassError, match="computes nothing for its result"):
        pattern_of("ENTRY e { x = f32[2] parameter(0) ROOT r = f32[1,2] reshape(x) }", "p")
    with pytest.raises(PassError, match="the constraint value='anything' means nothing"):
        matches(AXPY.replace("HOW", ', frontend_attributes={value="anything"}'), axpy())
    with pytest.raises(PassError, match="has no reduction 'r' to count"):
        matches(AXPY.replace("HOW", ', frontend_attributes={value="count(r)"}'), axpy())
