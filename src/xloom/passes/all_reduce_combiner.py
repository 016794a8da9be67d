"""Small all-reduces that do not depend on each other become one: devices meet once instead of once for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import tuple_shape
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.collective_expansion import LARGE
from xloom.passes.rewrite import editable_computations
from xloom.passes.structural_identity import StructuralIdentity


@register
@dataclass(frozen=True)
class AllReduceCombiner(Pass):
    """Combines all-reduces of the same kind, groups and element type in a computation into one of a tuple.

    What is combined has less than `limit` bytes: of larger arrays each device combines a part, and copying them
    together would take longer than meeting. All-reduces with control dependencies, and those of a module with a
    schedule, stay.
    """

    name = "all-reduce-combiner"
    opcodes = ("all-reduce",)
    limit: int = LARGE

    def run(self, module: Module) -> bool:
        """See the class."""
        config = module.config
        if config.is_scheduled or config.replica_count * config.num_partitions == 1:
            return False
        pin_roots(module)
        structure = StructuralIdentity()
        changed = False
        for computation in editable_computations(module):
            for together in list(_independent(computation, structure, self.limit)):
                _combine(together)
                changed = True
        return changed


@dataclass
class _Bundle:
    bytes: int = 0
    members: list[Instruction] = field(default_factory=list)
    before: int = 0
    """Bundles that members depend on, each a bit."""


def _independent(computation: Computation, structure: StructuralIdentity, limit: int) -> Iterator[list[Instruction]]:
    """All-reduces to combine, two or more each time, so that no combined ones depend on each other in a circle."""
    bundles: list[_Bundle] = []
    latest: dict[Hashable, int] = {}
    before: dict[Instruction, int] = {}  # bundles that an instruction depends on
    for i in computation.post_order():
        mask = 0
        for source in (*i.operands, *i.control_predecessors):
            mask |= before[source]
        size = i.shape.nbytes if _is_candidate(i) else limit
        if size < limit:
            key = _kind(i, structure)
            number = latest.get(key)
            if number is None or bundles[number].bytes + size >= limit or _reaches(bundles, mask, number):
                number = latest[key] = len(bundles)
                bundles.append(_Bundle())
            bundle = bundles[number]
            bundle.members.append(i)
            bundle.bytes += size
            bundle.before |= mask
            mask |= 1 << number
        before[i] = mask
    return (bundle.members for bundle in bundles if len(bundle.members) > 1)


def _is_candidate(i: Instruction) -> bool:
    is_single = i.opcode == "all-reduce" and not i.shape.is_tuple and not i.shape.is_dynamic
    return is_single and not i.control_predecessors and not i.control_successors


def _kind(i: Instruction, structure: StructuralIdentity) -> Hashable:
    """Equal for all-reduces that may be one."""
    channel = i["channel_id"] is not None
    rest = [i[name] for name in ("constrain_layout", "use_global_device_ids", "mode")]
    return i.shape.dtype, structure.number(i["to_apply"]), str(i["replica_groups"]), channel, *rest


def _reaches(bundles: list[_Bundle], mask: int, goal: int) -> bool:
    """True when one of the bundles of `mask`, or what they depend on in turn, is number `goal`."""
    found, pending = mask, mask
    while pending:
        lowest = pending & -pending
        pending ^= lowest
        further = bundles[lowest.bit_length() - 1].before & ~found
        found |= further
        pending |= further
    return bool(found >> goal & 1)


def _combine(members: list[Instruction]) -> None:
    first = members[0]
    computation = first.parent
    assert computation is not None
    shape = tuple_shape([i.shape for i in members])
    combined = Instruction(first.name, "all-reduce", shape, [i.operands[0] for i in members], first.attrs)
    computation.add(combined)
    combined.copy_annotations(first)
    combined.sharding = None
    for k, i in enumerate(members):
        element = Instruction("get-tuple-element", "get-tuple-element", i.shape, [combined], {"index": k})
        element.metadata, element.sharding = i.metadata, i.sharding
        i.replace_all_uses_with(computation.add(element))
        computation.remove(i)
    computation.reorder(computation.post_order())
