"""Faults that are planted in the kernels of programs are found: no barrier, another thread's element, too many."""

import re
from dataclasses import replace

import numpy as np
import pytest

import xloom as xl
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.lower import lowered
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named

SM_80 = target_named("sm_80")
ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def reduction(dims, dimension):
    shape, left = f"f32[{dims[0]},{dims[1]}]", dims[1 - dimension]
    return (
        f"{ADD}ENTRY e {{ x = {shape} parameter(0) i = f32[] constant(0) "
        f"ROOT r = f32[{left}] reduce(x, i), dimensions={{{dimension}}}, to_apply=add }}"
    )


def normalised(rows, columns):
    shape = f"f32[{rows},{columns}]"
    return (
        f"{ADD}ENTRY e {{ x = {shape} parameter(0) zero = f32[] constant(0) p = {shape} exponential(x) "
        f"s = f32[{rows}] reduce(p, zero), dimensions={{1}}, to_apply=add "
        f"c = {shape} broadcast(s), dimensions={{0}} ROOT q = {shape} divide(p, c) }}"
    )


def product(dtype, m, n, k):
    return (
        f"ENTRY e {{ x = {dtype}[{m},{k}] parameter(0) y = {dtype}[{k},{n}] parameter(1) "
        f"ROOT d = {dtype}[{m},{n}] dot(x, y), {DOT} }}"
    )


PROGRAMS = {
    "map": "ENTRY e { x = f32[300] parameter(0) ROOT z = f32[300] sine(x) }",
    "vectors": "ENTRY e { x = f32[8192] parameter(0) ROOT z = f32[8192] add(x, x) }",
    "gather": "ENTRY e { x = f32[9,40] parameter(0) i = s32[20] parameter(1) "
    "ROOT g = f32[20,40] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,40} }",
    "pad": "ENTRY e { x = f32[20,20] parameter(0) z = f32[] constant(0) ROOT p = f32[23,24] pad(x, z), padding=1_2x3_1 }",
    "lanes": reduction((70, 20), 1),
    "warps": reduction((70, 100), 1),
    "blocks": reduction((140, 1100), 1),
    "parts": reduction((3, 40000), 1),
    "columns": reduction((100, 70), 0),
    "parts of columns": reduction((3000, 40), 0),
    "short rows": normalised(10, 100),
    "rows": normalised(10, 600),
    "transpose": "ENTRY e { x = f32[40,70] parameter(0) ROOT t = f32[70,40] transpose(x), dimensions={1,0} }",
    "bf16 transpose": "ENTRY e { x = bf16[33,33] parameter(0) ROOT t = bf16[33,33] transpose(x), dimensions={1,0} }",
    "product": product("f32", 20, 20, 16),
    "larger product": product("f64", 70, 70, 16),
    "tensor cores": product("bf16", 70, 70, 64),
    "half tensor cores": product("f16", 70, 64, 64),
    "convolution": "ENTRY e { x = f32[1,9,9,4] parameter(0) k = f32[3,3,4,6] parameter(1) "
    "ROOT c = f32[1,9,9,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }",
    "sort": f"{LESS}ENTRY e {{ x = f32[2,200] parameter(0) "
    "ROOT s = f32[2,200] sort(x), dimensions={1}, is_stable=true, to_apply=less }",
    "scatter": f"{ADD}ENTRY e {{ x = f32[9,5] parameter(0) i = s32[60,1] parameter(1) u = f32[60,5] parameter(2) "
    "ROOT s = f32[9,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }",
}  # fmt: skip
THREAD = re.compile(r"(%\S+) = call i32 @\"llvm.nvvm.read.ptx.sreg.tid.x\"\(\)")
BLOCK = re.compile(r"(%\S+) = call i32 @\"llvm.nvvm.read.ptx.sreg.ctaid.x\"\(\)")
BARRIER = re.compile(r'  call void @"llvm.nvvm.barrier.cta.sync.aligned.all".*\n')


ATOMIC = re.compile(r"  (%\S+) = atomicrmw fadd (ptr \S+), float (\S+) monotonic\n")
PLAIN = """  %old = load float, \\2, align 4
  %new = fadd float %old, \\3
  store float %new, \\2, align 4
"""


def broken(launch):
    """A launch's kernel with a fault, one after another: what is wrong, and the text."""
    text = launch.kernel.text
    if ATOMIC.search(text):
        yield "no atomic operation", ATOMIC.sub(PLAIN, text)
        return
    for number, barrier in enumerate(BARRIER.finditer(text)):
        yield f"no barrier {number}", text[: barrier.start()] + text[barrier.end() :]
    if launch.blocks > 1:
        yield "every block is the first", BLOCK.sub(r"\1 = add i32 0, 0", text)
    thread = '%all = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()'
    yield "threads are pairs", THREAD.sub(rf"{thread}\n  \1 = and i32 %all, -2", text)


def launched(kernel, launch):
    """Runs a kernel on the same random numbers each time, none of them great."""
    generator = np.random.default_rng(0)
    memory = [generator.integers(0, 2, max(1, a.nbytes), np.uint8) for a in launch.arguments]
    EmulatedKernel(kernel, SM_80).launch(launch.blocks, memory, generator)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS)
def test_faults_are_found(name):
    count, missed = 0, []
    for launch in lowered(xl.parse(PROGRAMS[name]), SM_80).launches:
        launched(launch.kernel, launch)
        for fault, text in broken(launch):
            count += 1
            try:
                launched(replace(launch.kernel, text=text), launch)
            except KernelFaultError:
                continue
            missed.append(f"{launch.kernel.strategy}: {fault}")
    assert count
    assert not missed
