"""Whether a donated array has no other references, so that its memory may be written to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.cpu.runtime.memory_pool import is_pooled
from xloom.cuda.run_time.arrays import CudaArray
from xloom.cuda.run_time.memory import Block
from xloom.pjrt.future import Future
from xloom.pjrt.host_memory import HostMemory
from xloom.reference_counts import ONE_VARIABLE

# The references to an array that has no others, beside the variable that is asked for.
_FUTURE = 1 + ONE_VARIABLE  # the list of inputs
_ARRAY = 2 + ONE_VARIABLE  # its future, and the list of values
_OWNER = 1 + ONE_VARIABLE  # the array, as its base
_POOL = 1  # the array that the pool keeps
_BLOCK = _MEMORY = 1 + 1  # the array, and the question: there is no variable


def are_exclusive(inputs: Sequence[Future], values: Sequence[Any], number: int) -> bool:
    """True when only `inputs` and `values` refer to the array at a number, and only it to its memory."""
    future, array = inputs[number], values[number]
    if sys.getrefcount(future) > _FUTURE or sys.getrefcount(array) > _ARRAY:
        return False
    if type(array) is CudaArray:
        return type(array.block) is Block and sys.getrefcount(array.block) <= _BLOCK
    return type(array) is np.ndarray and has_own_memory(array)  # or else another device with memory of its own keeps it


def has_own_memory(array: np.ndarray) -> bool:
    """True when only this array refers to its memory, and it may be written to."""
    owner = array.base
    if owner is None:
        return bool(array.flags.owndata and array.flags.writeable)
    if type(owner) is not np.ndarray or not array.flags.writeable:
        return False
    if is_pooled(owner):
        return sys.getrefcount(owner) <= _OWNER + _POOL
    if sys.getrefcount(owner) > _OWNER:
        return False
    if type(owner.base) is HostMemory:
        return sys.getrefcount(owner.base) <= _MEMORY and owner.base.is_alone()
    return owner.flags.owndata
