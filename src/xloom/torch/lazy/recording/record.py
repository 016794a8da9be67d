"""From an operator's arguments to a recorded operator: what is an input, what an argument of the run, what is fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from xloom.torch.lazy.operators.checking import check, check_numbers, numbers_allowed
from xloom.torch.lazy.recording import trimming
from xloom.torch.lazy.recording.signature import Emit, Hoisted, HostNumber, Input, NeedsConstants, Number, Signature
from xloom.torch.lazy.recording.trace import TRACE, Value
from xloom.torch.lazy.runtime import device_client, random_state
from xloom.torch.lazy.tensor.layouts import output_types
from xloom.torch.lazy.tensor.tensor import XlaTensor

_default_dtype = torch.get_default_dtype
_F32 = torch.float32
_known, _go = TRACE.known, TRACE.go
_acquire, _release = TRACE.lock.acquire, TRACE.lock.release
_FLOAT, _LIST = object(), object()
_UNIT = frozenset([0.0, 1.0])
_SHORT_POWERS = frozenset([2.0, 3.0, 0.5, -0.5, -1.0]) | _UNIT
_ALIKE_FOR_ALL_INTS = frozenset(
    [
        *("add", "sub", "rsub", "mul", "div", "addcmul", "addcdiv", "lerp"),
        *("addmm", "addmv", "addbmm", "baddbmm", "addr"),
        *("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "where"),
        *("clamp", "clamp_min", "clamp_max", "hardtanh", "leaky_relu", "threshold"),
        *("fill", "full", "full_like", "new_full", "masked_fill", "scalar_tensor"),
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
    ]
)
"""Operators that are no shorter for some ints, and raise errors for none."""
_WIDE = frozenset([torch.float32, torch.float64, torch.int32, torch.int64, torch.complex64, torch.complex128])
"""Types that have every number of 31 bits, if rounded."""
_EXACT = 1 << 53
"""Up to here every int is a float of 64 bits, as the numbers of a run are."""
_BOOLEANS = {True: "True", False: "False"}

_TAKES_HOST_INDICES = ("aten.index.", "aten.index_put", "aten._index_put_impl", "aten._unsafe_index")


class Recorder:
    """Records one operator: `emit` builds it, and its signatures are kept by the types and attributes of arguments.

    Floats other than 0 and 1, where the schema takes a number, are arguments of the run: another learning rate is no
    other program. Ints are, too, of operators to which they are all alike, once there is a second one. Lowerings that
    have to know them say so by failing, and then get them. Where passes look at the programs, a number is part of its
    program until another one follows in its place.
    """

    def __init__(self, op: OpOverload, emit: Emit, name: str = "", checks: bool = True):
        self.op = op
        self.checks = checks
        self.name = name or str(op)
        self.emit = emit
        self.signatures: dict[tuple, Signature] = {}
        self.host_indices = self.name.startswith(_TAKES_HOST_INDICES)
        self.hoists_host_numbers = not self.host_indices
        self.constants = _SHORT_POWERS if "pow" in self.name else _UNIT
        bare = op._schema.name.removeprefix("aten::").removeprefix("_foreach_").rstrip("_")
        self.hoists_ints = bare in _ALIKE_FOR_ALL_INTS
        self.allowed = numbers_allowed(op)
        self.numbered: set[tuple] = set()
        hoisted = [takes_number(argument) for argument in op._schema.arguments]
        self.hoists = frozenset([k for k, yes in enumerate(hoisted) if yes])
        self.hoists_by_name = frozenset([a.name for a, yes in zip(op._schema.arguments, hoisted, strict=True) if yes])

    def record(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        """The values that the operator returns, in its structure."""
        if self.allowed is not None:
            check_numbers(self.allowed, self.op, args, kwargs or {})
        key: list[Any] = [self]
        values: list[Value] = []
        scalars: list[float] = []
        hoists = self.hoists
        for position, each in enumerate(args):
            kind = each.__class__
            if kind is XlaTensor:
                alias = each._alias
                values.append(alias.read())
                key.append(alias.type)
            elif kind is int or each is None:
                key.append(each)
            elif kind is bool:
                key.append(_BOOLEANS[each])
            else:
                self._read(each, position in hoists, key, values, scalars)
        if kwargs:
            for name, each in kwargs.items():
                key.append(name)
                self._read(each, name in self.hoists_by_name, key, values, scalars)
        if _default_dtype() is not _F32:
            key.append(_default_dtype())
        _acquire()  # half the price of a with
        try:
            node = _known(key, values)
            if node is None:
                return self._first(tuple(key), args, kwargs or {}, values, scalars)
            made = _go(node, scalars)
            places = node.signature.places  # type: ignore[union-attr]
            return made[0] if places is None else [None if place is None else made[place] for place in places]
        finally:
            _release()

    def _first(
        self,
        key: tuple[Any, ...],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        values: list[Value],
        scalars: Sequence[float],
    ) -> Any:
        """The same, of what was not recorded here before, or not of these arguments."""
        if TRACE.keeps_numbers and TRACE.changes(key, (self, _without_numbers((args, kwargs))), values):
            TRACE.keeps_numbers = False
            try:
                return self.record(args, kwargs)
            finally:
                TRACE.keeps_numbers = True
        signature = self.signatures.get(key)
        keeps = TRACE.keeps_numbers
        if (
            signature is None
            and self.hoists_ints
            and not keeps
            and (numbered := self._numbered(args, kwargs, values)) is not None
        ):
            without = _without_numbers(numbered)
            if without in self.numbered:
                try:
                    return self.record(*numbered)
                except NeedsConstants:
                    self.hoists_ints = False
            self.numbered.add(without)
        if signature is None:
            found = check(self.op, args, kwargs) if self.checks else None
            try:
                signature = self._new(args, kwargs, values, scalars)
            except NeedsConstants:
                if Number in key:
                    raise
                self.hoists = self.hoists_by_name = frozenset()
                self.hoists_host_numbers = False
                return self.record(args, kwargs)
            signature.outputs = output_types(self.op, args, found, signature)
            trimming.remember(self.signatures, key, signature)
        if not signature.random:
            return signature.structured(TRACE.record(key, signature, values, scalars))
        generator = kwargs.get("generator")
        values.append(random_state.take() if generator is None else random_state.drawn_from(generator))
        made = TRACE.record((signature,), signature, values, scalars)  # not `key`: that has one input less
        if generator is None:
            random_state.put(made[-1])
        return signature.structured(made)

    def _numbered(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Value]
    ) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
        """The arguments with those ints as Numbers that may be given when the program runs; None without any."""
        given = [args[k] for k in self.hoists if k < len(args)]
        given += [each for name, each in kwargs.items() if name in self.hoists_by_name]
        dtypes = [value.type.dtype for value in values] + [kwargs.get("dtype") or torch.int64]
        dtypes += [each.dtype for each in args if each.__class__ is torch.Tensor]
        least, most = (-(2**31), 2**31 - 1) if _WIDE.issuperset(dtypes) else (0, 127)
        if not any(each.__class__ is int and least <= each <= most for each in given):
            return None

        def numbered(each: Any, hoist: bool) -> Any:
            return Number(each) if hoist and each.__class__ is int and least <= each <= most else each

        positional = [numbered(each, k in self.hoists) for k, each in enumerate(args)]
        return positional, {name: numbered(each, name in self.hoists_by_name) for name, each in kwargs.items()}

    def _read(self, each: Any, hoist: bool, key: list[Any], values: list[Value], scalars: list[float]) -> None:
        kind = each.__class__
        if kind is float:
            if self._hoists(each, hoist):
                scalars.append(each)
                key.append(_FLOAT)
            else:
                key.append(each.hex())
        elif kind is bool:
            key.append(_BOOLEANS[each])  # a number in a key would be equal to 1
        elif kind is Number:
            scalars.append(float(each))
            key.append(Number)
        elif kind is list or kind is tuple:
            key.append(_LIST)
            for inner in each:
                inner_kind = inner.__class__
                if inner_kind is int or inner is None:
                    key.append(inner)
                elif inner_kind is bool:
                    key.append(_BOOLEANS[inner])
                elif inner_kind is XlaTensor:
                    alias = inner._alias
                    values.append(alias.read())
                    key.append(alias.type)
                else:
                    self._read(inner, hoist, key, values, scalars)
            key.append(_LIST)
        elif kind is torch.Tensor and self._is_host_number(each):
            scalars.append(float(each.item()))
            key.append(HostNumber)
            key.append(each.dtype)
        elif isinstance(each, torch.Tensor):
            value = self._value(each)
            values.append(value)
            key.append(each._alias.type if isinstance(each, XlaTensor) else value.type)
        elif kind is complex:
            key.append(repr(each))
        elif kind is torch.Generator:
            key.append(kind)
        else:
            key.append(each)

    def _hoists(self, number: float, hoist: bool) -> bool:
        """Whether a number is an argument of the run, if the schema takes one there."""
        return hoist and not TRACE.keeps_numbers and number not in self.constants and math.isfinite(number)

    def _is_host_number(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of the host is an argument of the run as numbers are, which takes no buffer."""
        if tensor.dim() or not self.hoists_host_numbers or TRACE.keeps_numbers or not tensor.is_cpu:
            return False
        dtype = tensor.dtype
        if dtype.is_floating_point:
            return True
        return not (dtype.is_complex or dtype is torch.bool) and -_EXACT <= tensor.item() <= _EXACT

    def _value(self, tensor: torch.Tensor) -> Value:
        if isinstance(tensor, XlaTensor):
            return tensor._alias.read()
        if tensor.device.type == "cpu" and (tensor.dim() == 0 or self.host_indices):
            return device_client.to_device(tensor)
        raise mixed(self.op, tensor)

    def _new(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Value], scalars: Sequence[float]
    ) -> Signature:
        counts = [0, 0]
        template = tuple([self._template(each, k in self.hoists, counts) for k, each in enumerate(args)])
        named = {n: self._template(each, n in self.hoists_by_name, counts) for n, each in kwargs.items()}
        types = tuple([value.type for value in values])
        return Signature(self.name, self.emit, template, named, types, len(scalars))

    def _template(self, each: Any, hoist: bool, counts: list[int]) -> Any:
        kind = each.__class__
        if kind is torch.Tensor and self._is_host_number(each):
            counts[1] += 1
            return HostNumber(counts[1] - 1, each.dtype)
        if isinstance(each, torch.Tensor):
            counts[0] += 1
            return Input(counts[0] - 1)
        if kind is Number or (kind is float and self._hoists(each, hoist)):
            counts[1] += 1
            return Hoisted(counts[1] - 1, int if kind is Number else float)
        if kind is list or kind is tuple:
            return [self._template(inner, hoist, counts) for inner in each]
        return None if isinstance(each, torch.Generator) else each


def _without_numbers(each: Any) -> Any:
    """What tells such arguments apart, but for numbers that are given when the program runs."""
    kind = each.__class__
    if kind is tuple or kind is list:
        return tuple([_without_numbers(inner) for inner in each])
    if kind is dict:
        return tuple([(name, _without_numbers(inner)) for name, inner in each.items()])
    if kind is Number or kind is float or kind is complex or kind is torch.Generator:
        return kind
    return (each.dtype, each.shape) if isinstance(each, torch.Tensor) else each


def takes_number(argument: Any) -> bool:
    """True for an argument of a schema that may be a Python number in arithmetic."""
    return "number" in str(argument.type) or str(argument.type) == "Tensor"


def mixed(op: Any, tensor: torch.Tensor) -> RuntimeError:
    """The error for a tensor that is not on the device."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, xla:0 and {tensor.device}! "
        f"({op} got a tensor of shape {list(tensor.shape)} on {tensor.device}; move it with .to('xla'))"
    )
