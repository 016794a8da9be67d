"""What is planted is found where it is, by native code and by the interpreter alone; what is right is not reported."""

import numpy as np
import pytest

import xloom as xl
from tests.checks.planted_values import INDICES, PLANTED, RIGHT
from tests.judges import first_nan
from xloom.checks import VALUE_CHECKS
from xloom.errors import CheckError
from xloom.interpreter.first_fault import evaluate_checked


@pytest.mark.sampled
@pytest.mark.parametrize("planted", [*PLANTED, *INDICES], ids=lambda each: each.name)
def test_planted(planted):
    module = xl.parse(planted.text)
    with pytest.raises(CheckError) as caught:
        xl.compile(module, check=[planted.check])(*planted.arguments)
    error = caught.value
    assert (error.check, error.instruction, error.index) == (planted.check, planted.instruction, planted.index), error
    assert planted.says in str(error)
    with pytest.raises(CheckError):
        evaluate_checked(module, *planted.arguments, checks=[planted.check])


@pytest.mark.parametrize(("text", "arguments"), [r[1:] for r in RIGHT], ids=[r[0] for r in RIGHT])
def test_right(text, arguments):
    module = xl.parse(text)
    run, plain = xl.compile(module, check=[*VALUE_CHECKS]), xl.compile(module, check=[])
    for _ in range(2):  # the second time with code that asks of each instruction
        np.testing.assert_allclose(run(*arguments), plain(*arguments), rtol=1e-6)


@pytest.mark.parametrize("number", range(4))
def test_planted_in_random_programs(number):
    case = first_nan.planted(1, number, stateful=number % 2 == 1)
    assert first_nan.found(case) == first_nan.MADE
