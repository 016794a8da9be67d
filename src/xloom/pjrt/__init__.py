"""PJRT: clients, devices, memories, buffers and executables, as frameworks meet them.

client = Client.cpu(devices=1)
executable = client.compile(module)
(result,) = executable.execute([client.buffer_from_host(array)])
np.asarray(result)
"""

from typing import TYPE_CHECKING

from xloom.hlo.garbage_collection import without_collector
from xloom.lazy_attributes import lazy_attributes

with without_collector():  # all that is made here stays: to look for garbage among it would find none
    from xloom.pjrt import log
    from xloom.pjrt.buffer import Buffer, HostBufferSemantics
    from xloom.pjrt.client import Client
    from xloom.pjrt.compiler import Compiler, CpuCompiler
    from xloom.pjrt.device import Device, DeviceDescription
    from xloom.pjrt.error import PjrtError
    from xloom.pjrt.executable import Executable, LoadedExecutable
    from xloom.pjrt.future import Future
    from xloom.pjrt.memory_space import MemorySpace
    from xloom.pjrt.options import CompileOptions
    from xloom.status_code import Code

if TYPE_CHECKING:
    from xloom.pjrt.interpreted import InterpreterCompiler
    from xloom.pjrt.simulated import SimCompiler
    from xloom.pjrt.stepwise import DifferenceError

__all__ = [
    "Buffer",
    "Client",
    "Code",
    "CompileOptions",
    "Compiler",
    "CpuCompiler",
    "Device",
    "DeviceDescription",
    "DifferenceError",
    "Executable",
    "Future",
    "HostBufferSemantics",
    "InterpreterCompiler",
    "LoadedExecutable",
    "MemorySpace",
    "PjrtError",
    "SimCompiler",
]

# what few processes use
_LAZY = {
    "DifferenceError": "xloom.pjrt.stepwise",
    "InterpreterCompiler": "xloom.pjrt.interpreted",
    "SimCompiler": "xloom.pjrt.simulated",
}

__getattr__ = lazy_attributes(__name__, _LAZY)

if log.is_enabled():
    others = [__getattr__(name) for name in ("InterpreterCompiler", "SimCompiler")]
    kinds = [Client, Buffer, Executable, LoadedExecutable, CpuCompiler, *others]
    log.method_log.install(kinds, [Device, MemorySpace])
