"""Tags keep messages apart."""

import pytest

from xloom.distributed.tags import Tags


@pytest.mark.parametrize("devices", [1, 2, 8, 64])
@pytest.mark.parametrize("most", [(1 << 15) - 1, (1 << 24) - 1, (1 << 31) - 1])
def test_no_two_are_one(devices, most):
    tags = Tags(devices, most)
    lanes = [(a, b) for a in range(devices) for b in range(devices)]
    kinds = [tags.failure, *(make(*lane) for lane in lanes for make in (tags.headers, tags.data))]
    if devices < 64 or most > 1 << 15:  # with fewer bits, groups must share
        assert len(set(kinds)) == len(kinds)
    for number in (0, 1, 5, 1 << 40):
        assert all(0 <= tags.of_run(kind, number) <= most for kind in kinds)
    moved = [tags.end, *(tags.transfer(key, is_data=data) for key in (0, 1, 7, 1 << 40) for data in (False, True))]
    assert all(0 <= tag <= most for tag in moved)
    assert len({*kinds, *moved}) == len({*kinds}) + len(moved)
    assert len({tags.of_run(kind, number) for kind in (tags.failure, kinds[2]) for number in range(16)}) == 32
