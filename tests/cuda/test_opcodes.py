"""A sample of every opcode, on the emulated GPU: it agrees with the interpreter, or is refused by name."""

import re

import numpy as np
import pytest

pytest.importorskip("jaxlib._hlo")

import xloom as xl
from tests.cuda.emulation import agrees, random_array
from tests.test_opcodes import BEFORE, LINES, PROLOGUE, SUM
from xloom.cpu.runtime.dynamic_shapes import padded_to_bounds
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.lower import lowered
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, tool
from xloom.errors import LoweringError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.opcodes import OPCODES
from xloom.llvm.target import target_named

REFUSED = {
    *("infeed", "outfeed", "send", "send-done", "recv", "recv-done"),  # wait for the host
    # whose samples have no end; those of their ends have both
    *("all-gather-start", "all-reduce-start", "collective-permute-start", "async-start", "async-update", "copy-start"),
}
RANDOM = {"rng", "rng-get-and-update-state"}
ELIDED = {
    "kernel = f32[2,2,4,4] constant({...})": "kernel = f32[2,2,4,4] broadcast(m), dimensions={2,3}",
    "ones = f32[4,4] constant({...})": "ones = f32[4,4] broadcast(s), dimensions={}",
}


def sample(opcode):
    """The module of an opcode's sample, with the parameters that it needs only."""
    before = ELIDED.get(BEFORE.get(opcode, ""), BEFORE.get(opcode, ""))
    line = LINES[opcode].replace("parameter(11)", "parameter(0)")
    body = f"  {before}\n  ROOT result = {line}\n"
    kept = []
    for definition in PROLOGUE.strip().splitlines():
        name = definition.split()[0]
        if re.search(rf"[(, ]{name}[,) ]", body.replace("{", " ").replace("}", " ")):
            kept.append(re.sub(r"parameter\(\d+\)", f"parameter({len(kept)})", definition))
    return xl.parse(f"{SUM}ENTRY e {{\n" + "\n".join(kept) + f"\n{body}}}\n")


def arguments_of(module, opcode):
    """Random ones; a positive definite matrix where one is factored, small dynamic sizes."""
    generator = np.random.default_rng(0)
    values = []
    for parameter in module.entry.parameters:
        if not parameter.shape.is_array:
            values.append(None)
            continue
        value = random_array(parameter.shape, generator)
        if opcode == "dynamic-reshape" and not value.ndim:
            value = np.int32(4)  # as many as there are
        if opcode in ("cholesky", "triangular-solve") and value.ndim == 2:
            value = (value @ value.T + 4 * np.eye(4)).astype(value.dtype)
        values.append(value)
    return values


@pytest.mark.sampled
@pytest.mark.parametrize("opcode", OPCODES)
def test_every_opcode(opcode):
    module = sample(opcode)
    if opcode in REFUSED:
        with pytest.raises(LoweringError):
            agrees(module, *arguments_of(module, opcode))
        return
    if opcode in RANDOM:
        result = emulated(module)(*arguments_of(module, opcode))
        assert result.shape == module.entry.root.shape.dims
        return
    agrees(module, *arguments_of(module, opcode))


@pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")
@pytest.mark.sampled
@pytest.mark.parametrize("opcode", [opcode for opcode in OPCODES if opcode not in REFUSED])
def test_ptxas_accepts_every_opcode(opcode):
    module = sample(opcode)
    if has_dynamic(module):
        module, _ = padded_to_bounds(module)
    for target in map(target_named, ("sm_80", "sm_90a", "sm_100", "sm_120")):
        for kernel in lowered(module, target).kernels:
            assert assembled(ptx_of(kernel, target), target).spilled_bytes == 0
