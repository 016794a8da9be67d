"""How the parts of HloInstructionProto turn into attribute values, and back.

A reader gets the instruction's message and its operands, and returns the attribute's value, or None when it is not
there; a writer gets the value and the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from xloom.errors import ShapeError
from xloom.hlo.attribute_defaults import default_comparison
from xloom.hlo.attributes import (
    Alias,
    ConvolutionDimensions,
    PaddingDimension,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    TensorSparsity,
    WindowDimension,
)
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.opcodes import ENUMS
from xloom.hlo.proto.annotations import raw, text
from xloom.hlo.proto.literals import literal_from_message, write_literal
from xloom.hlo.proto.shapes import shape_from_bytes, shape_to_bytes
from xloom.hlo.proto.shardings import (
    replica_groups_from_instruction,
    sharding_from_bytes,
    sharding_to_bytes,
    write_replica_groups,
)
from xloom.hlo.shape import Shape

Operands = Sequence[Instruction]


class Codec(NamedTuple):
    """How one attribute stands in an instruction's message."""

    read: Callable[[Any, Operands], Any]
    write: Callable[[Any, Any], None]


# -- codecs of a plain field ---------------------------------------------------------------------------------------


def set_field(path: str) -> Callable[[Any, Any], None]:
    """The writer of the field at `path`."""
    parent, _, name = path.rpartition(".")
    holder = attrgetter(parent) if parent else None
    return lambda value, message: setattr(holder(message) if holder else message, name, value)


def scalar(path: str) -> Codec:
    """A number or truth value."""
    get = attrgetter(path)
    return Codec(lambda message, _: get(message), set_field(path))


def at_least_one(path: str) -> Codec:
    """A count, which is 1 when it is not set."""
    get = attrgetter(path)
    return Codec(lambda message, _: max(get(message), 1), set_field(path))


def text_field(path: str) -> Codec:
    """A string."""
    get, put = attrgetter(path), set_field(path)
    return Codec(lambda message, _: text(get(message)), lambda value, message: put(raw(value), message))


def enum(path: str, key: str) -> Codec:
    """An enum by number; `key` is its table of spellings."""
    numbers = ENUMS[key]
    spellings = {number: spelling for spelling, number in numbers.items()}
    get, put = attrgetter(path), set_field(path)

    def read(message: Any, _: Operands) -> str:
        number = get(message)
        if number not in spellings:
            raise ShapeError(
                f"there is no {key.replace('_', ' ')} number {number}",
                hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
            )
        return spellings[number]

    return Codec(read, lambda value, message: put(numbers[value], message))


def word(path: str, key: str) -> Codec:
    """An enum that is spelled out."""
    get, put = attrgetter(path), set_field(path)

    def read(message: Any, _: Operands) -> str:
        word = text(get(message))
        if word not in ENUMS[key]:
            raise ShapeError(
                f"there is no {key.replace('_', ' ')} {word!r}",
                hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
            )
        return word

    return Codec(read, lambda value, message: put(raw(value), message))


def ints(path: str) -> Codec:
    """A list of numbers or truth values."""
    get = attrgetter(path)
    return Codec(lambda message, _: tuple(get(message)), lambda value, message: get(message).extend(value))


def one_dimension() -> Codec:
    """One number, as the list of dimensions."""

    def read(message: Any, _: Operands) -> int | None:
        if len(message.dimensions) > 1:
            raise ShapeError(f"expected one, found {len(message.dimensions)}")
        return message.dimensions[0] if message.dimensions else None

    return Codec(read, lambda value, message: message.dimensions.append(value))


# -- codecs of structured attributes -------------------------------------------------------------------------------

_WINDOW = ("size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation", "window_reversal")


def _read_window(message: Any, _: Operands) -> tuple[WindowDimension, ...]:
    return tuple(WindowDimension(*(getattr(d, name) for name in _WINDOW)) for d in message.window.dimensions)


def _write_window(window: tuple[WindowDimension, ...], message: Any) -> None:
    message.window.SetInParent()
    for dimension in window:
        message.window.dimensions.add(**{name: getattr(dimension, name) for name in _WINDOW})


_CONVOLUTION = (
    "input_batch",
    "input_feature",
    "input_spatial",
    "kernel_input_feature",
    "kernel_output_feature",
    "kernel_spatial",
    "output_batch",
    "output_feature",
    "output_spatial",
)


def _read_dim_labels(message: Any, _: Operands) -> ConvolutionDimensions | None:
    if not message.HasField("convolution_dimension_numbers"):
        return None
    numbers = message.convolution_dimension_numbers
    fields: dict[str, Any] = {}
    for name in _CONVOLUTION:
        spatial = name.endswith("spatial")
        value = getattr(numbers, f"{name}_dimension{'s' if spatial else ''}")
        fields[name] = tuple(value) if spatial else value
    dims = ConvolutionDimensions(**fields)
    for side in (
        (dims.input_batch, dims.input_feature, *dims.input_spatial),
        (dims.kernel_input_feature, dims.kernel_output_feature, *dims.kernel_spatial),
        (dims.output_batch, dims.output_feature, *dims.output_spatial),
    ):
        if min(side) < 0 or max(side) > 1000:
            raise ShapeError(f"dimensions {side}")
    return dims


def _write_dim_labels(dims: ConvolutionDimensions, message: Any) -> None:
    numbers = message.convolution_dimension_numbers
    for name in _CONVOLUTION:
        if name.endswith("spatial"):
            getattr(numbers, f"{name}_dimensions").extend(getattr(dims, name))
        else:
            setattr(numbers, f"{name}_dimension", getattr(dims, name))


def _read_slice(message: Any, _: Operands) -> tuple[SliceDimension, ...]:
    return tuple(SliceDimension(d.start, d.limit, d.stride) for d in message.slice_dimensions)


def _write_slice(dims: tuple[SliceDimension, ...], message: Any) -> None:
    for dimension in dims:
        message.slice_dimensions.add(**dimension._asdict())


def _read_padding(message: Any, _: Operands) -> tuple[PaddingDimension, ...]:
    dims = message.padding_config.dimensions
    return tuple(PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in dims)


def _write_padding(dims: tuple[PaddingDimension, ...], message: Any) -> None:
    message.padding_config.SetInParent()
    for low, high, interior in dims:
        message.padding_config.dimensions.add(edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


def _read_precision(message: Any, operands: Operands) -> tuple[str, ...] | None:
    found = message.precision_config.operand_precision
    if not any(found):
        return None
    spellings = {number: spelling for spelling, number in ENUMS["precision"].items()}
    if any(number not in spellings for number in found):
        raise ShapeError(
            f"no such precision in {list(found)}",
            hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
        )
    return tuple(spellings[number] for number in found)


def _write_precision(precision: tuple[str, ...], message: Any) -> None:
    message.precision_config.operand_precision.extend(ENUMS["precision"][p] for p in precision)


def _read_aliasing(message: Any, _: Operands) -> tuple[Alias, ...]:
    pairs = message.output_operand_aliasing
    return tuple(Alias(tuple(a.output_shape_index), a.operand_index, tuple(a.operand_shape_index)) for a in pairs)


def _write_aliasing(pairs: tuple[Alias, ...], message: Any) -> None:
    for output, operand, index in pairs:
        message.output_operand_aliasing.add(output_shape_index=output, operand_index=operand, operand_shape_index=index)


def _read_channel(message: Any, _: Operands) -> int | None:
    return max(message.channel_id, message.all_reduce_id) or None


def _read_accuracy(message: Any, _: Operands) -> ResultAccuracy | None:
    accuracy = message.result_accuracy
    if accuracy.HasField("tolerance"):
        return ResultAccuracy(tolerance=(accuracy.tolerance.atol, accuracy.tolerance.rtol, accuracy.tolerance.ulps))
    if accuracy.mode not in (0, 1):
        raise ShapeError(
            f"there is no mode number {accuracy.mode}",
            hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
        )
    return ResultAccuracy("highest") if accuracy.mode else None


def _write_accuracy(value: ResultAccuracy, message: Any) -> None:
    if value.tolerance is not None:
        tolerance = message.result_accuracy.tolerance
        tolerance.atol, tolerance.rtol, tolerance.ulps = value.tolerance
    elif value.mode == "highest":
        message.result_accuracy.mode = 1


def _read_sparsity(message: Any, _: Operands) -> Sparsity | None:
    config = message.sparsity_config

    def side(name: str) -> TensorSparsity | None:
        if not config.HasField(name):
            return None
        one = getattr(config, name)
        return TensorSparsity(one.num_non_zero, one.block_size, one.dimension, one.stride)

    found = Sparsity(side("lhs"), side("rhs"))
    return found if found.lhs or found.rhs else None


def _write_sparsity(value: Sparsity, message: Any) -> None:
    for name in ("lhs", "rhs"):
        one: TensorSparsity | None = getattr(value, name)
        if one is not None:
            side = getattr(message.sparsity_config, name)
            side.num_non_zero, side.block_size = one.non_zero, one.block
            side.dimension, side.stride = one.dimension, one.stride


# what HLO text calls the entry of a domain is the exit's field, and the other way round
def _read_domain(message: Any, _: Operands) -> tuple[Any, Any] | None:
    if not message.HasField("domain_exit_sharding") or not message.HasField("domain_entry_sharding"):
        return None
    return sharding_from_bytes(message.domain_exit_sharding), sharding_from_bytes(message.domain_entry_sharding)


def _write_domain(value: tuple[Any, Any], message: Any) -> None:
    message.domain_exit_sharding, message.domain_entry_sharding = map(sharding_to_bytes, value)


def _read_constraints(message: Any, _: Operands) -> tuple[Shape, ...] | None:
    if not message.constrain_layout:
        return None
    return tuple(map(shape_from_bytes, message.operand_shapes_with_layout))


def _write_constraints(shapes: tuple[Shape, ...], message: Any) -> None:
    message.constrain_layout = True
    message.operand_shapes_with_layout.extend(map(shape_to_bytes, shapes))


def _read_slice_sizes(message: Any, operands: Operands) -> tuple[tuple[int, ...], ...]:
    # all sizes in one list: as many for each start index as the buffer that it is for has dimensions
    flat = list(message.dynamic_slice_sizes)
    if not flat:
        return ()
    if len(operands) != 4:
        raise ShapeError("slices are sent between two buffers, with start indices for each")
    buffers, starts = operands[0].shape, operands[2].shape
    pairs = list(zip(buffers.elements, starts.elements, strict=False)) if buffers.is_tuple else [(buffers, starts)]
    out = []
    for buffer, start in pairs:
        nested = start.is_tuple and start.elements and start.elements[0].is_tuple
        for _ in range(len(start.elements) if nested else 1):
            if len(flat) < buffer.rank:
                return tuple(out)
            out.append(tuple(flat[: buffer.rank]))
            del flat[: buffer.rank]
    return tuple(out)


def _write_slice_sizes(sizes: tuple[tuple[int, ...], ...], message: Any) -> None:
    for one in sizes:
        message.dynamic_slice_sizes.extend(one)


def _read_source_target(message: Any, _: Operands) -> tuple[tuple[int, int], ...]:
    return tuple((p.source, p.target) for p in message.source_target_pairs)


def _write_source_target(pairs: tuple[tuple[int, int], ...], message: Any) -> None:
    for source, target in pairs:
        message.source_target_pairs.add(source=source, target=target)


def _read_comparison_type(message: Any, operands: Operands) -> str | None:
    word = text(message.comparison_type)
    if word and word not in ENUMS["comparison_type"]:
        raise ShapeError(
            f"there is no comparison type {word!r}",
            hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
        )
    return word if word and operands and word != default_comparison(operands[0].shape) else None


def _read_literal(message: Any, _: Operands) -> Literal | None:
    if message.HasField("literal"):
        return literal_from_message(message.literal)
    # XLA leaves out a constant whose values it does not have
    return Literal(shape_from_bytes(message.shape), elided=True) if message.opcode == b"constant" else None


def _write_literal(value: Literal, message: Any) -> None:
    if not value.elided:
        write_literal(value, message.literal)


def _read_prefetch(message: Any, _: Operands) -> int | None:
    if message.HasField("cross_program_prefetch_index"):
        return message.cross_program_prefetch_index
    return 0 if message.is_cross_program_prefetch else None


def if_set(field: str, codec: Codec) -> Codec:
    """`codec`, whose attribute is None when the field is not set."""
    return Codec(lambda m, operands: codec.read(m, operands) if m.HasField(field) else None, codec.write)


THREAD = Codec(
    lambda message, _: text(message.async_execution_thread) or "main",
    lambda value, message: setattr(message, "async_execution_thread", raw(value)),
)
CHANNEL = Codec(_read_channel, set_field("channel_id"))
PREFETCH_INDEX = Codec(_read_prefetch, set_field("cross_program_prefetch_index"))
DIM_LABELS = Codec(_read_dim_labels, _write_dim_labels)
DOMAIN = Codec(_read_domain, _write_domain)
# XLA counts in three: unspecified, true, false
TRI_STATE = Codec(
    lambda message, _: message.is_associative == 1,
    lambda value, message: setattr(message, "is_associative", 1 if value else 2),
)
LITERAL = Codec(_read_literal, _write_literal)
LAYOUT_CONSTRAINTS = Codec(_read_constraints, _write_constraints)
PRECISION = Codec(_read_precision, _write_precision)
OUTFEED_SHAPE = Codec(
    lambda message, _: shape_from_bytes(message.outfeed_shape),
    lambda value, message: setattr(message, "outfeed_shape", shape_to_bytes(value)),
)
ALIASING = Codec(_read_aliasing, _write_aliasing)
PADDING = Codec(_read_padding, _write_padding)
REPLICA_GROUPS = Codec(lambda message, _: replica_groups_from_instruction(message), write_replica_groups)
ACCURACY = Codec(_read_accuracy, _write_accuracy)
SLICE = Codec(_read_slice, _write_slice)
SLICE_SIZES = Codec(_read_slice_sizes, _write_slice_sizes)
SOURCE_TARGET = Codec(_read_source_target, _write_source_target)
SPARSITY = Codec(_read_sparsity, _write_sparsity)
COMPARISON_TYPE = Codec(_read_comparison_type, lambda value, message: setattr(message, "comparison_type", raw(value)))
WINDOW = Codec(_read_window, _write_window)
