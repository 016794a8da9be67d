"""Products by warpgroups (wgmma), on the emulated GPU."""

import re
from dataclasses import replace

import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import TF32, product
from tests.cuda.test_planted_faults import BARRIER, WAIT
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.kernels import warpgroup_tiles
from xloom.cuda.kernels.warpgroup_tiles import Cut
from xloom.cuda.lower import lowered
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named

SM_90A = target_named("sm_90a")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few tiles are enough, and narrow ones are taken."""
    monkeypatch.setattr(warpgroup_tiles, "_FEW", 1)
    monkeypatch.setattr(warpgroup_tiles, "_MANY", 1000)
    monkeypatch.setattr(warpgroup_tiles, "NARROW", Cut(64, 64, 3))


def eighths(module):
    """Numbers that no type rounds."""
    generator = np.random.default_rng(0)
    values = [generator.integers(-20, 20, p.shape.dims) / 8 for p in module.entry.parameters]
    return [v.astype(p.shape.dtype.numpy) for v, p in zip(values, module.entry.parameters, strict=True)]


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [("bf16", "nn"), ("bf16", "nt"), ("bf16", "tn"), ("bf16", "tt"), ("f16", "nn"), ("f32", "nt")],
)
def test_agrees(dtype, layout):
    module = xl.parse(product(dtype, 80, 136, 152, "f32", layout, TF32 if dtype == "f32" else ""))
    executable = agrees(module, *eighths(module), target="sm_90a")
    assert "by warpgroups" in strategies(executable)[0]


@pytest.mark.parametrize("cut", [Cut(128, 128, 3), Cut(128, 256, 2)])
def test_tiles_as_large_as_they_are_on_a_gpu(monkeypatch, cut):
    monkeypatch.setattr(warpgroup_tiles, "NARROW", cut)
    module = xl.parse(product("bf16", 128, 256, 72))
    executable = agrees(module, *eighths(module), target="sm_90a")
    assert strategies(executable)[0].startswith(f"tiles of 128 x {cut.columns} by warpgroups")


@pytest.mark.parametrize(
    ("dims", "dtype", "algorithm"),
    [((80, 64, 60), "bf16", ""), ((80, 64, 64), "f32", TF32)],
)
def test_what_does_not_lie_in_pieces_of_16_bytes_is_for_warps(dims, dtype, algorithm):
    (launch,) = lowered(xl.parse(product(dtype, *dims, algorithm=algorithm)), SM_90A).launches
    assert "by tensor cores" in launch.kernel.strategy


def broken(text):
    """A kernel with a fault, one after another."""
    for what, pattern in (("barrier", BARRIER), ("wait", WAIT), ("fence", re.compile(r".*fence\.proxy\.async.*\n"))):
        for number, found in enumerate(pattern.finditer(text)):
            yield f"no {what} {number}", text[: found.start()] + text[found.end() :]
    yield "rows of 256 bytes", text.replace(str((1 << 16) | (64 << 32) | (1 << 62)), str((1 << 16) | (128 << 32)))


def test_faults_are_found():
    (launch,) = lowered(xl.parse(product("bf16", 64, 64, 256, "f32", "nt")), SM_90A).launches

    def run(text):
        memory = [np.zeros(a.nbytes, np.uint8) for a in launch.arguments]
        kernel = replace(launch.kernel, text=text)
        EmulatedKernel(kernel, SM_90A).launch(launch.blocks, memory, np.random.default_rng(0))

    run(launch.kernel.text)
    missed = []
    for fault, text in broken(launch.kernel.text):
        assert text != launch.kernel.text
        try:
            run(text)
        except KernelFaultError:
            continue
        missed.append(fault)
    assert not missed
