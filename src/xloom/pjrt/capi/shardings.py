"""The shardings extension: how a program's arguments and results are cut over its partitions."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.hlo.proto.shardings import sharding_to_bytes
from xloom.hlo.sharding import Sharding
from xloom.pjrt.capi.ctypes_structs import CArray, Text
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.protobuf_wire_format import embedded

ENTRIES = ["PJRT_Shardings_PJRT_Executable_ParameterShardings", "PJRT_Shardings_PJRT_Executable_OutputShardings"]

_REPLICATED = Sharding("replicated")


class Shardings:
    """OpShardings, serialised, as rows of addresses and of sizes."""

    def __init__(self, shardings: list[Sharding]):
        self._shardings = shardings
        self._texts = [Text(sharding_to_bytes(s)) for s in shardings]
        self.addresses = CArray.pointers(t.address for t in self._texts)
        self.sizes = CArray(ctypes.c_size_t, [t.size for t in self._texts])

    def as_fields(self, number: int) -> bytes:
        """All of them, as repeated fields of a message."""
        return b"".join(embedded(number, sharding_to_bytes(s)) for s in self._shardings)

    def as_one(self) -> bytes:
        """One of a tuple, serialised, or that of the only array."""
        several = len(self._shardings) > 1
        return sharding_to_bytes(Sharding.tuple_of(self._shardings) if several else self._shardings[0])


def of_leaves(instruction: Instruction) -> list[Sharding]:
    """The shardings of an instruction's arrays; without a word each device has all of them."""
    count = len(instruction.shape.elements) if instruction.shape.is_tuple else 1
    if not count:
        return [_REPLICATED]  # XLA gives an empty tuple a sharding too
    sharding = instruction.sharding
    if sharding is None:
        return [_REPLICATED] * count
    return list(sharding.elements) if sharding.kind == "tuple" else [sharding] * count


@entry_point("PJRT_Shardings_PJRT_Executable_ParameterShardings")
def parameter_shardings(args: Any) -> None:
    """The shardings of an executable's parameters."""
    found = objects[args.executable].parameter_shardings
    args.num_parameters, args.shardings, args.sharding_sizes = (
        found.sizes.size,
        found.addresses.address,
        found.sizes.address,
    )


@entry_point("PJRT_Shardings_PJRT_Executable_OutputShardings")
def output_shardings(args: Any) -> None:
    """The shardings of an executable's results."""
    found = objects[args.executable].output_shardings
    args.num_outputs, args.shardings, args.sharding_sizes = (
        found.sizes.size,
        found.addresses.address,
        found.sizes.address,
    )
