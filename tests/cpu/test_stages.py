"""The table of stages: each takes what the one before gives, lies where it says, and prints what --emit names."""

from itertools import pairwise
from pathlib import Path

import pytest

import xloom
from xloom.cli.opt import FORMS
from xloom.cpu import printers
from xloom.cpu.stages import STAGES


def test_each_stage_takes_what_the_one_before_gives():
    assert [after.takes for _, after in pairwise(STAGES)] == [before.gives for before, _ in pairwise(STAGES)]
    assert STAGES[0].takes == "Module" and STAGES[-1].gives == "LinkedExecutable"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_lies_where_the_table_says(stage):
    text = (Path(xloom.__file__).parent / stage.function).read_text()
    assert text.startswith('"""')
    for name in stage.prints:
        assert callable(getattr(printers, f"{name.replace('-', '_')}_text")) and name in FORMS
