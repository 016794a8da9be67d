"""The program of one device, made by walking over the program on global arrays."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.calls.partitioning import local_calls, observers
from xloom.hlo.asynchronous import BEGINS, is_control_dependency
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.hlo.sharding import ReplicaGroups, Sharding
from xloom.interpreter.custom_call import SHARDING_GROUP
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.partitioning import indexing  # noqa: F401 - registers its rules
from xloom.passes.partitioning.custom_calls import called_everywhere, partitioned
from xloom.passes.partitioning.nesting import leaves, local, packed, packed_shape, parts_of, whole
from xloom.passes.partitioning.regions import ENTER, LEAVE, boundary_of, manual_factors
from xloom.passes.partitioning.resharding import Channels, Emitter, PartitionedValue
from xloom.passes.partitioning.rules import LINEAR, RULES, elementwise, like
from xloom.passes.partitioning.tile_assignment import Factors, Tiles, sharding_of, tiles_of
from xloom.passes.schedule import in_order

RESHARDINGS = frozenset({"Sharding", "xla.sdy.FuncResultSharding"})
"""Custom calls that only say how their operand is cut."""
_MADE = frozenset({"broadcast", "constant", "iota"})
_MARKS = RESHARDINGS | {ENTER, LEAVE}
_PASS_ON = frozenset({"opt-barrier", "annotate_device_placement"})


@register
class SpmdPartitioning(Pass):
    """Makes a program on global arrays the program that each of `num_partitions` devices runs on its parts.

    Shardings say how values are cut; one that does not fit a value, or that an operator cannot work with, costs
    exchanges, never the result. Parameters and the result keep their shardings, which callers rely on.
    """

    name = "spmd-partitioning"

    def run(self, module: Module) -> bool:
        """See the class."""
        if not has_shardings(module):
            return False
        pin_roots(module)
        for computation in module.computations:
            _take_over_shardings(computation)
        _Partitioner(module).run()
        return True


def _take_over_shardings(computation: Computation) -> None:
    """Cuts what has no annotation, and what any device can make by itself, as those who read it are cut."""
    for i in reversed(computation.post_order()):
        if i.sharding is None and (i.op.elementwise or i.opcode in _MADE):
            readers = [u.sharding for u in i.users if u.op.elementwise and u.shape.dims == i.shape.dims]
            i.sharding = next((s for s in readers if s is not None), None)


def has_shardings(module: Module) -> bool:
    """True for a program on global arrays of several devices, or of one if its shardings must be taken out."""
    several, targets = module.config.num_partitions > 1, _MARKS | observers.keys()
    return any(
        (i.opcode == "custom-call" and i["custom_call_target"] in targets) or (several and i.sharding is not None)
        for i in module.instructions
    )


class _Partitioner:
    def __init__(self, module: Module):
        self._module = module
        self._devices = module.config.num_partitions
        used = [i.attrs.get("channel_id") or 0 for i in module.instructions]
        self._channels = Channels(max(used, default=0) + 1)
        self._manual: list[Factors] = []

    def run(self) -> None:
        """Puts the new program in the place of the old one."""
        module, old = self._module, self._module.entry
        taken, given = module.parameter_shapes, module.result_shape
        entry = module.add(Computation(f"{old.name}_spmd"), entry=True)
        e = Emitter(module, entry, self._devices, self._channels)
        arguments = [self._parameter(e, p, self._tiles(p)) for p in old.parameters]
        results = self._computation(e, old, arguments)
        shape = old.root.shape
        wanted = self._tiles(old.root)
        results = [e.reshard(p, t) if p.shape.is_array else p for p, t in zip(results, wanted, strict=True)]
        entry.root = packed(e, shape, iter(results))
        if entry.root.opcode == "parameter":
            entry.root = e.make("copy", entry.root.shape, [entry.root])
        elements = [sharding_of(p.tiles, self._devices) for p in results]
        if elements:
            entry.root.sharding = Sharding.tuple_of(elements) if shape.is_tuple else elements[0]
        config = module.config
        config.parameter_layouts = [p.shape.with_layouts_of(s) for p, s in zip(entry.parameters, taken, strict=True)]
        config.result_layout = entry.root.shape.with_layouts_of(given)
        reachable = {entry}
        stack = [entry]
        while stack:
            called = {c for i in stack.pop() for c in i.called_computations} - reachable
            reachable |= called
            stack += called
        for computation in module.computations:
            if computation not in reachable:
                module.remove(computation)

    def _tiles(self, i: Instruction) -> list[Tiles]:
        """How the leaves of an instruction should be cut."""
        shapes = leaves(i.shape)
        return [t.fitting(s.dims) if s.is_array else t for t, s in zip(self._annotated(i), shapes, strict=True)]

    def _annotated(self, i: Instruction) -> list[Tiles]:
        """What is said of the leaves of an instruction, whether it cuts them into equal parts or not."""
        shapes = leaves(i.shape)
        found = i.sharding.elements if i.sharding is not None and i.sharding.kind == "tuple" else [i.sharding]
        if len(found) != len(shapes):
            found = [found[0] if len(found) == 1 else None] * len(shapes)
        manual = {f for factors in self._manual for f in factors}
        return [
            tiles_of(s, shape.rank, self._devices).without(manual) if shape.is_array else Tiles(())
            for s, shape in zip(found, shapes, strict=True)
        ]

    def _parameter(self, e: Emitter, i: Instruction, tiles: Sequence[Tiles]) -> list[PartitionedValue]:
        shapes = [local(s, t) for s, t in zip(leaves(i.shape), tiles, strict=True)]
        new = like(e, i, packed_shape(i.shape, iter(shapes)), [])
        elements = [sharding_of(t, self._devices) for t in tiles]
        if e.computation.is_entry:
            new.sharding = Sharding.tuple_of(elements) if i.shape.is_tuple else elements[0]
        return parts_of(e, new, tiles)

    def _computation(
        self, e: Emitter, computation: Computation, arguments: Sequence[list[PartitionedValue]]
    ) -> list[PartitionedValue]:
        values: dict[Instruction, list[PartitionedValue]] = {}
        for i in in_order(computation):
            before = e.source
            e.source = i
            if i.opcode == "parameter":
                values[i] = arguments[i["parameter_number"]]
            else:
                values[i] = self._instruction(e, i, [values[o] for o in i.operands])
            e.source = before
        return values[computation.root]

    def _instruction(
        self, e: Emitter, i: Instruction, operands: list[list[PartitionedValue]]
    ) -> list[PartitionedValue]:
        flat = [part for operand in operands for part in operand]
        opcode = i.opcode
        if opcode == "tuple":
            return flat
        if opcode == "get-tuple-element":
            elements = i.operands[0].shape.elements
            first = sum(len(leaves(s)) for s in elements[: i["index"]])
            return flat[first : first + len(leaves(elements[i["index"]]))]
        if opcode in ("call", "fusion"):
            return self._call(e, i, operands)
        if opcode == "while":
            return self._while(e, i, flat)
        if opcode == "conditional":
            return self._conditional(e, i, operands)
        if is_control_dependency(i):
            like(e, i, i.shape, [operand[0].value for operand in operands])
            return []
        if opcode == "custom-call":
            return self._custom_call(e, i, flat)
        if opcode == "opt-barrier":
            new = like(e, i, packed_shape(i.shape, iter([p.shape for p in flat])), [packed(e, i.shape, iter(flat))])
            return parts_of(e, new, [p.tiles for p in flat])
        if opcode in BEGINS:
            return [PartitionedValue(like(e, i, i.shape, self._whole_operands(e, i, operands)), Tiles(()))]
        rule = elementwise if i.op.elementwise else RULES.get(opcode)
        if rule is not None and i.shape.is_array | all(s.is_array for s in i.shape.elements):
            want = self._wanted(i, flat)
            if opcode in LINEAR:
                found = rule(i, flat, want, e)
            else:
                found = rule(i, [e.reshard(p, p.tiles.settled) for p in flat], want.settled, e)
            if found is not None:
                return [e.reshard(p, want) for p in found] if want.unreduced else found
        return self._everywhere(e, i, operands)

    def _wanted(self, i: Instruction, parts: list[PartitionedValue]) -> Tiles:
        """How the result should be cut; without a word as an operand is, if that is as large."""
        shape = leaves(i.shape)[0]
        if i.sharding is None and i.op.elementwise:
            fitting = [p.tiles.settled for p in parts if len(p.tiles.dims) == shape.rank]
            return max(fitting, key=lambda t: len(t.used), default=Tiles.whole(shape.rank))
        return self._tiles(i)[0]

    def _everywhere(self, e: Emitter, i: Instruction, operands: list[list[PartitionedValue]]) -> list[PartitionedValue]:
        """Every device computes all of it."""
        new = like(e, i, i.shape, self._whole_operands(e, i, operands))
        parts = parts_of(e, new, [whole(s) for s in leaves(i.shape)])
        if i.sharding is None:
            return parts
        return [e.reshard(p, t) if p.shape.is_array else p for p, t in zip(parts, self._tiles(i), strict=True)]

    def _whole_operands(self, e: Emitter, i: Instruction, operands: list[list[PartitionedValue]]) -> list[Instruction]:
        """What has begun has one user, so it is not taken apart."""
        return [
            operand[0].value if old.opcode in BEGINS else packed(e, old.shape, iter([e.whole(p) for p in operand]))
            for operand, old in zip(operands, i.operands, strict=True)
        ]

    def _call(self, e: Emitter, i: Instruction, operands: list[list[PartitionedValue]]) -> list[PartitionedValue]:
        boundary = boundary_of(i)
        if boundary is None:
            return self._computation(e, i.called_computations[0], operands)
        self._manual.append(manual_factors(boundary))
        results = self._computation(e, i.called_computations[0], operands)
        self._manual.pop()
        return results

    # -- custom calls
    def _custom_call(self, e: Emitter, i: Instruction, parts: list[PartitionedValue]) -> list[PartitionedValue]:
        target = i["custom_call_target"]
        if target == SHARDING_GROUP:
            return []
        if target in observers:
            observers[target](i, sharding_of(parts[0].tiles.settled, self._devices))
            return parts
        if target in RESHARDINGS:
            return [e.reshard(p, t) for p, t in zip(parts, self._tiles(i), strict=True)]
        if target == ENTER:
            found = [e.reshard(p, t) for p, t in zip(parts, self._tiles_of_operands(i), strict=True)]
            manual = manual_factors(i)
            return [PartitionedValue(p.value, p.tiles.without(manual)) for p in found]
        if target == LEAVE:
            manual = manual_factors(i)
            wanted = self._tiles(i)
            inside = [e.reshard(p, t.without(manual)) for p, t in zip(parts, wanted, strict=True)]
            return [PartitionedValue(p.value, t) for p, t in zip(inside, wanted, strict=True)]
        if target in _PASS_ON:
            (part,) = parts
            return [PartitionedValue(like(e, i, part.shape, [part.value]), part.tiles)]
        if target in local_calls:
            return called_everywhere(e, i, parts)
        if i.sharding is not None and (device := _only_device(i.sharding)) is not None and not self._manual:
            return self._on_one(e, i, parts, device)
        wanted = self._tiles(i)
        found = None
        if all(s.is_array for s in leaves(i.shape)):
            given = [self._annotated(o)[0] if o.sharding else p.tiles for o, p in zip(i.operands, parts, strict=True)]
            found = partitioned(e, i, parts, given, self._annotated(i))
        if found is None:
            return self._everywhere(e, i, [[p] for p in parts])
        return [e.reshard(p, t) for p, t in zip(found, wanted, strict=True)] if i.sharding is not None else found

    def _tiles_of_operands(self, i: Instruction) -> list[Tiles]:
        found = i.sharding.elements if i.sharding.kind == "tuple" else [i.sharding]
        manual = {f for factors in self._manual for f in factors}
        return [
            tiles_of(s, o.shape.rank, self._devices).without(manual).fitting(o.shape.dims)
            if o.shape.is_array
            else Tiles(())
            for s, o in zip(found, i.operands, strict=True)
        ]

    def _on_one(self, e: Emitter, i: Instruction, parts: list[PartitionedValue], device: int) -> list[PartitionedValue]:
        """One device calls, and the others get what comes of it."""
        operands = [e.whole(p) for p in parts]
        shape = tuple_shape([p.shape for p in operands])
        given = e.make("tuple", shape, [p.value for p in operands])
        branches = []
        for here in (True, False):
            inner = e.inside(self._module.add(Computation(f"{i.name}.{'call' if here else 'other'}")))
            parameter = inner.make("parameter", shape, parameter_number=0)
            inputs = [p.value for p in parts_of(inner, parameter, [p.tiles for p in operands])]
            if here:
                inner.computation.root = like(inner, i, i.shape, inputs)
            else:
                inner.computation.root = _empty(inner, i.shape)
            branches.append(inner.computation)
        number = e.constant(e.device.shape, device)
        is_here = e.make("compare", array_shape(pred, ()), [e.device, number], direction="EQ")
        found = e.make(
            "conditional",
            i.shape,
            [is_here, given, given],
            true_computation=branches[0],
            false_computation=branches[1],
        )
        order = (device, *(d for d in range(self._devices) if d != device))
        results = []
        for part in parts_of(e, found, [whole(s) for s in leaves(i.shape)]):
            if part.shape.is_array:
                groups, channel = ReplicaGroups((order,)), self._channels.take()
                sent = e.make(
                    "collective-broadcast", part.shape, [part.value], replica_groups=groups, channel_id=channel
                )
                part = PartitionedValue(sent, part.tiles)
            results.append(part)
        return results

    # -- control flow
    def _while(self, e: Emitter, i: Instruction, state: list[PartitionedValue]) -> list[PartitionedValue]:
        """The state is cut all the time as it is at first."""
        tiles = [p.tiles for p in state]
        shape = packed_shape(i.shape, iter([p.shape for p in state]))
        computations = {}
        for name in ("condition", "body"):
            old = i[name]
            inner = e.inside(self._module.add(Computation(old.name)))
            parameter = inner.make("parameter", shape, parameter_number=0)
            results = self._computation(inner, old, [parts_of(inner, parameter, tiles)])
            if name == "body":
                results = [inner.reshard(p, t) if p.shape.is_array else p for p, t in zip(results, tiles, strict=True)]
            inner.computation.root = packed(inner, old.root.shape, iter(results))
            computations[name] = inner.computation
        new = like(e, i, shape, [packed(e, i.shape, iter(state))], **computations)
        return parts_of(e, new, tiles)

    def _conditional(
        self, e: Emitter, i: Instruction, operands: list[list[PartitionedValue]]
    ) -> list[PartitionedValue]:
        tiles = self._tiles(i) if i.sharding is not None else [whole(s) for s in leaves(i.shape)]
        (chooser,), given = operands[0], operands[1:]
        chosen, shapes = [], []
        for old, operand in zip(i.called_computations, given, strict=True):
            inner = e.inside(self._module.add(Computation(old.name)))
            (before,) = old.parameters
            shapes = packed_shape(before.shape, iter([p.shape for p in operand]))
            parameter = inner.make("parameter", shapes, parameter_number=0)
            results = self._computation(inner, old, [parts_of(inner, parameter, [p.tiles for p in operand])])
            results = [inner.reshard(p, t) if p.shape.is_array else p for p, t in zip(results, tiles, strict=True)]
            inner.computation.root = packed(inner, old.root.shape, iter(results))
            chosen.append(inner.computation)
        values = [packed(e, o.shape, iter(parts)) for o, parts in zip(i.operands[1:], given, strict=True)]
        names = {"true_computation": chosen[0], "false_computation": chosen[-1]}
        if i.attrs.get("branch_computations"):
            names = {"branch_computations": tuple(chosen)}
        new = like(e, i, chosen[0].root.shape, [e.whole(chooser).value, *values], **names)
        return parts_of(e, new, tiles)


def _empty(e: Emitter, shape: Shape) -> Instruction:
    if shape.is_tuple:
        return e.make("tuple", shape, [_empty(e, element) for element in shape.elements])
    return e.splat(shape, 0) if shape.is_array else e.make("after-all", shape)


def _only_device(sharding: Sharding) -> int | None:
    """The one device that a value is on."""
    if sharding.kind == "tuple":
        found = {_only_device(s) for s in sharding.elements}
        return found.pop() if len(found) == 1 else None
    if sharding.kind == "maximal":
        assert isinstance(sharding.devices, tuple)
        return sharding.devices[0]
    devices = sharding.mesh_sharding.mesh.devices if sharding.mesh_sharding is not None else None
    maximal = sharding.mesh_sharding is not None and sharding.mesh_sharding.mesh.maximal
    return devices[0] if maximal and isinstance(devices, tuple) else None
