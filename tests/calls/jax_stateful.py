"""A typed handler with stages and states, registered with JAX for the platform `xloom` and called in a program."""

import ctypes
import sys
from typing import Any

import jax
import numpy as np

from xloom.calls import is_registered

library = ctypes.CDLL(sys.argv[1])
for name in ("type_id", "type_info"):
    getattr(library, name).restype = ctypes.c_void_p
new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
for number, name in enumerate(("Built", "Ready", "Begun")):
    pointers = {"type_id": library.type_id(number), "type_info": library.type_info(number)}
    capsules: Any = {key: new(address, None, None) for key, address in pointers.items()}
    jax.ffi.register_ffi_type(f"test.{name}", capsules, platform="xloom")
stages = {"instantiate": library.build, "prepare": library.prepare, "initialize": library.begin}
bundle = {stage: jax.ffi.pycapsule(function) for stage, function in (stages | {"execute": library.count}).items()}
jax.ffi.register_ffi_target("test.count", bundle, platform="xloom")

jax.config.update("jax_enable_x64", True)
count = jax.jit(lambda: jax.ffi.ffi_call("test.count", jax.ShapeDtypeStruct((2,), np.int64))(start=np.int64(5)))
assert jax.devices()[0].platform == "xloom"
assert [count().tolist(), count().tolist()] == [[5, 60], [6, 70]]
assert is_registered("test.count")
