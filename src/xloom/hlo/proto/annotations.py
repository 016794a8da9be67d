"""What describes an instruction without changing it, out of and into protos: metadata, attributes, origins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.attributes import Metadata, OriginalArray, OriginalValue, Statistics

LOG_MODES = {1: "default", 2: "fusion_debugger"}
"""How debug attributes are logged: number and spelling."""


def text(data: bytes) -> str:
    """A string field's text; bytes that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def raw(value: str) -> bytes:
    """The bytes of a string field."""
    return value.encode("utf-8", "surrogateescape")


_TEXTS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
_NUMBERS = (
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes",
    "stack_frame_id",
)


def metadata_from_message(message: Any, payloads: Sequence[bytes] = ()) -> Metadata:
    """Metadata; `payloads` is the module's table. Raises ShapeError for a payload that is not in it."""
    fields: dict[str, Any] = {}
    for name in _TEXTS:
        if value := getattr(message, name):
            fields[name] = text(value)
    for name in _NUMBERS:
        if value := getattr(message, name):
            fields[name] = value
    if message.profile_type:
        fields["profile_type"] = tuple(message.profile_type)
    if message.HasField("metadata_payload"):
        fields["payload"] = payload_from_message(message.metadata_payload, payloads)
    return Metadata(**fields)


def payload_from_message(message: Any, payloads: Sequence[bytes]) -> bytes:
    """A payload's bytes, which stand in it or in the module's table."""
    if not message.HasField("id"):
        return message.value
    if not 0 <= message.id < len(payloads):
        raise ShapeError(f"payload {message.id} of {len(payloads)}")
    return payloads[message.id]


def write_metadata(metadata: Metadata, message: Any) -> None:
    """Fills an OpMetadata."""
    for name in _TEXTS:
        if value := getattr(metadata, name):
            setattr(message, name, raw(value))
    for name in _NUMBERS:
        if value := getattr(metadata, name):
            setattr(message, name, value)
    message.profile_type.extend(metadata.profile_type)
    if metadata.payload:
        message.metadata_payload.value = metadata.payload


def frontend_attributes_from_message(message: Any) -> dict[str, str]:
    """The map of frontend attributes."""
    return {text(entry.key): text(entry.value) for entry in message.map}


def write_frontend_attributes(attributes: dict[str, str], message: Any) -> None:
    """Fills a FrontendAttributes, in order of the keys."""
    for key, value in sorted(attributes.items()):
        message.map.add(key=raw(key), value=raw(value))


def statistics_from_message(message: Any) -> Statistics:
    """The statistics that a StatisticsViz lists."""
    values = tuple((text(s.stat_name), s.stat_val) for s in message.statistics)
    return Statistics(message.stat_index_to_visualize, values)


def write_statistics(statistics: Statistics, message: Any) -> None:
    """Fills a StatisticsViz."""
    message.stat_index_to_visualize = statistics.shown
    for name, value in statistics.values:
        message.statistics.add(stat_name=raw(name), stat_val=value)


def original_array_from_message(message: Any) -> OriginalArray:
    """The instruction and tuple index that an OriginalArrayProto names."""
    return OriginalArray(text(message.instruction_name), tuple(message.shape_index))


def write_original_array(array: OriginalArray | None, message: Any) -> None:
    """Fills an OriginalArrayProto."""
    if array is not None:
        message.instruction_name = raw(array.instruction)
        message.shape_index.extend(array.index)


def original_value_from_message(message: Any) -> OriginalValue:
    """The tree whose leaves an OriginalValueProto lists. Raises ShapeError when their places make no tree."""
    if message.is_synthetic_call:
        return OriginalValue(synthetic_call=True)
    leaves: dict[tuple[int, ...], OriginalArray | None] = {}
    for element in message.elements:
        known = element.HasField("original_array")
        leaves[tuple(element.shape_index)] = original_array_from_message(element.original_array) if known else None
    return OriginalValue(_tree(leaves, 0))


def _tree(leaves: dict[tuple[int, ...], OriginalArray | None], depth: int) -> OriginalArray | tuple[Any, ...] | None:
    if not leaves:
        return ()
    if len(leaves) == 1:
        index, leaf = next(iter(leaves.items()))
        if len(index) == depth:
            return leaf
    if depth > 100 or any(len(index) == depth for index in leaves):
        raise ShapeError("the places of an original value's leaves make no tree")
    branches: dict[int, dict[tuple[int, ...], OriginalArray | None]] = {}
    for index, leaf in leaves.items():
        branches.setdefault(index[depth], {})[index] = leaf
    if min(branches) < 0 or max(branches) > len(leaves) * 1000:
        raise ShapeError("the places of an original value's leaves make no tree")
    # an index without leaves is an empty tuple
    return tuple(_tree(branches.get(k, {}), depth + 1) for k in range(max(branches) + 1))


def write_original_value(value: OriginalValue, message: Any) -> None:
    """Fills an OriginalValueProto."""
    if value.synthetic_call:
        message.is_synthetic_call = True
        return

    def write(node: OriginalArray | tuple[Any, ...] | None, index: tuple[int, ...]) -> None:
        if isinstance(node, tuple):
            for k, child in enumerate(node):
                write(child, (*index, k))
            return
        element = message.elements.add(shape_index=index)
        if node is not None:
            write_original_array(node, element.original_array)

    write(value.tree, ())
