"""Whether a donated array has no other references, by what this interpreter counts."""

from sys import getrefcount

import numpy as np

from xloom.hlo.dtype import f32
from xloom.hlo.shape import array_shape
from xloom.pjrt.donation import are_exclusive
from xloom.pjrt.future import Future
from xloom.pjrt.host_memory import host_array
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


def test_memory_of_native_code_is_its_own_to_judge():
    memory, done = np.zeros(8, np.float32), []
    address, shape, others = memory.ctypes.data, array_shape(f32, (8,)), [0]
    inputs = [Future.ready(host_array(address, shape, (), lambda: done.append(1), lambda: not others[0]))]
    values = [inputs[0].value]
    assert are_exclusive(inputs, values, 0)
    others[0] = 1
    assert not are_exclusive(inputs, values, 0)
    others[0] = 0
    view = values[0][:4]
    assert not are_exclusive(inputs, values, 0)
    del view
    assert are_exclusive(inputs, values, 0) and not done
    inputs, values = [Future.ready(host_array(address, shape, (), lambda: done.append(1)))], []
    values = [inputs[0].value]
    assert done and not are_exclusive(inputs, values, 0)
