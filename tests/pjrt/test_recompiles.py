"""Why a program of the same name is compiled again."""

import pytest

import xloom as xl
from xloom.pjrt import recompiles


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(recompiles, "_known", type(recompiles._known)(recompiles._known.default_factory))
    monkeypatch.setattr(recompiles, "_reports", type(recompiles._reports)(maxlen=3))


def program(shapes, result="f32[8]", name="jit_step"):
    parameters = "\n".join(
        f'p{k} = {shape} parameter({k}), metadata={{op_name="batch[{k}]"}}' for k, shape in enumerate(shapes)
    )
    return xl.parse(
        f'HloModule {name}\nENTRY e {{ {parameters}\nROOT r = {result} custom-call(), custom_call_target="x" }}'
    )


def told(*programs):
    for each in programs:
        recompiles.note(each)
    return recompiles.recompiles()


def test_the_first_is_none():
    assert told(program(["f32[8]"]), program(["f32[8]"], name="jit_other")) == []


def test_shapes_are_told_against_the_nearest():
    found = told(program(["f32[8]", "s32[2]"]), program(["f32[9]", "s32[3]"]), program(["f32[9]", "s32[4]"]))
    assert "jit_step is compiled for the 3rd time" in found[-1]
    assert "argument 1 (batch[1]) is s32[4], nearest before s32[3]" in found[-1] and "argument 0" not in found[-1]


def test_other_differences():
    first = program(["f32[8]"])
    assert "2 parameters, the others had 1" in told(first, program(["f32[8]"] * 2))[-1]
    assert "the result is f32[4], before f32[8]: static arguments or code" in told(program(["f32[8]"], "f32[4]"))[-1]
    assert "made anew" in told(program(["f32[8]"]))[-1]


def test_few_are_remembered():
    assert len(told(*[program([f"f32[{k}]"]) for k in range(6)])) == 3


def test_the_log(monkeypatch, capsys):
    monkeypatch.setenv("XLOOM_LOG", "recompiles")
    told(program(["f32[8]"]), program(["bf16[8]"]))
    assert (
        "xloom.pjrt: compile       argument 0 (batch[0]) is bf16[8], nearest before f32[8]" in capsys.readouterr().err
    )
