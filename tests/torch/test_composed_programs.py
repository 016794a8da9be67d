"""A sample of `make judge-torch-composed`."""

import random
from dataclasses import replace

import pytest
import torch

from tests.judges.child import Skipped
from tests.judges.torch_composed.generator import _Growing
from tests.judges.torch_composed.judging import judged
from tests.judges.torch_composed.program import Leaf, Program, Step, run
from tests.judges.torch_composed.rounding import References


@pytest.mark.parametrize("seed", range(1000, 1016))
def test_random_programs_on_the_device(seed):
    try:
        assert not judged(seed, "device")
    except Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_random_programs_in_graphs(seed):
    try:
        assert not judged(seed, "compile")
    except Skipped as reason:
        pytest.skip(str(reason))


ONE = Leaf("bfloat16", (1, 1), value=torch.tensor([[0.49]], dtype=torch.bfloat16))


def _given(text, leaf, change):
    """What the judge says of a program of one step, whose result is the CPU's, changed."""
    program = Program((leaf,), (Step(text, (0,), 1),), (1,))
    references = References(program)
    outcome = run(program, program.function(), torch.Tensor.clone)
    outcome.results = [change(each) for each in outcome.results]
    return references.disagreement(outcome)


def test_what_is_left_of_equal_terms_may_be_nothing():
    text = "{out} = F.normalize(F.layer_norm({a}, (1,)))"
    assert not _given(text, ONE, torch.zeros_like)
    assert "differ" in _given(text, ONE, lambda each: each * 20)


def test_distances_of_neighbours_are_known_as_well_as_their_squares():
    leaf = Leaf("float64", (30, 30), seed=1)
    assert not _given("{out} = torch.cdist({a}, {a})", leaf, lambda each: torch.where(each < 1e-5, 3e-8, each))
    assert "differ" in _given("{out} = torch.cdist({a}, {a})", leaf, lambda each: torch.where(each < 1e-5, 3e-5, each))


def test_an_error_that_other_roundings_give_is_no_complaint():
    program = Program((ONE,), (Step("{out} = torch.linalg.lu_factor(F.layer_norm({a}, (1,)).double())[0]", (0,), 1),))
    program = replace(program, results=(1,))
    try:
        torch.linalg.lu_factor(torch.zeros(1, 1))
    except RuntimeError as error:
        assert References(program).may_fail(error)
        assert not References(program).may_fail(ValueError(str(error)))


def test_programs_read_no_memory_without_values():
    growing = _Growing(random.Random(0), writes_overlap=True)
    loss = torch.nn.functional.mse_loss(torch.ones(4), torch.zeros(4))  # in memory of four elements
    growing.values.append(loss)
    assert not growing._is_defined(loss.as_strided((2,), (1,)))
    growing.values.append(torch.zeros(4)[1:])
    assert growing._is_defined(growing.values[-1].as_strided((2,), (2,), 1))
