"""A sample of `make judge-torch-composed`."""

import pytest

from tests.judges.child import Skipped
from tests.judges.torch_composed.judging import judged


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
