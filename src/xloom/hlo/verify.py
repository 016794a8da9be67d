"""Checks that a module obeys the rules of HLO."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xloom.errors import ShapeError, VerifyError
from xloom.hlo.instruction import Instruction, async_computation
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape, tuple_shape
from xloom.hlo.verify_aliases import buffer_problems, check_aliases
from xloom.hlo.verify_devices import (
    channel_problems,
    check_gather_shapes,
    check_ragged_all_to_all,
    check_sharding_devices,
    sharding_problems,
)
from xloom.hlo.verify_graph import graph_problems, has_cyclic_calls, instruction_error
from xloom.infer import RULES, infer_shape
from xloom.infer.control import check_arguments

# an explicit shape may differ from the inferred one in these, by XLA's own rules
_FREE_SHAPES = frozenset(
    {
        "collective-permute",
        "all-gather",
        "reduce-scatter",
        "all-reduce-start",
        "collective-broadcast",
        "all-reduce-done",
        "all-gather-done",
        "scan",
        "ragged-dot",
        "scaled-dot",
    }
)
# the element type of the result may be chosen, as of a product with a wider accumulator
_FREE_TYPES = frozenset({"dot", "convolution", "reduce-window", "reduce", "scatter", "all-reduce"})


def verify(module: Module) -> None:
    """Raises VerifyError for the first rule that `module` breaks, naming the instruction and its source line.

    Checked: the graph (operands, users, parents, roots, cycles, names), parameter numbers, shapes against inference,
    called computations against their callers, layouts, asynchronous pairs, aliases. Linear in the module's size.
    """
    for error in problems(module):
        raise error


def problems(module: Module) -> Iterator[VerifyError]:
    """Every broken rule, one error an instruction, computation or configuration entry."""
    if module.entry is None or module.entry not in module._computations:
        yield VerifyError("the module has no entry computation", where=module.name)
        return
    names: dict[str, str] = {}
    for computation in module.computations:
        yield from graph_problems(module, computation, names)
    if has_cyclic_calls(module):
        yield VerifyError("computations call each other in a cycle", where=module.name)
        return
    for computation in module.computations:
        for instruction in computation:
            problem = _instruction_problem(instruction)
            if problem is not None:
                yield problem
        yield from buffer_problems(computation, f"computation {computation.name}")
    yield from channel_problems(module)
    yield from _configuration(module)


def _instruction_problem(instruction: Instruction) -> VerifyError | None:
    row = OPCODES.get(instruction.opcode)
    if row is None:
        return instruction_error(instruction, "unknown opcode")
    if row.arity >= 0 and len(instruction._operands) != row.arity:
        return instruction_error(instruction, f"takes {row.arity} operands, found {len(instruction._operands)}")
    missing = [n for n, u in row.attributes.items() if u.required and n not in instruction.attrs]
    if missing:
        return instruction_error(
            instruction, f"the attribute {missing[0]} is missing", row.attributes[missing[0]].info.doc
        )
    for _, leaf in instruction.shape.leaves():
        if leaf.layout is not None and sorted(leaf.layout.minor_to_major) != list(range(leaf.rank)):
            return instruction_error(instruction, f"the layout of {leaf} is not a permutation of its dimensions")
    try:
        _shape_problem(instruction)
        check = _CHECKS.get(instruction.opcode)
        if check is not None:
            check(instruction)
        check_aliases(instruction)
        if instruction.opcode in _BEGINS:
            _one_user(instruction)
        if instruction.opcode != "async-start":
            _same_thread(instruction)
        # an outfeed's sharding is that of its data
        if instruction.sharding is not None and instruction.opcode != "outfeed":
            _sharding(instruction)
            check_sharding_devices(instruction, _device_count(instruction))
        different = sharding_problems(instruction)
        if different:
            return instruction_error(instruction, different)
        if "origin" in instruction.attrs:
            _origin(instruction.attrs["origin"].tree, instruction.shape)
    except ShapeError as error:
        return instruction_error(instruction, error.message.removeprefix(f"{instruction.opcode}: "), error.hint)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        return instruction_error(instruction, f"malformed attributes: {error!r}")
    return None


def _shape_problem(instruction: Instruction) -> None:
    opcode = instruction.opcode
    if opcode not in RULES or opcode in _FREE_SHAPES or opcode == "broadcast":
        return
    inferred = infer_shape(opcode, [o.shape for o in instruction._operands], instruction.attrs)
    shape = instruction.shape
    if opcode in _FREE_TYPES:
        inferred = _with_types_of(inferred, shape)
    if not _same(inferred, shape):
        raise ShapeError(f"its shape is {shape}, but its operands and attributes give {inferred}")


def _same(a: Shape, b: Shape) -> bool:
    """Compatible, where a dynamic dimension may have another bound, and floats another precision."""
    if a.elements or b.elements:
        return len(a.elements) == len(b.elements) and all(map(_same, a.elements, b.elements))
    if a.is_dynamic or b.is_dynamic:
        return a.rank == b.rank
    return a.compatible(b, ignore_fp_precision=True)


def _with_types_of(shape: Shape, other: Shape) -> Shape:
    if shape.is_tuple and other.is_tuple and len(shape.elements) == len(other.elements):
        return tuple_shape([_with_types_of(a, b) for a, b in zip(shape.elements, other.elements, strict=True)])
    return shape.with_dtype(other.dtype) if shape.is_array and other.is_array else shape


_BEGINS = frozenset(
    {
        "async-start",
        "async-update",
        "copy-start",
        "all-gather-start",
        "all-reduce-start",
        "collective-permute-start",
    }
)


def _same_thread(i: Instruction) -> None:
    mine = i.parent.execution_thread if i.parent is not None else "main"
    for callee in i.called_computations:
        _require(
            callee.execution_thread == mine, f"{callee.name} runs on {callee.execution_thread}, its caller on {mine}"
        )


def _device_count(i: Instruction) -> int:
    module = i.parent.module if i.parent is not None else None
    return module.config.num_partitions if module is not None else 1


def _origin(tree: object, shape: Shape) -> None:
    if not isinstance(tree, tuple):
        return
    _require(shape.is_tuple and len(tree) == len(shape.elements), f"its origin is a tuple of another form than {shape}")
    for part, element in zip(tree, shape.elements, strict=True):
        _origin(part, element)


def _sharding(i: Instruction) -> None:
    sharding = i.sharding
    leaves = [leaf for _, leaf in i.shape.leaves()]
    parts = sharding.elements if sharding.kind == "tuple" else (sharding,) * len(leaves)
    count = len(leaves) or 1  # an empty tuple has one sharding
    _require(sharding.kind != "tuple" or len(parts) == count, f"{len(parts)} shardings for {count} leaves")
    for part, leaf in zip(parts, leaves, strict=False):
        if part.kind == "tiled" and leaf.is_array:
            rank = len(part.tile_dims) - len(part.last_tile_dims) - part.replicate_last
            _require(rank == leaf.rank, f"a sharding of {rank} dimensions for {leaf}")


# -- what inference cannot say -------------------------------------------------------------------------------------


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ShapeError(message)


def _broadcast(i: Instruction) -> None:
    operand, dims = i._operands[0].shape, i["dimensions"]
    _require(operand.is_array and len(dims) == operand.rank, f"dimensions={dims} for an operand of {operand}")
    _require(len(set(dims)) == len(dims), f"a dimension stands twice in {dims}")
    _require(operand.dtype is i.shape.dtype, f"cannot turn {operand} into {i.shape}")
    for k, d in enumerate(dims):
        _require(0 <= d < i.shape.rank, f"dimension {d} is out of range for {i.shape}")
        fits = operand.dims[k] == i.shape.dims[d] or operand.is_dynamic or i.shape.is_dynamic
        _require(fits, f"dimension {k} of {operand} does not fit dimension {d} of {i.shape}")


def _reshape(i: Instruction) -> None:
    operand = i._operands[0].shape
    _require(operand.dtype is i.shape.dtype, f"cannot turn {operand} into {i.shape}")
    free = operand.is_dynamic or i.shape.is_dynamic
    _require(free or operand.size == i.shape.size, f"{operand} and {i.shape} have different numbers of elements")


def _constant(i: Instruction) -> None:
    _require(i.literal.shape.compatible(i.shape), f"a literal of {i.literal.shape} for {i.shape}")


def _iota(i: Instruction) -> None:
    _require(i.shape.is_array and 0 <= i["iota_dimension"] < i.shape.rank, f"no dimension {i['iota_dimension']}")
    _require(i.shape.dtype.name != "pred", "pred does not count")


def _convert(i: Instruction) -> None:
    operand = i._operands[0].shape
    _require(operand.is_array and i.shape.is_array, f"cannot convert {operand} to {i.shape}")
    _require(operand.dims == i.shape.dims or i.shape.is_dynamic, f"cannot convert {operand} to {i.shape}")


def _bitcast_convert(i: Instruction) -> None:
    a, b = i._operands[0].shape, i.shape
    bits = [1 if s.dtype.name == "pred" else s.dtype.bits for s in (a, b)]
    _require(a.is_dynamic or a.size * bits[0] == b.size * bits[1], f"{a} and {b} have different numbers of bits")


def _fusion(i: Instruction) -> None:
    body = i["calls"]
    check_arguments(body, [o.shape for o in i._operands])
    _require(_same(body.root.shape, i.shape), f"its shape is {i.shape}, its computation returns {body.root.shape}")


def _reducer(i: Instruction) -> None:
    body = i["to_apply"]
    count = len(i._operands) // 2
    _require(len(body.parameters) == 2 * count, f"{body.name} must take {2 * count} scalars")
    for p in body.parameters:
        _require(p.shape.is_scalar, f"{body.name} must take scalars, found {p.shape}")


def _comparator(i: Instruction) -> None:
    body = i["to_apply"]
    _require(len(body.parameters) == 2 * len(i._operands), f"{body.name} must take {2 * len(i._operands)} scalars")
    root = body.root.shape
    _require(root.is_scalar and root.dtype.name == "pred", f"{body.name} must return pred[], found {root}")
    for k, operand in enumerate(i._operands):
        for p in body.parameters[2 * k : 2 * k + 2]:
            _require(
                p.shape.is_scalar and p.shape.dtype is operand.shape.dtype,
                f"{body.name} must take two scalars of {operand.shape.dtype.name}, found {p.shape}",
            )


def _async_chain(i: Instruction) -> None:
    body = async_computation(i)
    if body is None:
        raise ShapeError("it is not at the end of a chain that an async-start begins")
    if i.opcode == "async-start":
        # an update may bring the other operands
        if not any(user.opcode == "async-update" and len(user._operands) > 1 for user in i.users):
            check_arguments(body, [o.shape for o in i._operands])
        _require(i.shape.elements[0].is_tuple, f"its state begins with a tuple of the operands, found {i.shape}")
        result = i.shape.elements[1] if len(i.shape.elements) > 1 else None
        _require(result is not None and _same(body.root.shape, result), f"its computation returns {body.root.shape}")
    elif i.opcode == "async-done":
        _require(_same(i.shape, body.root.shape), f"its computation returns {body.root.shape}")


def _one_user(i: Instruction) -> None:
    _require(len(i.users) == 1, f"it must have one user, which ends it; found {len(i.users)}")


def _rng(i: Instruction) -> None:
    for operand in i._operands:
        _require(operand.shape.is_scalar, f"its parameters must be scalars, found {operand.shape}")
        _require(operand.shape.dtype is i.shape.dtype, f"parameter {operand.shape} for numbers of {i.shape}")
    normal = i["distribution"] == "rng_normal"
    _require(
        i.shape.dtype.is_float or not (normal or i.shape.dtype.is_complex), f"no such {i.shape.dtype.name} numbers"
    )


def _compare(i: Instruction) -> None:
    kind = i.attrs.get("type")
    dtype = i._operands[0].shape.dtype
    fits = (
        ("FLOAT", "TOTALORDER")
        if dtype.is_float or dtype.is_complex
        else (("SIGNED",) if dtype.name.startswith("s") else ("UNSIGNED",))
    )
    _require(kind is None or kind in fits, f"type={kind} for {dtype.name}, which has {' or '.join(fits)}")


def _conditional(i: Instruction) -> None:
    chooser = i._operands[0].shape
    _require(
        chooser.is_scalar and chooser.dtype.name in ("pred", "s32"), f"it is chosen by pred[] or s32[], not {chooser}"
    )


def _reduce_scatter(i: Instruction) -> None:
    _groups(i)
    (dim,) = i["dimensions"]
    sizes = {len(g) for g in i["replica_groups"].groups(0)} if i["replica_groups"] is not None else {0}
    _require(len(sizes) == 1, "the replica groups have different sizes")
    results = i.shape.elements if i.shape.is_tuple else (i.shape,)
    for operand, result in zip(i._operands, results, strict=True):
        _require(0 <= dim < operand.shape.rank, f"dimension {dim} is out of range for {operand.shape}")
        count = sizes.copy().pop()
        # with a channel, the groups may be of partitions that the numbers do not show
        fits = not count or i["channel_id"] is not None or operand.shape.dims[dim] == result.dims[dim] * count
        _require(fits, f"{operand.shape} in {count} parts is not {result}")


def _composite(i: Instruction) -> None:
    if i["is_composite"]:
        given = i.frontend_attributes
        _require("composite.name" in given, "a composite call has the frontend attribute composite.name")
        version = given.get("composite.version", "0")
        _require(version.isdigit(), f"composite.version={version} is not a non-negative integer")


def _done_of(start: str) -> Callable[[Instruction], None]:
    def check(i: Instruction) -> None:
        _require(i._operands[0].opcode == start, f"its operand must be a {start}, found {i._operands[0].opcode}")

    return check


def _pairs(i: Instruction) -> None:
    pairs = i["source_target_pairs"]
    _require(all(len(p) == 2 for p in pairs), "source_target_pairs holds pairs")
    if i["slice_sizes"]:  # the in-place form may move several slices between two devices
        return
    for side, name in ((0, "source"), (1, "target")):
        numbers = [p[side] for p in pairs]
        _require(len(set(numbers)) == len(numbers), f"a {name} stands twice in source_target_pairs")


def _groups(i: Instruction) -> None:
    groups = i["replica_groups"]
    if groups is None:
        return
    numbers = [n for g in groups.groups(0) for n in g]
    flat = i.opcode != "all-to-all" and i.attrs.get("use_global_device_ids")
    _require(bool(numbers) or not flat, "global device numbers need replica_groups that are written")
    _require(len(set(numbers)) == len(numbers), "a device stands twice in replica_groups")
    _require(all(n >= 0 for n in numbers), "a device number in replica_groups is negative")


def _all_gather(i: Instruction) -> None:
    _groups(i)
    check_gather_shapes(i)


def _scaled_dot(i: Instruction) -> None:
    lhs, rhs, *scales = (o.shape for o in i._operands)
    _require(any(s.rank for s in scales), "one of its scales must be an array")
    for operand, scale in zip((lhs, rhs), scales, strict=True):
        if scale.rank:
            _require(scale.rank == operand.rank, f"scales of {scale} for {operand}, which has another rank")
            fits = all(m and n % m == 0 for n, m in zip(operand.dims, scale.dims, strict=True))
            _require(fits, f"{operand} is not made of blocks with a scale each in {scale}")


def _custom_call(i: Instruction) -> None:
    if i["custom_call_target"] == "GetRngSeed":
        _require(not i._operands, f"GetRngSeed takes no operands, found {len(i._operands)}")
        _require(i.shape.is_scalar and i.shape.dtype.name == "u64", f"GetRngSeed returns u64[], not {i.shape}")


def _parameter(i: Instruction) -> None:
    _require(i["parameter_number"] >= 0, "its number is negative")


_CHECKS: dict[str, Callable[[Instruction], None]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "constant": _constant,
    "iota": _iota,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "fusion": _fusion,
    "reduce": _reducer,
    "reduce-window": _reducer,
    "sort": _comparator,
    "async-start": _async_chain,
    "async-update": _async_chain,
    "async-done": _async_chain,
    "all-gather-done": _done_of("all-gather-start"),
    "all-reduce-done": _done_of("all-reduce-start"),
    "collective-permute-done": _done_of("collective-permute-start"),
    "copy-done": _done_of("copy-start"),
    "collective-permute": _pairs,
    "collective-permute-start": _pairs,
    "all-gather": _all_gather,
    "all-gather-start": check_gather_shapes,
    "ragged-all-to-all": check_ragged_all_to_all,
    "scaled-dot": _scaled_dot,
    "custom-call": _custom_call,
    "all-reduce": _groups,
    "all-to-all": _groups,
    "reduce-scatter": _reduce_scatter,
    "rng": _rng,
    "compare": _compare,
    "conditional": _conditional,
    "call": _composite,
    "collective-broadcast": _groups,
    "parameter": _parameter,
}


def _configuration(module: Module) -> Iterator[VerifyError]:
    config, entry = module.config, module.entry
    parameters = [p.shape for p in entry.parameters]
    if config.parameter_layouts is not None:
        same = len(config.parameter_layouts) == len(parameters) and all(
            map(_same, config.parameter_layouts, parameters)
        )
        if not same or config.result_layout is None or not _same(config.result_layout, entry.root.shape):
            yield VerifyError("entry_computation_layout does not fit the entry computation", where=module.name)
    for alias in config.input_output_alias:
        try:
            output = entry.root.shape.at(alias.output_index)
            if not 0 <= alias.parameter < len(parameters):
                raise ShapeError(f"the entry has no parameter {alias.parameter}")
            given = parameters[alias.parameter].at(alias.parameter_index)
            if output.nbytes != given.nbytes:
                raise ShapeError(f"output {output} cannot share memory with parameter {given}")
        except ShapeError as error:
            yield VerifyError(f"input_output_alias: {error.message}", where=module.name)
