"""Random connected parts of random programs as patterns: found where they were taken, and expanded to what was."""

import pytest

from tests.passes.pattern.generated import outline_and_expand

PROGRAMS = 300


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_found_and_expanded(seed: int) -> None:
    outcome = outline_and_expand(seed, values=seed % 5 == 0)
    assert outcome is None or not outcome.wrong
