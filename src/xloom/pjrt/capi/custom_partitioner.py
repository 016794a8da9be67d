"""The extension by which a framework cuts custom calls of its own over devices."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls.partitioning import Partitioned, batched, partitioners
from xloom.hlo.instruction import Instruction
from xloom.hlo.proto.shapes import shape_to_bytes
from xloom.hlo.proto.shardings import sharding_from_bytes, sharding_to_bytes
from xloom.hlo.sharding import Sharding
from xloom.pjrt.capi.ctypes_structs import Text, bytes_at, struct, text_at
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.error import PjrtError
from xloom.stablehlo import from_stablehlo
from xloom.status_code import Code

ENTRIES = ["PJRT_Register_Custom_Partitioner", "PJRT_Register_Batch_Partitionable"]

_PARTITION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_CLEAN_UP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CALLBACKS, _ARGS, _AVAL, _STRING = (
    struct(f"JAX_CustomCallPartitioner_{name}") for name in ("Callbacks", "Partition_Args", "aval", "string")
)


@entry_point("PJRT_Register_Custom_Partitioner")
def register_custom_partitioner(args: Any) -> None:
    """Keeps the callbacks by which the framework partitions custom calls of a target."""
    # its guesses of shardings are not asked for: Shardy has propagated them before, by rules that come with the calls
    partitioners[text_at(args.name, args.name_size)] = _Partitioner(args.callbacks)


@entry_point("PJRT_Register_Batch_Partitionable")
def register_batch_partitionable(args: Any) -> None:
    """Calls of that target do the same with each element of a batch."""
    batched.add(text_at(args.name, args.name_size))


class _Partitioner:
    """Callbacks of a framework's."""

    def __init__(self, address: int):
        self._address = address
        self._partition = _PARTITION(_CALLBACKS.from_address(address).partition)

    def __call__(self, call: Instruction, operands: Sequence[Sharding], result: Sharding) -> Partitioned:
        kept: list[Text] = []

        def string(data: bytes) -> Any:
            kept.append(Text(data))
            return _STRING(kept[-1].address, kept[-1].size)

        def aval(instruction: Instruction, sharding: Sharding) -> Any:
            return _AVAL(string(shape_to_bytes(instruction.shape)), True, string(sharding_to_bytes(sharding)))

        avals = (_AVAL * len(operands))(*map(aval, call.operands, operands))
        config = string(call.backend_config.encode("utf-8", "surrogateescape"))
        args = _ARGS(
            num_args=len(operands), op_args=ctypes.addressof(avals), op_result=aval(call, result), backend_config=config
        )
        self._partition(self._address, ctypes.addressof(args))
        try:
            return _answer(args)
        finally:
            if args.header.cleanup_fn:
                _CLEAN_UP(args.header.cleanup_fn)(args.header.data)


def _answer(args: Any) -> Partitioned:
    header = args.header
    if header.has_error:
        raise PjrtError(Code(header.code), text_at(header.error_msg.data, header.error_msg.size))
    rows = (_STRING * args.num_args).from_address(args.args_sharding) if args.num_args else ()
    return Partitioned(
        from_stablehlo(_bytes(args.mlir_module), trusted=True),
        [sharding_from_bytes(_bytes(row)) for row in rows],
        sharding_from_bytes(_bytes(args.result_sharding)),
    )


def _bytes(string: Any) -> bytes:
    return bytes_at(string.data, string.size)
