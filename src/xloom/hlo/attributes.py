"""Structured attribute values. Plain lists are tuples of int; enums are their HLO spelling as str."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window; fields as in XLA's WindowDimension."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """Extent of the window over its (dilated) input, 0 for an empty window."""
        return (self.size - 1) * self.window_dilation + 1 if self.size > 0 else 0

    def output_size(self, size: int) -> int:
        """How many window positions fit an input of `size` elements, after dilation and padding."""
        base = (size - 1) * self.base_dilation + 1 if size > 0 else 0
        padded = base + self.padding_low + self.padding_high
        if padded <= 0 or self.dilated_size > padded or self.size == 0:
            return 0
        return (padded - self.dilated_size) // self.stride + 1


Window = tuple[WindowDimension, ...]


class PaddingDimension(NamedTuple):
    """Padding of one dimension of `pad`: elements added (or, if negative, cut) at the edges and between elements."""

    low: int
    high: int
    interior: int = 0


class SliceDimension(NamedTuple):
    """Start, limit (exclusive) and stride of one dimension of `slice`."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """Which dimension of input, kernel and output plays which role."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


class Alias(NamedTuple):
    """`output_to_operand_aliasing`: the output part at `output_index` shares memory with a part of an operand."""

    output_index: tuple[int, ...]
    operand: int
    operand_index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction came from; XLA's OpMetadata. Lines and columns are 1-based, 0 when unknown."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    size_of_generated_code_in_bytes: int = 0
    size_of_memory_working_set_in_bytes: int = 0
    preserve_layout: bool = False
    deduplicated_name: str = ""
    stack_frame_id: int = 0
    scheduling_name: str = ""
    payload: bytes = b""

    @property
    def location(self) -> str:
        """`file:line`, or an empty string."""
        return f"{self.source_file}:{self.source_line}" if self.source_file else ""


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """A leaf of a value of the program before optimisation: the instruction's name then, and a tuple index."""

    instruction: str
    index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginalValue:
    """Which values of the original program an instruction computes: a tree shaped like its result.

    A node is an OriginalArray, None (unknown), or a tuple of nodes; `synthetic_call` marks calls that have none.
    """

    tree: OriginalArray | tuple[Any, ...] | None = None
    synthetic_call: bool = False


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """Requested accuracy: a mode ("default", "highest"), or tolerances."""

    mode: str = "default"
    tolerance: tuple[float, float, int] | None = None


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """Structured sparsity of one operand: `non_zero` of every `block` elements along `dimension`."""

    non_zero: int = 0
    block: int = 0
    dimension: int = 0
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Structured sparsity of a convolution's operands."""

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers shown beside an instruction in a drawing; `shown` is the index of the one in front."""

    shown: int
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The module's table of Python stacks. Identifiers count from 1; parent 0 is none."""

    file_names: tuple[str, ...]
    function_names: tuple[str, ...]
    locations: tuple[tuple[int, int, int, int, int, int], ...]
    """file name, function name, line, end line, column, end column"""
    frames: tuple[tuple[int, int], ...]
    """location, parent frame"""
