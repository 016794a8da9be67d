"""What instructions and the header say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.attributes import Metadata
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module, ModuleConfig
from xloom.reduction.base import Places, Reduction, Site, numbered

_HEADER = tuple(vars(ModuleConfig()))
_ANNOTATIONS = ("metadata", "frontend_attributes", "backend_config", "sharding", "control_dependencies")


@dataclass(frozen=True)
class Header(Reduction):
    """What the header says: the number of a field, or one more for what it keeps of the source."""

    name: ClassVar[str] = "drop header"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        plain = vars(ModuleConfig())
        found = [(k,) for k, name in enumerate(_HEADER) if getattr(module.config, name) != plain[name]]
        source = module.frontend_attributes or module.stack_frames is not None
        return [*found, (len(_HEADER),)] if source else found

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        plain = vars(ModuleConfig())
        for (k,) in sites:
            if k < len(_HEADER):
                setattr(module.config, _HEADER[k], plain[_HEADER[k]])
            else:
                module.frontend_attributes, module.stack_frames = {}, None


@dataclass(frozen=True)
class Annotations(Reduction):
    """What an instruction's value does not depend on: (computation, instruction, which)."""

    name: ClassVar[str] = "drop annotations"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [(c, k, n) for c, k, i in numbered(module) for n in range(len(_ANNOTATIONS)) if _says(i, n)]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        for c, k, n in sites:
            instruction = places.at(c, k)
            match _ANNOTATIONS[n]:
                case "metadata":
                    instruction.metadata = Metadata()
                case "frontend_attributes":
                    instruction.frontend_attributes = {}
                case "backend_config":
                    instruction.backend_config = ""
                case "sharding":
                    instruction.sharding = None
                case _:
                    instruction.drop_control_dependencies()


def _says(instruction: Instruction, which: int) -> bool:
    name = _ANNOTATIONS[which]
    if name == "metadata":
        return instruction.metadata != Metadata()
    if name == "control_dependencies":
        return bool(instruction.control_predecessors)
    return bool(getattr(instruction, name))


@dataclass(frozen=True)
class OptionalAttributes(Reduction):
    """Attributes that have a default: (computation, instruction, number of the attribute by name)."""

    name: ClassVar[str] = "drop attributes"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [(c, k, n) for c, k, i in numbered(module) for n in range(len(_optional(i)))]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        names = {(c, k): _optional(places.at(c, k)) for c, k, _ in sites}
        for c, k, n in sites:
            del places.at(c, k).attrs[names[c, k][n]]


def _optional(instruction: Instruction) -> list[str]:
    known = instruction.op.attributes
    called = instruction.op.computations
    return sorted(a for a in instruction.attrs if a in known and not known[a].required and a not in called)
