"""Custom calls of native code: by which symbols machine code has them, and how another process makes them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xloom.calls import host, registry
from xloom.calls.buffers import operand_shapes
from xloom.calls.jaxlib_handlers import is_lapack, is_replaced
from xloom.calls.sanitizer import active
from xloom.calls.typed_ffi import CallSite
from xloom.calls.typed_ffi.c_api import Stage
from xloom.cpu.custom_calls.lapack_threads import lapack_symbols
from xloom.cpu.custom_calls.typed_ffi_api import install_native_functions
from xloom.hlo.attributes import Metadata
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.hlo.stack_frames import source_line
from xloom.interpreter.custom_call import BUILT_IN


class NativeCall:
    """A call of native code, which is instantiated now if it is typed; `number` counts a program's.

    Raises CustomCallError when the call says another ABI than the `registration`, or a handler refuses.
    """

    def __init__(self, instruction: Instruction, registration: registry.Registration, number: int):
        self.instruction = instruction
        self.registration = registration
        self.number = number
        self.version = host.checked_version(registration, instruction)
        self.shapes = operand_shapes(instruction)
        self.site = None
        addresses = {"function": registration.address}
        if self.version == host.TYPED:
            if registration.address:
                install_native_functions()
            self.site = CallSite(registration, instruction, self.shapes)
            addresses = {"frame": self.site.template.address}
            addresses.update((stage.name, self.site.handlers[stage]) for stage in Stage if self.site.handlers[stage])
        own = {self.symbol(part): address for part, address in addresses.items()}
        self.symbols = own | lapack_symbols(registration)
        """What the machine code refers to."""

    def symbol(self, part: str) -> str:
        """The name of an address: of the `function`, of the `frame` that a typed call begins with, of a stage."""
        return f"xloom_call{self.number}.{part}"


def registration_key(call: Instruction) -> str | None:
    """What a program's code depends on of what a custom call's target is registered as.

    None where only this process has the code, or has none.
    """
    name = call["custom_call_target"]
    if active() is not None or call.called_computations:
        return None
    if name.startswith("lapack_") and not is_replaced(name):  # no need to load it
        return "jaxlib"
    if not registry.is_registered(name):
        return "built in" if name in BUILT_IN else None
    found = registry.lookup(name)
    if found.function is not None:
        return None
    return f"{[bool(stage) for stage in found.stages]} {is_lapack(found)} {found.abi}"


def to_bytes(calls: Sequence[NativeCall]) -> bytes:
    """The calls, for a process to come."""
    computation = Computation("calls")
    for call in calls:
        origin = call.instruction
        operands = []
        for operand in origin.operands:
            attributes = {"parameter_number": len(computation.parameters)}
            operands.append(computation.add(Instruction("operand", "parameter", operand.shape, (), attributes)))
        copy = Instruction(origin.name, origin.opcode, origin.shape, operands, dict(origin.attrs))
        copy.backend_config, copy.frontend_attributes = origin.backend_config, origin.frontend_attributes
        computation.add(copy)
    module = Module("calls")
    module.add(computation, entry=True)  # under names that differ
    return module.to_proto()


def from_bytes(data: bytes, module: Module) -> list[NativeCall]:
    """The calls of a kept program: `module` is the one that was to be compiled, which has their places in the source.

    Raises as NativeCall does, and CustomCallError when nothing is registered.
    """
    metadata = {i.name: _without_frame(i) for i in module.instructions if i.opcode == "custom-call"}
    found = [i for i in decode(data).instructions if i.opcode == "custom-call"]
    for instruction in found:
        instruction.metadata = metadata[registry.program_name(instruction)]
    return [
        NativeCall(instruction, registry.target_of(instruction), number) for number, instruction in enumerate(found)
    ]


def _without_frame(instruction: Instruction) -> Metadata:
    """Metadata with the place in the source that the module's stack frames have."""
    file, _, line = source_line(instruction).rpartition(":")
    return replace(instruction.metadata, source_file=file, source_line=int(line or 0), stack_frame_id=0)
