"""Whether a donated array has no other references, by what this interpreter counts."""

from sys import getrefcount

import numpy as np

from xloom.pjrt.donation import are_exclusive
from xloom.pjrt.future import Future
from xloom.reference_counts import ONE_VARIABLE


def test_what_a_question_adds():
    value = object()
    assert getrefcount(value) == ONE_VARIABLE
    kept = [value]
    assert getrefcount(value) == ONE_VARIABLE + len(kept)


def test_one_reference_more_is_one_too_many():
    inputs = [Future.ready(np.empty(8, np.float32))]
    values = [inputs[0].value]
    assert are_exclusive(inputs, values, 0)
    other = values[0]
    assert not are_exclusive(inputs, values, 0)
    other = inputs[0]
    assert not are_exclusive(inputs, values, 0)
    other = None
    assert other is None and are_exclusive(inputs, values, 0)
