"""A simulated accelerator, to run programs and custom calls as a device with memory of its own would."""

from xloom.sim.device_values import DeviceArray
from xloom.sim.matrices import as_matrices
from xloom.sim.memory import DeviceMemory, DeviceMemoryError
from xloom.sim.operator import operator
from xloom.sim.simulator import Simulator
from xloom.sim.stream import Event, Stream
from xloom.sim.tolerance import Tolerance

__all__ = [
    "DeviceArray",
    "DeviceMemory",
    "DeviceMemoryError",
    "Event",
    "Simulator",
    "Stream",
    "Tolerance",
    "as_matrices",
    "operator",
]
