"""Arrays in larger ones and out of them, in any layout."""

import numpy as np
import pytest

from xloom.hlo.shape import Layout
from xloom.passes.dynamic.resizable import Extent
from xloom.passes.dynamic.sizes import Affine
from xloom.pjrt import Client
from xloom.torch.lazy.recording import resized_buffers


@pytest.fixture
def client():
    return Client.cpu()


@pytest.mark.parametrize("layout", [None, Layout((2, 0, 1))], ids=["rows", "permuted"])
def test_elements_stay_in_their_places(client, layout):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    larger = resized_buffers.at_bounds(client.buffer_from_host(array, layout=layout), {1: Affine(1, 0)}, 8)
    expected = np.pad(array, ((0, 0), (0, 5), (0, 0)))
    np.testing.assert_array_equal(np.asarray(larger), expected)
    given = client.buffer_from_host(expected, layout=layout)
    smaller = resized_buffers.cut(given, {1: Extent(Affine(1, 0))}, 3)
    np.testing.assert_array_equal(np.asarray(smaller), array)


@pytest.mark.parametrize("period", [None, 4])
def test_nothing_is_cut_out_of_nothing(client, period):
    given = client.buffer_from_host(np.zeros((0, 8), np.float32))
    smaller = resized_buffers.cut(given, {1: Extent(Affine(1, 0), period)}, 3)
    assert np.asarray(smaller).shape == (0, 3 if period is None else 6)
