"""How a program is compiled: how many devices, and which."""

from __future__ import annotations

from dataclasses import dataclass, field

from xloom.pjrt.debug_options import DebugOptions, debug_options_proto, overrides_of
from xloom.pjrt.dump import Dump
from xloom.pjrt.error import invalid
from xloom.pjrt.protobuf_wire_format import embedded, fields, message, number, numbers, scalar, varint

# fields of CompileOptionsProto, ExecutableBuildOptionsProto and DeviceAssignmentProto
_BUILD_OPTIONS, _ENV_OPTION_OVERRIDES = 3, 7
_DEVICE_ORDINAL, _REPLICAS, _PARTITIONS, _USE_SPMD_PARTITIONING, _DEVICE_ASSIGNMENT = 1, 4, 5, 6, 9
_COMPUTATION_DEVICES, _REPLICA_DEVICE_IDS = 3, 1


@dataclass(frozen=True)
class CompileOptions:
    """Replicas, partitions, and the devices that they run on: `device_assignment[replica][partition]`."""

    num_replicas: int = 1
    num_partitions: int = 1
    device_assignment: tuple[tuple[int, ...], ...] = ()
    use_spmd_partitioning: bool = field(default=False, repr=False)
    """Whether the program is one on global arrays, which its shardings cut over the partitions."""
    dump: Dump | None = field(default=None, repr=False)
    """Which files to write of the program."""
    allow_excess_precision: bool = field(default=True, repr=False)
    """Whether bf16 and f16 may be computed with more digits than they have, until they are stored."""
    serialized: bytes = field(default=b"", repr=False)
    """The CompileOptionsProto that it was read from."""

    @staticmethod
    def from_proto(data: bytes) -> CompileOptions:
        """Reads a serialised CompileOptionsProto."""
        found = fields(data)
        build = message(found, _BUILD_OPTIONS)
        debug = DebugOptions(build, overrides_of(found[_ENV_OPTION_OVERRIDES]))
        replicas, partitions = number(build, _REPLICAS) or 1, number(build, _PARTITIONS) or 1
        columns = [
            [device for value in fields(column)[_REPLICA_DEVICE_IDS] for device in numbers(value)]
            for column in message(build, _DEVICE_ASSIGNMENT)[_COMPUTATION_DEVICES]
            if isinstance(column, bytes)
        ]
        if columns and (len(columns) != partitions or any(len(c) != replicas for c in columns)):
            raise invalid(
                f"the device assignment is not one of {replicas} replicas and {partitions} partitions",
                "give a column of as many devices as replicas for each partition",
            )
        rows = tuple(zip(*columns, strict=True))
        if not rows and number(build, _DEVICE_ORDINAL) >= 0 and replicas * partitions == 1:
            rows = ((number(build, _DEVICE_ORDINAL),),)
        is_global = bool(number(build, _USE_SPMD_PARTITIONING))
        return CompileOptions(
            replicas,
            partitions,
            rows,
            is_global,
            Dump.of(debug),
            debug.flag("xla_allow_excess_precision", default=True),
            data,
        )

    def to_proto(self) -> bytes:
        """The options as a serialised CompileOptionsProto."""
        if self.serialized:
            return self.serialized
        counts = scalar(_REPLICAS, self.num_replicas) + scalar(_PARTITIONS, self.num_partitions)
        counts += scalar(_USE_SPMD_PARTITIONING, int(self.use_spmd_partitioning))
        counts += debug_options_proto({"xla_allow_excess_precision": self.allow_excess_precision})
        assignment = embedded(_DEVICE_ASSIGNMENT, assignment_proto(self.devices()))
        return embedded(_BUILD_OPTIONS, counts + assignment)

    def devices(self) -> tuple[tuple[int, ...], ...]:
        """The device assignment; by default the first devices, partitions of a replica next to each other."""
        if self.device_assignment:
            return self.device_assignment
        n = self.num_partitions
        return tuple(tuple(range(r * n, r * n + n)) for r in range(self.num_replicas))


def assignment_proto(devices: tuple[tuple[int, ...], ...]) -> bytes:
    """The serialised DeviceAssignmentProto of `device_assignment[replica][partition]`."""
    columns = [embedded(_REPLICA_DEVICE_IDS, b"".join(map(varint, column))) for column in zip(*devices, strict=True)]
    sizes = scalar(1, len(devices)) + scalar(2, len(devices[0]))
    return sizes + b"".join(embedded(_COMPUTATION_DEVICES, column) for column in columns)
