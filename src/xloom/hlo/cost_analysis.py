"""What a module costs, by the names and rules of XLA's cost analysis: each loop counts as one iteration, each
conditional as its dearest branch, and nothing is known of custom calls."""

from __future__ import annotations

from math import gcd, prod
from typing import NamedTuple

from xloom.hlo.attributes import WindowDimension
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape

_TRANSCENDENTAL = frozenset({"atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "tan"})
_TRANSCENDENTAL |= {"log-plus-one", "logistic", "power", "rng", "rsqrt", "sine", "sqrt", "tanh"}
_FREE = frozenset(["parameter", "constant", "get-tuple-element", "tuple", "bitcast", "transpose", "after-all"])
_CALLS = frozenset(["call", "fusion", "while", "conditional", "async-start"])
_COMPLEX_MULTIPLY_ADD = 4


class _Cost(NamedTuple):
    """Of an instruction or a computation."""

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def times(self, count: int) -> _Cost:
        """What it costs to compute so many elements."""
        return _Cost(count * self.flops, count * self.transcendentals, count * self.bytes)


def cost_analysis(module: Module) -> dict[str, float]:
    """The `flops`, `transcendentals` and `bytes accessed` of a run; those that are zero are left out, as in XLA.

    Each instruction outside of fusions reads its operands from memory, and writes its result there.
    """
    known: dict[Computation, _Cost] = {}
    for computation in callees_first([module.entry]):
        known[computation] = _sum(*(_cost(instruction, known) for instruction in computation))
    named = zip(("flops", "transcendentals", "bytes accessed"), known[module.entry], strict=True)
    return {name: float(value) for name, value in named if value}


def _sum(*costs: _Cost) -> _Cost:
    return _Cost(*map(sum, zip(*costs, strict=True)))


def _cost(instruction: Instruction, known: dict[Computation, _Cost]) -> _Cost:
    opcode = instruction.opcode
    called = [known[computation] for computation in instruction.called_computations]
    if opcode == "conditional":
        return _Cost(*map(max, zip(*called, strict=True)))
    if opcode in _CALLS:
        inner = _sum(_Cost(), *called)
        return inner._replace(bytes=_moved(instruction)) if opcode == "fusion" else inner
    moved = 0 if opcode in _FREE else _moved(instruction)
    if called and opcode != "sort":
        applied = _sum(*called).times(_applications(instruction))
        return applied._replace(bytes=moved)
    if opcode in _TRANSCENDENTAL:
        return _Cost(0, instruction.shape.size, moved)
    return _Cost(_flops(instruction), 0, moved)


def _flops(instruction: Instruction) -> int:
    operands = instruction.operands
    match instruction.opcode:
        case "convolution":
            window = instruction["window"]
            numbers, image = instruction["dim_labels"], operands[0].shape.dims
            places = zip(window, (image[d] for d in numbers.input_spatial), strict=True)
            inside = prod(_places_inside(dimension, size) for dimension, size in places)
            channels = operands[1].shape.dims[numbers.kernel_input_feature]
            result = instruction.shape.dims
            outputs = result[numbers.output_batch] * result[numbers.output_feature]
            return 2 * outputs * channels * inside // instruction["batch_group_count"]
        case "fft":
            halvings = sum(length.bit_length() - 1 for length in instruction["fft_length"])
            shape = operands[0].shape if instruction["fft_type"] == "RFFT" else instruction.shape
            return 2 * _COMPLEX_MULTIPLY_ADD * halvings * shape.size
        case "sort":
            size = operands[0].shape.size
            return size * max(0, size - 1).bit_length()
        case "custom-call" | "optimization-barrier" | "domain":
            return 0
        case _:
            return flops(instruction)


def _places_inside(window: WindowDimension, size: int) -> int:
    """How many pairs of an output and an element of the kernel meet an element of the image, along one dimension."""
    stride, dilation = window.stride, window.base_dilation
    common = gcd(stride, dilation)
    period = dilation // common
    inverse = pow(stride // common, -1, period)
    count, last = 0, window.output_size(size) - 1
    for offset in range(0, window.size * window.window_dilation, window.window_dilation):
        # stride * output - shift is a place of the dilated image, where each dilation-th one is an element
        shift = window.padding_low - offset
        if shift % common == 0:
            met = shift // common * inverse % period
            low = max(0, -(-shift // stride))
            high = min(last, ((size - 1) * dilation + shift) // stride)
            count += max(0, (high - met) // period - (low - 1 - met) // period)
    return count


def _applications(instruction: Instruction) -> int:
    """How often an instruction applies the computations that it calls."""
    operands = instruction.operands
    size = operands[0].shape.size
    match instruction.opcode:
        case "reduce":
            return size - _first(instruction).size
        case "reduce-window":
            return _first(instruction).size * (prod(d.size for d in instruction["window"]) - 1)
        case "select-and-scatter":
            return operands[1].shape.size * prod(d.size for d in instruction["window"])
        case "scatter":
            return operands[-1].shape.size
        case _:
            return size


def _first(instruction: Instruction) -> Shape:
    """The shape of an instruction's first result."""
    return next(shape for _, shape in instruction.shape.leaves())


def _moved(instruction: Instruction) -> int:
    operands, result = instruction.operands, instruction.shape.nbytes
    match instruction.opcode:
        case "slice":
            return 2 * result
        case "gather" | "dynamic-slice":
            return 2 * result + sum(o.shape.nbytes for o in operands[1:])
        case "dynamic-update-slice":
            return operands[1].shape.nbytes + sum(o.shape.nbytes for o in operands[1:])
        case "scatter":
            arrays = len(operands) // 2
            updates = sum(o.shape.nbytes for o in operands[arrays + 1 :])
            return 3 * updates + operands[arrays].shape.nbytes
        case _:
            return result + sum(o.shape.nbytes for o in operands)
