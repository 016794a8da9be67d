"""Custom calls: XLA's own markers mean what they mean there; all others go to the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.asynchronous import CONTROL_DEPENDENCY
from xloom.interpreter.elementwise import total_order_key
from xloom.interpreter.layout import set_dimension_size
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator

BuiltIn = Callable[["Instruction", Sequence[Value], "Evaluator"], Value]

IDENTITIES = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "LayoutConstraint",
    "optimization_barrier",
    "xla.sdy.FuncResultSharding",
)


def _top_k(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The `TopK` call: k largest in total order, as the shape says."""
    (x,) = operands[:1]
    k = instruction.shape.elements[0].dims[-1]
    key = total_order_key(x) if instruction._operands[0].shape.dtype.is_float else x
    order = np.argsort(~key, axis=-1, kind="stable")[..., :k]
    return (np.take_along_axis(x, order, axis=-1), order.astype(np.int32))


def _identity(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    return operands[0]


def _slice_to_dynamic(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Padded data and its sizes, to dynamic data."""
    return operands[0][tuple(slice(0, int(n)) for n in operands[1:])]


def _pad_to_static(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Dynamic data, to padded data and its sizes."""
    from xloom.interpreter.layout import pad_array

    x = operands[0]
    dims = instruction.shape.elements[0].dims
    wide = pad_array(x, np.zeros((), x.dtype), [(0, d - n, 0) for d, n in zip(dims, x.shape, strict=True)])
    return (wide, *(np.asarray(n, np.int32) for n in x.shape))


def _sink(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Nothing: the call only makes its operands be computed."""
    return ()


def _allocate_buffer(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    dtype = instruction.shape.dtype
    return np.full(instruction.shape.dims, np.nan if dtype.is_float or dtype.is_complex else -1).astype(dtype.numpy)


SHARDING_GROUP = "xla.sdy.ShardingGroup"
"""Says that its operand is cut as others of a group are."""
SINKS = frozenset({"dce_sink", SHARDING_GROUP})
ALLOCATE_BUFFER = "AllocateBuffer"
"""An array with any elements, which is memory as it is; here they are such as are seen where they should not be."""
NO_CODE = SINKS | {ALLOCATE_BUFFER}
"""Calls for which nothing is done."""
BUILT_IN: dict[str, BuiltIn] = {
    **{name: _identity for name in IDENTITIES},
    **dict.fromkeys(SINKS, _sink),
    CONTROL_DEPENDENCY: _sink,
    ALLOCATE_BUFFER: _allocate_buffer,
    "TopK": _top_k,
    "SliceToDynamic": _slice_to_dynamic,
    "PadToStatic": _pad_to_static,
    "SetDimensionSize": set_dimension_size,
}


@evaluates("custom-call")
def custom_call(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """A registered target wins over a built-in one."""
    from xloom.calls import host, registry
    from xloom.calls.program_run import ProgramRun

    target = instruction["custom_call_target"]
    if not registry.is_registered(target) and target in BUILT_IN:
        return BUILT_IN[target](instruction, operands, evaluator)
    if evaluator.program_run is None:
        evaluator.program_run = ProgramRun()
    return host.invoke(instruction, operands, evaluator.program_run)
