"""Shardy's shardings: propagated in MLIR by jaxlib's passes, and taken along to HLO as attributes of instructions."""

from __future__ import annotations

import re
from typing import Any

from xloom.hlo.device_mesh import Axis, Mesh
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.sharding import DimensionAxes, MeshSharding, Sharding
from xloom.stablehlo.attributes import add_frontend_attribute
from xloom.stablehlo.bindings import Bindings
from xloom.stablehlo.inlining import inline_for_propagation

_PROPAGATION = "builtin.module(sdy-propagation-pipeline)"
_SHARDING = "xla.sdy.sharding"
_MESHES = "xloom.meshes"
_OF_REGIONS = ("xla.sdy.in_shardings", "xla.sdy.out_shardings")
_RESHARDS = frozenset(
    f"sdy.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_slice",
        "all_to_all",
        "collective_permute",
        "reduce_scatter",
        "replicated_to_unreduced",
        "reshard",
        "sharded_to_unreduced",
        "sharding_constraint",
    )
)
"""Operations that only say how their operand is cut from then on."""


_SHARDY = re.compile(r"sdy\.(?!sharding_rule|op_sharding_rule)")
"""Anything but rules, which say how a custom call could be cut."""


_MESH_WITH_AXES = re.compile(r'<\["[^"]+"=\d')
"""Of a mesh; one without is a device, as callbacks have it."""


def has_shardings(text: str) -> bool:
    """True for a program that Shardy has something to say about."""
    return _SHARDY.search(text) is not None


def propagate(bindings: Bindings, module: Any, text: str) -> None:
    """Gives every value a sharding, as an attribute that jaxlib's converter passes on; `text` is the module's."""
    if _MESH_WITH_AXES.search(text):  # else there is nothing to propagate
        inline_for_propagation(bindings, module, text)
        # it sums over axes that already cut the operand, which is no error: _as_custom_call asks for the result alone
        bindings.run_passes(module, _PROPAGATION, verified=False)
    ir = bindings.ir
    meshes: list[str] = []
    for operation in bindings.operations(module.operation):
        if operation.name == "sdy.mesh":
            meshes.append(f"{operation.attributes['sym_name'].value} = {operation.attributes['mesh']}")
        elif operation.name in _RESHARDS:
            _as_custom_call(ir, operation)
        elif operation.name != "func.func" and "sdy.sharding" in operation.attributes:
            text = str(operation.attributes["sdy.sharding"])
            if operation.name == "stablehlo.while":
                # the converter changes the number and order of its operands
                _cut_operands(ir, operation, text)
            else:
                add_frontend_attribute(ir, operation, _SHARDING, text)
            del operation.attributes["sdy.sharding"]
    # the converter would only keep those that it finds used
    add_frontend_attribute(ir, module.operation, _MESHES, ", ".join(meshes))


def _as_custom_call(ir: Any, operation: Any) -> None:
    sharding = operation.attributes["sharding" if "sharding" in operation.attributes else "out_sharding"]
    call = _resharded(ir, operation, operation.operands[0], str(sharding))
    operation.results[0].replace_all_uses_with(call.result)
    operation.erase()


def _cut_operands(ir: Any, operation: Any, text: str) -> None:
    for k, sharding in enumerate(_ONE.finditer(text)):
        operation.operands[k] = _resharded(ir, operation, operation.operands[k], sharding[0]).result


def _resharded(ir: Any, before: Any, value: Any, sharding: str) -> Any:
    with ir.InsertionPoint(before), before.location:
        call = ir.Operation.create(
            "stablehlo.custom_call",
            results=[value.type],
            operands=[value],
            attributes={"call_target_name": ir.StringAttr.get("Sharding")},
        )
    add_frontend_attribute(ir, call, _SHARDING, sharding)
    return call


# -- in HLO
def restore_shardings(module: Module) -> None:
    """Turns the attributes into the instructions' shardings."""
    text = module.frontend_attributes.pop(_MESHES, None)
    module.frontend_attributes.pop("xla.sdy.meshes", None)
    meshes = _meshes(text or "")
    for instruction in module.instructions:
        attributes = instruction.frontend_attributes
        for name in (_SHARDING, *_OF_REGIONS):
            if name in attributes:
                shardings = [_sharding(m, meshes) for m in _ONE.finditer(attributes.pop(name))]
                if instruction.opcode == "get-tuple-element" and name == _SHARDING:  # has those of its operand
                    shardings = shardings[instruction["index"] :][:1]
                single = not instruction.shape.is_tuple and len(shardings) == 1
                if single and name == _SHARDING and not _fits(shardings[0], instruction):
                    continue  # the converter makes several instructions of one operation, with intermediate ranks
                instruction.sharding = shardings[0] if single else Sharding.tuple_of(shardings)


def _fits(sharding: Sharding, instruction: Instruction) -> bool:
    named = sharding.mesh_sharding
    return named is None or named.mesh.maximal or len(named.dims) == instruction.shape.rank


_MESH = re.compile(r'([\w.\-$]+|"[^"]*") = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([^\]]*)\])?>')
_AXIS = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')
_ONE = re.compile(
    r"<@([\w.\-$]+), \[((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)\](?:, replicated=\{([^}]*)\})?(?:, unreduced=\{([^}]*)\})?>"
)
_DIM = re.compile(r"\{([^}]*)\}")


def _meshes(text: str) -> dict[str, Mesh]:
    found = {}
    for name, axes, devices in _MESH.findall(text):
        pairs = re.findall(r'"([^"]*)"=(\d+)', axes)
        names, sizes = tuple(n for n, _ in pairs), tuple(int(s) for _, s in pairs)
        numbers = tuple(map(int, devices.split(","))) if devices else None
        if names and numbers == tuple(range(len(numbers or ()))):
            numbers = None
        found[name.strip('"')] = Mesh(names, sizes, numbers)
    return found


def _sharding(match: re.Match[str], meshes: dict[str, Mesh]) -> Sharding:
    mesh = meshes[match[1]]

    def axes(text: str | None) -> tuple[Axis, ...]:
        return tuple(
            Axis(mesh.names.index(name), int(before or 0), int(size or 0))
            for name, before, size in _AXIS.findall(text or "")
        )

    dims = tuple(DimensionAxes(axes(dim)) for dim in _DIM.findall(match[2]))
    return Sharding("named", mesh_sharding=MeshSharding(mesh, dims, unreduced=axes(match[4])))
