"""Which numbers belong to one size."""

from typing import Any

import numpy as np
import pytest

from xloom.errors import LoweringError
from xloom.torch.affine_sizes import Family


def formulas(*points, dims=None):
    """What a family says of each of them, in order."""
    family: Family = Family()
    return [family.formula(np.array(p), len(p) if dims is None else dims) for p in points]


def test_the_third_point_of_a_line_has_its_formula():
    first, second, third, fourth = formulas((3, 9, 5), (4, 11, 5), (6, 15, 5), (7, 17, 5))
    assert first is second is None and third is not None and fourth is third
    assert third.at(10).tolist() == [10, 23, 5]


def test_points_that_are_on_no_line_have_none():
    assert formulas((3, 9), (4, 11), (6, 14), (3, 14)) == [None] * 4


def test_a_point_between_others_is_on_their_line():
    assert formulas((3, 9), (20, 1), (4, 11), (8, 19))[-1] is not None


def test_the_size_is_that_of_an_array():
    found = formulas((3, 2), (5, 3), (7, 4), dims=1)
    assert found == [None] * 3  # the number moves by half of what the array does
    assert formulas((3, 2), (5, 3), (7, 4))[-1] is not None


def test_where_no_array_changes_a_number_is_the_size():
    found = formulas((16, 1, 7), (16, 2, 8), (16, 3, 9), dims=1)[-1]
    assert found is not None and found.at(12).tolist() == [16, 6, 12]


def test_samples_have_elements_and_are_no_smaller_than_two():
    found = formulas((10, 3), (11, 4), (12, 5))[-1]
    assert found is not None and found.samples(12, 2) == [16, 9, 13]
    found = formulas((10, 1), (11, 2), (12, 3))[-1]
    assert found is not None and found.samples(12, 2) == [16, 11, 13]
    assert found.samples(12, 2, most=14) == [13, 11, 12]  # of 14, what takes a part may take all
    assert found.samples(13, 2, least=12) == [16, 13, 14]


def test_an_array_that_becomes_smaller_is_told():
    found = formulas((10, 9), (11, 8), (12, 7))[-1]
    assert found is not None
    with pytest.raises(LoweringError, match="becomes smaller"):
        found.samples(12, 2)


def test_what_changes_as_a_line_that_has_programs_is_one_too():
    family: Family = Family()
    points = [(9, 10, 3), (10, 11, 3), (11, 12, 3)]
    known = [family.formula(np.array(p), 3) for p in points][-1]
    assert known is not None and family.formula(np.array((9, 10, 4)), 3) is None
    known.programs[16] = "a program"
    found = family.formula(np.array((9, 10, 4)), 3)
    assert found is not None and found.at(12).tolist() == [12, 13, 4]


def with_programs(family, *points) -> list[Any]:
    """The formulas of each point, which have a program from then on."""
    found = [family.formula(np.array(p), len(p)) for p in points]
    for each in found:
        if each is not None:
            each.programs[16] = "a program"
    return found


def test_where_several_lines_begin_is_no_line():
    family: Family = Family()
    for total in (30, 33, 36, 39):  # each is longer than the last, and begins further on
        found = with_programs(family, *[(total, total - 20 + n) for n in range(4)])
        assert total == 30 or len({id(each) for each in found}) == 1
        assert found[-1].at(2).tolist() == [total, 2]


def test_another_number_that_changes_alone_has_a_line_too():
    family: Family = Family()
    with_programs(family, (2, 9), (3, 9), (4, 9))
    assert with_programs(family, (4, 10), (4, 11), (4, 12))[-1].at(2).tolist() == [4, 2]


def test_no_number_of_a_sample_becomes_negative():
    found = formulas((10, 1, -2), (11, 2, -2), (12, 3, -2))[-1]
    assert found is not None and found.same_signs(found.at(12))[0] == 9
    found = formulas((10, 4), (11, 3), (12, 2), dims=1)[-1]
    assert found is not None and found.same_signs(found.at(12)) == (0, 14)
