"""Checks of single opcodes: rules of which shape inference says nothing."""

from __future__ import annotations

from collections.abc import Callable

from xloom.errors import ShapeError
from xloom.hlo.async_chain import async_computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.verify.devices import check_gather_shapes, check_ragged_all_to_all
from xloom.hlo.verify.shapes import alike, require
from xloom.infer.control import check_arguments


def _broadcast(i: Instruction) -> None:
    operand, dims = i._operands[0].shape, i["dimensions"]
    require(operand.is_array and len(dims) == operand.rank, f"dimensions={dims} for an operand of {operand}")
    require(len(set(dims)) == len(dims), f"a dimension stands twice in {dims}")
    require(operand.dtype is i.shape.dtype, f"cannot turn {operand} into {i.shape}")
    for k, d in enumerate(dims):
        require(0 <= d < i.shape.rank, f"dimension {d} is out of range for {i.shape}")
        fits = operand.dims[k] == i.shape.dims[d] or operand.is_dynamic or i.shape.is_dynamic
        require(fits, f"dimension {k} of {operand} does not fit dimension {d} of {i.shape}")


def _reshape(i: Instruction) -> None:
    operand = i._operands[0].shape
    require(operand.dtype is i.shape.dtype, f"cannot turn {operand} into {i.shape}")
    free = operand.is_dynamic or i.shape.is_dynamic
    require(free or operand.size == i.shape.size, f"{operand} and {i.shape} have different numbers of elements")


def _constant(i: Instruction) -> None:
    require(i.literal.shape.compatible(i.shape), f"a literal of {i.literal.shape} for {i.shape}")


def _iota(i: Instruction) -> None:
    require(i.shape.is_array and 0 <= i["iota_dimension"] < i.shape.rank, f"no dimension {i['iota_dimension']}")
    require(i.shape.dtype.name != "pred", "pred does not count")


def _convert(i: Instruction) -> None:
    operand = i._operands[0].shape
    require(operand.is_array and i.shape.is_array, f"cannot convert {operand} to {i.shape}")
    require(operand.dims == i.shape.dims or i.shape.is_dynamic, f"cannot convert {operand} to {i.shape}")


def _bitcast_convert(i: Instruction) -> None:
    a, b = i._operands[0].shape, i.shape
    bits = [1 if s.dtype.name == "pred" else s.dtype.bits for s in (a, b)]
    require(a.is_dynamic or a.size * bits[0] == b.size * bits[1], f"{a} and {b} have different numbers of bits")


def _fusion(i: Instruction) -> None:
    body = i["calls"]
    check_arguments(body, [o.shape for o in i._operands])
    require(alike(body.root.shape, i.shape), f"its shape is {i.shape}, its computation returns {body.root.shape}")


def _reducer(i: Instruction) -> None:
    body = i["to_apply"]
    count = len(i._operands) // 2
    require(len(body.parameters) == 2 * count, f"{body.name} must take {2 * count} scalars")
    for p in body.parameters:
        require(p.shape.is_scalar, f"{body.name} must take scalars, found {p.shape}")


def _comparator(i: Instruction) -> None:
    body = i["to_apply"]
    require(len(body.parameters) == 2 * len(i._operands), f"{body.name} must take {2 * len(i._operands)} scalars")
    root = body.root.shape
    require(root.is_scalar and root.dtype.name == "pred", f"{body.name} must return pred[], found {root}")
    for k, operand in enumerate(i._operands):
        for p in body.parameters[2 * k : 2 * k + 2]:
            require(
                p.shape.is_scalar and p.shape.dtype is operand.shape.dtype,
                f"{body.name} must take two scalars of {operand.shape.dtype.name}, found {p.shape}",
            )


def _async_chain(i: Instruction) -> None:
    body = async_computation(i)
    if body is None:
        raise ShapeError(
            "it is not at the end of a chain that an async-start begins",
            hint="give an async-done what async-start or async-update returns",
        )
    if i.opcode == "async-start":
        # an update may bring the other operands
        if not any(user.opcode == "async-update" and len(user._operands) > 1 for user in i.users):
            check_arguments(body, [o.shape for o in i._operands])
        require(i.shape.elements[0].is_tuple, f"its state begins with a tuple of the operands, found {i.shape}")
        result = i.shape.elements[1] if len(i.shape.elements) > 1 else None
        require(
            result is not None and alike(body.root.shape, result),
            f"its computation returns {body.root.shape}",
        )
    elif i.opcode == "async-done":
        require(alike(i.shape, body.root.shape), f"its computation returns {body.root.shape}")


def _rng(i: Instruction) -> None:
    for operand in i._operands:
        require(operand.shape.is_scalar, f"its parameters must be scalars, found {operand.shape}")
        require(operand.shape.dtype is i.shape.dtype, f"parameter {operand.shape} for numbers of {i.shape}")
    normal = i["distribution"] == "rng_normal"
    require(i.shape.dtype.is_float or not (normal or i.shape.dtype.is_complex), f"no such {i.shape.dtype.name} numbers")


def _compare(i: Instruction) -> None:
    kind = i.attrs.get("type")
    dtype = i._operands[0].shape.dtype
    fits = (
        ("FLOAT", "TOTALORDER")
        if dtype.is_float or dtype.is_complex
        else (("SIGNED",) if dtype.name.startswith("s") else ("UNSIGNED",))
    )
    require(kind is None or kind in fits, f"type={kind} for {dtype.name}, which has {' or '.join(fits)}")


def _conditional(i: Instruction) -> None:
    chooser = i._operands[0].shape
    require(
        chooser.is_scalar and chooser.dtype.name in ("pred", "s32"), f"it is chosen by pred[] or s32[], not {chooser}"
    )


def _reduce_scatter(i: Instruction) -> None:
    _groups(i)
    (dim,) = i["dimensions"]
    sizes = {len(g) for g in i["replica_groups"].groups(0)} if i["replica_groups"] is not None else {0}
    require(len(sizes) == 1, "the replica groups have different sizes")
    results = i.shape.elements if i.shape.is_tuple else (i.shape,)
    for operand, result in zip(i._operands, results, strict=True):
        require(0 <= dim < operand.shape.rank, f"dimension {dim} is out of range for {operand.shape}")
        count = sizes.copy().pop()
        # with a channel, the groups may be of partitions that the numbers do not show
        fits = not count or i["channel_id"] is not None or operand.shape.dims[dim] == result.dims[dim] * count
        require(fits, f"{operand.shape} in {count} parts is not {result}")


def _composite(i: Instruction) -> None:
    if i["is_composite"]:
        given = i.frontend_attributes
        require("composite.name" in given, "a composite call has the frontend attribute composite.name")
        version = given.get("composite.version", "0")
        require(version.isdigit(), f"composite.version={version} is not a non-negative integer")


def _done_of(start: str) -> Callable[[Instruction], None]:
    def check(i: Instruction) -> None:
        require(i._operands[0].opcode == start, f"its operand must be a {start}, found {i._operands[0].opcode}")

    return check


def _pairs(i: Instruction) -> None:
    pairs = i["source_target_pairs"]
    require(all(len(p) == 2 for p in pairs), "source_target_pairs holds pairs")
    if i["slice_sizes"]:  # the in-place form may move several slices between two devices
        return
    for side, name in ((0, "source"), (1, "target")):
        numbers = [p[side] for p in pairs]
        require(len(set(numbers)) == len(numbers), f"a {name} stands twice in source_target_pairs")


def _groups(i: Instruction) -> None:
    groups = i["replica_groups"]
    if groups is None:
        return
    numbers = [n for g in groups.groups(0) for n in g]
    flat = i.opcode != "all-to-all" and i.attrs.get("use_global_device_ids")
    require(bool(numbers) or not flat, "global device numbers need replica_groups that are written")
    require(len(set(numbers)) == len(numbers), "a device stands twice in replica_groups")
    require(all(n >= 0 for n in numbers), "a device number in replica_groups is negative")


def _all_to_all(i: Instruction) -> None:
    _groups(i)
    for count in _group_sizes(i) - {1}:  # the program may be compiled for more devices than its header says
        if not i["dimensions"]:
            require(len(i._operands) == count, f"{len(i._operands)} operands, of which {count} devices get one each")
            continue
        (dim,) = i["dimensions"]
        for operand in i._operands:
            require(0 <= dim < operand.shape.rank, f"dimension {dim} is out of range for {operand.shape}")
            fits = operand.shape.dims[dim] % count == 0
            require(fits, f"dimension {dim} of {operand.shape} is not {count} equal parts")


def _group_sizes(i: Instruction) -> set[int]:
    """How many devices meet: all there are, where no groups are written."""
    groups = i["replica_groups"].groups(0) if i["replica_groups"] is not None else []
    if any(groups):
        return {len(group) for group in groups}
    module = i.parent.module if i.parent is not None else None
    if module is None:
        return set()
    return {module.config.replica_count if i["channel_id"] is None else module.config.num_partitions}


def _all_gather(i: Instruction) -> None:
    _groups(i)
    check_gather_shapes(i)


def _scaled_dot(i: Instruction) -> None:
    lhs, rhs, *scales = (o.shape for o in i._operands)
    require(any(s.rank for s in scales), "one of its scales must be an array")
    for operand, scale in zip((lhs, rhs), scales, strict=True):
        if scale.rank:
            require(scale.rank == operand.rank, f"scales of {scale} for {operand}, which has another rank")
            fits = all(m and n % m == 0 for n, m in zip(operand.dims, scale.dims, strict=True))
            require(fits, f"{operand} is not made of blocks with a scale each in {scale}")


def _custom_call(i: Instruction) -> None:
    if i["custom_call_target"] == "GetRngSeed":
        require(not i._operands, f"GetRngSeed takes no operands, found {len(i._operands)}")
        require(i.shape.is_scalar and i.shape.dtype.name == "u64", f"GetRngSeed returns u64[], not {i.shape}")


def _parameter(i: Instruction) -> None:
    require(i["parameter_number"] >= 0, "its number is negative")


CHECKS: dict[str, Callable[[Instruction], None]] = {
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
    "all-to-all": _all_to_all,
    "reduce-scatter": _reduce_scatter,
    "rng": _rng,
    "compare": _compare,
    "conditional": _conditional,
    "call": _composite,
    "collective-broadcast": _groups,
    "parameter": _parameter,
}
