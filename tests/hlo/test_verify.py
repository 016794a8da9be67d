import pytest

import xloom as xl
from xloom.hlo.module import Instruction
from xloom.hlo.verify import problems

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
