"""Editing the graph keeps users, names and order right."""

import pytest

import xloom as xl
from xloom.hlo.instruction import Instruction
from xloom.hlo.names import NameUniquer

TEXT = """f { a = f32[] parameter(0) ROOT n = f32[] negate(a) }
ENTRY e { x = f32[] parameter(0) y = f32[] call(x), to_apply=f ROOT z = f32[] add(y, y) }"""


def test_users_follow_operands():
    module = xl.parse(TEXT)
    x, y, z = module.entry.instructions
    assert y.users == (z,)
    z.replace_operand(0, x)
    assert y.users == (z,) and z in x.users
    z.replace_operand(1, x)
    assert y.users == ()
    module.entry.remove(y)
    xl.verify(module)


def test_replace_moves_root_and_control():
    module = xl.parse(TEXT)
    z = module.entry.root
    new = Instruction("w", "negate", z.shape, [z.operands[0]])
    module.entry.replace(z, new)
    assert module.entry.root is new and z.parent is None
    xl.verify(module)


def test_remove_refuses_what_is_used():
    module = xl.parse(TEXT)
    with pytest.raises(xl.VerifyError, match="used by"):
        module.entry.remove(module.entry.parameters[0])


def test_clone_is_equal_and_apart():
    module = xl.parse(TEXT)
    copy = module.clone("")
    assert str(copy) == str(module)
    copy.entry.root.name = "other"
    assert str(copy) != str(module)


def test_computation_clone_has_suffix():
    module = xl.parse(TEXT)
    assert module.computation("f").clone().name == "f.clone"


def test_names_are_numbered_as_xla_does():
    names = NameUniquer()
    assert [names.unique(n) for n in ("add", "add", "add.5", "add", "add.0")] == [
        "add",
        "add.1",
        "add.5",
        "add.2",
        "add.3",
    ]
    assert names.unique("1a b") == "_a_b"
    assert names.unique("f32") == "f32_"


def test_attributes_read_defaults_and_refuse_unknown():
    root = xl.parse(TEXT).entry.instructions[1]
    assert root["is_composite"] is False
    with pytest.raises(KeyError, match="to_apply"):
        root["to_aply"]


SHARED = """less { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
inner { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  ROOT t = (s32[]) tuple(j) }
outer { s = (s32[]) parameter(0) ROOT w = (s32[]) while(s), condition=less, body=inner }
ENTRY e { z = s32[] parameter(0) s = (s32[]) tuple(z) ROOT w = (s32[]) while(s), condition=less, body=outer }"""


def test_what_an_inner_loop_calls_too_is_before_it():
    module = xl.parse(SHARED)
    assert [c.name for c in module.computation_post_order()] == ["inner", "less", "outer", "e"]
    text = module.to_text()
    assert xl.parse(text).to_text() == text
    assert xl.from_proto(module.to_proto()).to_text() == text


def test_post_order_follows_every_change():
    module = xl.parse("""HloModule m
    ENTRY e {
      a = f32[4] parameter(0)
      b = f32[4] parameter(1)
      c = f32[4] add(a, b)
      d = f32[4] multiply(c, a)
      f = f32[4] negate(b)
      ROOT t = (f32[4], f32[4]) tuple(d, f)
    }""")
    e = module.entry
    a, b, c, d, f, t = e.instructions

    def holds() -> None:
        assert e.post_order() == e._in_post_order()

    holds()
    e.post_order().clear()  # the caller's own
    holds()
    d.replace_operand(1, f)
    holds()
    new = e.add(Instruction("g", "negate", c.shape, [d]))
    holds()
    c.add_control_predecessor(f)
    holds()
    t.set_operands([new, f])
    holds()
    f.replace_all_uses_with(b)
    holds()
    c.drop_control_dependencies()
    holds()
    e.remove(f)
    holds()
    e.reorder([b, a, c, d, new, t])
    holds()
