"""What a module costs, by the names and rules of XLA's cost analysis: each loop counts as one iteration, each
conditional as its dearest branch, and of custom calls it is only said, by -1, that their costs are not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

from xloom.hlo.attributes import WindowDimension
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape

Cost = dict[str, float]
"""By XLA's names."""

FLOPS, TRANSCENDENTALS, BYTES = "flops", "transcendentals", "bytes accessed"
_TRANSCENDENTAL = frozenset({"atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "tan"})
_TRANSCENDENTAL |= {"log-plus-one", "logistic", "power", "rng", "rng-bit-generator", "rsqrt", "sine", "sqrt", "tanh"}
_FREE = frozenset(["parameter", "constant", "get-tuple-element", "bitcast", "after-all"])
_CALLS = frozenset(["call", "fusion", "while", "async-start"])
_COMPLEX_MULTIPLY_ADD = 4
_MULTIPLY_ADD = 2
_POINTER = 8


def cost_analysis(module: Module) -> dict[str, float]:
    """The costs of a run; those that are zero are left out, as in XLA.

    Each instruction outside of fusions reads its operands from memory, and writes its result there. What it reads of
    operand k is counted in `bytes accessedk{}`, and which part of it that is in `utilizationk{}`.
    """
    known: dict[Computation, Cost] = {}
    for computation in callees_first([module.entry]):
        known[computation] = _sum(_cost(instruction, known) for instruction in computation)
    return {name: float(value) for name, value in known[module.entry].items() if value}


def of_memory(read: Sequence[float], written: float, used: Sequence[float] = ()) -> Cost:
    """Of what reads and writes so many bytes, and uses such parts of its operands; by default all of them."""
    cost: Cost = {BYTES: sum(read) + written, f"{BYTES}out{{}}": written}
    for k, size in enumerate(read):
        cost[f"{BYTES}{k}{{}}"] = size
        cost[f"utilization{k}{{}}"] = used[k] if k < len(used) else 1
    return cost


def _sum(costs: Iterable[Cost]) -> Cost:
    total: Cost = {}
    for cost in costs:
        for name, count in cost.items():
            total[name] = total.get(name, 0) + count
    return total


def _cost(instruction: Instruction, known: dict[Computation, Cost]) -> Cost:
    opcode = instruction.opcode
    called = [known[computation] for computation in instruction.called_computations]
    if opcode == "conditional":
        return {name: max(cost.get(name, 0) for cost in called) for name in _sum(called)}
    if opcode in _CALLS:
        inner = _sum(called)
        return {**inner, **_memory(instruction)} if opcode == "fusion" else inner
    cost = _memory(instruction)
    if opcode == "custom-call":
        cost[FLOPS] = cost["optimal_seconds"] = -1
    elif called and opcode != "sort":
        for applied, count in zip(called, _applications(instruction), strict=True):
            for name in (FLOPS, TRANSCENDENTALS):
                cost[name] = cost.get(name, 0) + count * applied.get(name, 0)
    elif opcode in _TRANSCENDENTAL:
        cost[TRANSCENDENTALS] = sum(shape.size for _, shape in instruction.shape.leaves())
    else:
        cost[FLOPS] = _flops(instruction)
    return cost


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
        case "cholesky":
            return operands[0].shape.size * operands[0].shape.dims[-1] // 3
        case "triangular-solve":
            return _MULTIPLY_ADD * operands[1].shape.size * operands[0].shape.dims[-1]
        case "optimization-barrier" | "domain":
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


def _applications(instruction: Instruction) -> list[int]:
    """How often an instruction applies each computation that it calls."""
    operands = instruction.operands
    size = operands[0].shape.size
    match instruction.opcode:
        case "reduce":
            return [size - _first(instruction).size]
        case "reduce-window":
            return [_first(instruction).size * (prod(d.size for d in instruction["window"]) - 1)]
        case "select-and-scatter":
            selected = operands[1].shape.size
            return [selected * (prod(d.size for d in instruction["window"]) - 1), selected]
        case "scatter":
            return [operands[-1].shape.size]
        case _:
            return [size] * len(instruction.called_computations)


def _first(instruction: Instruction) -> Shape:
    """The shape of an instruction's first result."""
    return next(shape for _, shape in instruction.shape.leaves())


def _memory(instruction: Instruction) -> Cost:
    """What an instruction reads and writes."""
    operands, result = instruction.operands, instruction.shape.nbytes
    sizes = [float(o.shape.nbytes) for o in operands]
    match instruction.opcode:
        case opcode if opcode in _FREE:
            return of_memory([0.0] * len(sizes), 0)
        case "tuple":
            return of_memory([0.0] * len(sizes), _POINTER * len(sizes))
        case "custom-call":
            cost = of_memory([-1.0] * len(sizes), -1)
            cost[BYTES] = -1
            return cost
        case "slice":
            return of_memory([result], result, [_part(result, sizes[0])])
        case "gather" | "dynamic-slice":
            cost, indices = of_memory([result, *sizes[1:]], result, [_part(result, sizes[0])]), sizes[1:]
        case "dynamic-update-slice":
            cost, indices = of_memory([0, *sizes[1:]], sizes[1], [1 - _part(sizes[1], sizes[0])]), sizes[2:]
        case "scatter":
            arrays = len(operands) // 2
            updates = sizes[arrays + 1 :]
            return of_memory([*updates, *sizes[arrays:]], sum(updates))
        case "cholesky":
            cost = of_memory(sizes, result / 2)
            cost[BYTES] -= sizes[0] / 2
            return cost
        case "triangular-solve":
            return of_memory([sizes[0] / 2, sizes[1]], result)
        case _:
            return of_memory(sizes, result)
    cost[BYTES] -= sum(indices[1:])  # XLA counts the first index alone
    return cost


def _part(size: float, whole: float) -> float:
    return size / whole if whole else 0
