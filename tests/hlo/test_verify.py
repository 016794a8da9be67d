import pytest

import xloom as xl
from xloom.hlo.instruction import Instruction
from xloom.hlo.verify.module import problems

REDUCE = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }"""


def broken(change) -> list[str]:
    module = xl.parse(REDUCE)
    change(module)
    return [str(p) for p in problems(module)]


def test_accepts_a_valid_module():
    assert broken(lambda m: None) == []


def wrong_shape(m):
    m.entry.root.shape = xl.f32[2]


def wrong_operand(m):
    m.entry.root._operands[0] = m.computation("add").root


def lost_user(m):
    m.entry.parameters[0]._users.clear()


def cycle(m):
    root = m.entry.root
    new = m.entry.add(Instruction("n", "negate", xl.f32[4], [m.entry.parameters[0]]))
    new.set_operands([new])
    root.replace_operand(0, new)


def same_name(m):
    m.entry.root.name = "z"


def gap_in_parameters(m):
    m.entry.parameters[0].attrs["parameter_number"] = 3


def missing_attribute(m):
    del m.entry.root.attrs["dimensions"]


def recursion(m):
    m.entry.root.attrs["to_apply"] = m.entry


@pytest.mark.parametrize(
    "change, message",
    [
        (wrong_shape, "its shape is f32[2]"),
        (wrong_operand, "is not in the computation"),
        (lost_user, "among the users of x"),
        (cycle, "in a cycle"),
        (same_name, "used twice"),
        (gap_in_parameters, "numbered [3]"),
        (missing_attribute, "dimensions is missing"),
        (recursion, "call each other in a cycle"),
    ],
)
def test_finds(change, message):
    assert any(message in p for p in broken(change)), broken(change)


def test_errors_name_the_source_line():
    module = xl.parse(
        'ENTRY e { x = f32[4] parameter(0) ROOT r = f32[5] negate(x), metadata={source_file="a.py" source_line=7} }'
    )
    with pytest.raises(xl.VerifyError, match=r"%r, a.py:7"):
        xl.verify(module)


@pytest.mark.parametrize(
    "body, message",
    [
        ("x = f32[] parameter(0) ROOT r = f32[2] rng(x, x), distribution=rng_normal", None),
        ("x = f32[2] parameter(0) ROOT r = f32[2] rng(x, x), distribution=rng_normal", "must be scalars"),
        ("x = s32[2] parameter(0) ROOT r = pred[2] compare(x, x), direction=LT, type=FLOAT", "type=FLOAT for s32"),
        ("ROOT r = pred[2] iota(), iota_dimension=0", "pred does not count"),
        ("x = f32[2] parameter(0) ROOT s = (f32[2], f32[2], u32[]) copy-start(x)", "found 0"),
        ("ROOT x = f32[2] parameter(0), sharding={devices=[2,1]<=[2]}", "a sharding of 2 dimensions"),
        (
            "x = f32[4] parameter(0) ROOT r = f32[3] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, "
            "to_apply=add",
            "in 2 parts",
        ),
        (
            "x = f32[3] parameter(0) ROOT r = f32[3] all-to-all(x), replica_groups={{0,1}}, dimensions={0}",
            "not 2 equal parts",
        ),
        (
            "x = f32[3] parameter(0) ROOT r = (f32[3], f32[3], f32[3]) all-to-all(x, x, x), replica_groups={{0,1}}",
            "2 devices get one each",
        ),
        ("ROOT x = f32[2] parameter(0), sharding={maximal device=-1}", "no device -1"),
        ("ROOT x = f32[2] parameter(0), origin={({}, {})}", "its origin"),
        ("x = f32[2] parameter(0) ROOT r = f32[4] all-gather(x, x), replica_groups={{0,1}}, dimensions={0}", "a tuple"),
        (
            "x = f32[2,4] parameter(0) y = f32[4,2] parameter(1) s = f32[2,3] parameter(2) t = f32[] constant(1) "
            "ROOT d = f32[2,2] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "blocks with a scale each",
        ),
        (
            'x = f32[2] parameter(0) ROOT c = f32[3] custom-call(x), custom_call_target="f", '
            "output_to_operand_aliasing={{}: (0, {})}",
            "which differ",
        ),
        (
            'x = f32[2] parameter(0) ROOT c = f32[2] custom-call(x), custom_call_target="f", '
            "output_to_operand_aliasing={{}: (1, {})}",
            "names operand 1 of 1",
        ),
        ('ROOT c = u32[] custom-call(), custom_call_target="GetRngSeed"', "returns u64"),
        ("ROOT x = b(f32[2]) parameter(0)", "buffers cannot be parameters"),
        (
            'x = f32[2] parameter(0) b = b(f32[2]) custom-call(x), custom_call_target="Pin", '
            'output_to_operand_aliasing={{}: (0, {})} ROOT c = f32[2] custom-call(b), custom_call_target="read"',
            "not in the results",
        ),
    ],
)
def test_rules_beyond_shapes(body, message):
    add = REDUCE.partition("ENTRY")[0]
    found = [str(p) for p in problems(xl.parse(f"{add}ENTRY e {{ {body} }}"))]
    assert found == [] if message is None else any(message in p for p in found), found


def test_a_buffer_has_one_writer():
    module = xl.parse("""HloModule m
    ENTRY e { x = f32[2] parameter(0)
      b = b(f32[2]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
      y = f32[2] custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
      z = f32[2] custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
      ROOT t = (f32[2], f32[2]) tuple(y, z) }""")
    assert any("has 2 writers" in str(p) for p in problems(module))


def test_host_transfers_on_a_channel_are_alike():
    module = xl.parse("""HloModule m
    ENTRY e { c = f32[] constant(0) d = f32[3] constant({1, 2, 3}) t = token[] after-all()
      s = (f32[], u32[], token[]) send(c, t), channel_id=1, is_host_transfer=true
      u = token[] send-done(s), channel_id=1, is_host_transfer=true
      v = (f32[3], u32[], token[]) send(d, u), channel_id=1, is_host_transfer=true
      ROOT w = token[] send-done(v), channel_id=1, is_host_transfer=true }""")
    assert any("on the same channel" in str(p) for p in problems(module))


def test_loops_agree_on_shardings():
    module = xl.parse("""HloModule m
    b { x = s32[] parameter(0), sharding={replicated} ROOT y = s32[] negate(x) }
    c { x = s32[] parameter(0), sharding={maximal device=0} z = s32[] constant(0)
      ROOT l = pred[] compare(x, z), direction=LT }
    ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=c, body=b }""")
    assert any("different shardings" in str(p) for p in problems(module))


def test_threads_agree():
    module = xl.parse("""f { a = f32[] parameter(0) ROOT n = f32[] negate(a) }, execution_thread="other"
    ENTRY e { x = f32[] parameter(0) ROOT c = f32[] call(x), to_apply=f }""")
    assert any("runs on other" in str(p) for p in problems(module))
