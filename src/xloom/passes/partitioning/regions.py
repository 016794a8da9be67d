"""Regions whose values are parts already, along some axes of a mesh: Shardy's manual computations."""

from __future__ import annotations

import re

from xloom.hlo.device_mesh import Axis
from xloom.hlo.instruction import Instruction
from xloom.passes.partitioning.tile_assignment import Factors, axis_factors

ENTER, LEAVE = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
"""Custom calls around a region; their shardings are those of the global values."""

_BODY = "xla.sdy.manual_computation_body"
_AXES = "xla.sdy.manual_axes"
_NAME = re.compile(r'"([^"]*)"')


def boundary_of(call: Instruction) -> Instruction | None:
    """The custom call before or after the region that `call` is, or None if it is no region."""
    near = [*call.operands, *call.users]
    near += [o for i in near if i.opcode == "get-tuple-element" for o in (*i.operands, *i.users)]
    inside = [i for i in near if i.opcode == "custom-call" and i["custom_call_target"] in (ENTER, LEAVE)]
    before, after = ([i for i in inside if i["custom_call_target"] == t] for t in (ENTER, LEAVE))
    if not call["to_apply"].name.startswith(_BODY):
        return None
    return (before or after or [None])[0]


def manual_factors(call: Instruction) -> Factors:
    """The factors along which the region's values are parts."""
    sharding = call.sharding.elements[0] if call.sharding.kind == "tuple" else call.sharding
    mesh = sharding.mesh_sharding.mesh
    names = _NAME.findall(call.frontend_attributes.get(_AXES, ""))
    return tuple(f for n in names for f in axis_factors(mesh, Axis(mesh.names.index(n))))
