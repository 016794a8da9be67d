"""Code of each ABI, registered with JAX and called by each of its `custom_call_api_version`s, in a process of its own."""

import jax
import numpy as np
from abi_pairings import X, capsule, register_c, source

from xloom.calls.registry import ABIS
from xloom.errors import CustomCallError

NUMBERS = {number: abi for number, abi in enumerate(ABIS, 1)}
PLATFORM = jax.devices()[0].platform


def call(target: str, version: int):
    options: dict = {"custom_call_api_version": version} if version != 4 else {}
    return jax.jit(lambda x: jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((64,), np.float32), **options)(x + x))


def refused(target: str, version: int, message: str) -> None:
    try:
        call(target, version)(X)
    except jax.errors.JaxRuntimeError as error:
        assert message in str(error) and "jax_abi_pairings.py:16)" in str(error), error
    else:
        raise AssertionError(f"{target} runs")


for abi in ABIS:
    for said in (0, 1):
        target = f"{abi}.{said}"
        try:
            jax.ffi.register_ffi_target(target, capsule(abi), platform=PLATFORM, api_version=said)
        except CustomCallError as error:
            assert PLATFORM == "cpu" and "is no typed handler" in str(error) and (abi != "typed-ffi") == said
            continue
        assert PLATFORM != "cpu" or abi == "typed-ffi" or not said
        for version, called in NUMBERS.items():
            print(target, version, flush=True)
            if abi == "typed-ffi" and called != abi:
                refused(target, version, "has the ABI typed-ffi")
            elif abi != "typed-ffi" and (said == 1 or called == "typed-ffi"):
                refused(target, version, "is no typed handler")
            else:
                np.testing.assert_array_equal(call(target, version)(X), 4 * X)
    register_c("t", source(abi), abi.replace("-", "_"), include_dirs=[jax.ffi.include_dir()])
    print("register_c", abi, flush=True)
    if abi == "typed-ffi":
        np.testing.assert_array_equal(call("t", 4)(X), 4 * X)
    else:
        refused("t", 4, f"has the ABI {abi}, the call says API_VERSION_TYPED_FFI")
