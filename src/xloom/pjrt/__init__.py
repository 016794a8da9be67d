"""PJRT: clients, devices, memories, buffers and executables, as frameworks meet them.

client = Client.cpu(devices=1)
executable = client.compile(module)
(result,) = executable.execute([client.buffer_from_host(array)])
np.asarray(result)
"""

from xloom.hlo.garbage_collection import without_collector

with without_collector():  # all that is made here stays: to look for garbage among it would find none
    from xloom.pjrt import log
    from xloom.pjrt.buffer import Buffer, HostBufferSemantics
    from xloom.pjrt.client import Client
    from xloom.pjrt.compiler import Compiler, CpuCompiler, InterpreterCompiler
    from xloom.pjrt.device import Device, DeviceDescription
    from xloom.pjrt.error import PjrtError
    from xloom.pjrt.executable import Executable, LoadedExecutable
    from xloom.pjrt.future import Future
    from xloom.pjrt.memory_space import MemorySpace
    from xloom.pjrt.options import CompileOptions
    from xloom.pjrt.simulated import SimCompiler
    from xloom.pjrt.stepwise import DifferenceError
    from xloom.status_code import Code

if log.is_enabled():
    kinds = [Client, Buffer, Executable, LoadedExecutable, CpuCompiler, InterpreterCompiler, SimCompiler]
    log.method_log.install(kinds, [Device, MemorySpace])

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
