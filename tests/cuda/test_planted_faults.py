"""Faults that are planted in the kernels of programs are found: no barrier, another thread's element, too many."""

import re
from dataclasses import replace

import numpy as np
import pytest

import xloom as xl
from tests.cuda import kernel_programs as programs
from tests.cuda.emulation import random_array
from xloom.cuda.emulator.executable import EmulatedExecutable
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named

SM_80 = target_named("sm_80")
PROGRAMS = {
    "map": programs.mapped("f32", 300, "sine"),
    "vectors": programs.mapped("f32", 8192, "add"),
    "gather": programs.gather("f32", 4, 40, 20),
    "pad": programs.entry(["f32[20,20]", "f32[]"], "p = f32[23,24] pad(p0, p1), padding=1_2x3_1"),
    "lanes": programs.reduction("f32", 70, 20, 1),
    "warps": programs.reduction("f32", 70, 100, 1),
    "blocks": programs.reduction("f32", 140, 1100, 1),
    "parts": programs.reduction("f32", 3, 40000, 1),
    "columns": programs.reduction("f32", 100, 70, 0),
    "parts of columns": programs.reduction("f32", 3000, 40, 0),
    "narrow columns": programs.reduction("f32", 5000, 5, 0),
    "few long rows": programs.softmax("f32", 2, 17000),
    "argmax": programs.argmax(140, 1100),
    "short rows": programs.normalised(10, 100),
    "rows": programs.normalised(10, 600),
    "layer norm": programs.layer_norm(10, 600),
    "transpose": programs.transpose("f32", 40, 70),
    "bf16 transpose": programs.transpose("bf16", 33, 33),
    "product": programs.product("f32", 20, 20, 16),
    "larger product": programs.product("f64", 70, 70, 16),
    "tensor cores": programs.product("bf16", 70, 70, 64),
    "tensor cores, odd": programs.product("bf16", 70, 69, 64, layout="tn"),
    "half tensor cores": programs.product("f16", 70, 64, 64),
    "tf32 tensor cores": programs.product("f32", 70, 64, 64, algorithm=programs.TF32),
    "s8 tensor cores": programs.product("s8", 70, 64, 80, "s32", "nt"),
    "long sums": programs.product("bf16", 16, 24, 1100),
    "long sums of threads": programs.product("f32", 17, 24, 1100),
    "one bf16 row": programs.product("bf16", 1, 70, 300),
    "one bf16 column": programs.product("bf16", 9, 1, 1500),
    "convolution": programs.convolution("f32", 9, 8, 8),
    "gradient of a convolution in steps": programs.convolution_gradient("bf16", 9, 8, 16, stride=2),
    "bf16 convolution": programs.convolution("bf16", 9, 8, 8),
    "cumulative sum": programs.cumulative("f32", 3, 700, 1),
    "cumulative sum in parts": programs.cumulative("f32", 2, 8500, 1),
    "cumulative sum of columns": programs.cumulative("f32", 50, 40, 0),
    "cumulative sum of few columns": programs.cumulative("f32", 300, 3, 0),
    "sort": programs.sort("f32", 2, 200),
    "first of rows": programs.top_k("f32", 2, 300, 5),
    "scatter": programs.scatter("f32", 9, 5, 60),
    "pooling": programs.pooled(8, 5),
    "transform": programs.transform("FFT", (5, 120)),
    "transform of real columns": programs.transform("RFFT", (12, 30), 2),
    "triangular system": programs.triangular_solve("f32", (40, 70)),
    "triangular system, right": programs.triangular_solve("f32", (70, 40), left=False),
    "factor": programs.cholesky("c64", (40, 40), lower=False),
    "transform of a prime": programs.transform("IFFT", (2, 37)),
    "LU": programs.lapack_call("getrf", "f32", ["f32[2,40,36]"], ["f32[2,40,36]", "s32[2,36]", "s32[2]"]),
    "QR": programs.lapack_call("geqrf", "f32", ["f32[2,40,34]"], ["f32[2,40,34]", "f32[2,34]"]),
    "reflections": programs.lapack_call("ungqr", "c64", ["c64[2,40,34]", "c64[2,30]"], ["c64[2,40,34]"]),
    "products with reflections": programs.lapack_call(
        "ormqr",
        "f32",
        ["f32[2,40,34]", "f32[2,34]", "f32[2,40,50]"],
        ["f32[2,40,50]"],
        "left = true, transpose = false",
    ),
    "L D L^T": programs.lapack_call("sytrf", "f32", ["f32[2,40,40]"], ["f32[2,40,40]", "s32[2,40]", "s32[2]"]),
    "eigenvalues": programs.lapack_call(
        "syevd", "f32", ["f32[2,7,7]"], ["f32[2,7,7]", "f32[2,7]", "s32[2]"], "mode = 86 : ui8, uplo = 76 : ui8"
    ),
    "singular values": programs.lapack_call(
        "gesdd",
        "c64",
        ["c64[2,5,3]"],
        ["c64[2,5,3]", "f32[2,3]", "c64[2,5,5]", "c64[2,3,3]", "s32[2]"],
        "mode = 65 : ui8",
    ),
}
PARTS = {"scatter", "triangular system", "triangular system, right", "factor", "LU", "reflections"}
"""Whose kernels touch a part of their arrays."""
THREAD = re.compile(r"(%\S+) = call i32 @\"llvm.nvvm.read.ptx.sreg.tid.x\"\(\)")
BLOCK = re.compile(r"(%\S+) = call i32 @\"llvm.nvvm.read.ptx.sreg.ctaid.x\"\(\)")
BARRIER = re.compile(r'  call void @"llvm.nvvm.barrier.cta.sync.aligned.all".*\n')
WAIT = re.compile(r'  call void @"llvm.nvvm.cp.async.wait.group".*\n')
ATOMIC = re.compile(r"  (%\S+) = atomicrmw fadd (ptr \S+), float (\S+) monotonic\n")
PLAIN = """  %old = load float, \\2, align 4
  %new = fadd float %old, \\3
  store float %new, \\2, align 4
"""


def broken(kernel, blocks):
    """A kernel of so many blocks with a fault, one after another: what is wrong, and the text."""
    text = kernel.text
    if ATOMIC.search(text):
        yield "no atomic operation", ATOMIC.sub(PLAIN, text)
        return
    for what, pattern in (("barrier", BARRIER), ("wait for copies", WAIT)):
        for number, found in enumerate(pattern.finditer(text)):
            yield f"no {what} {number}", text[: found.start()] + text[found.end() :]
    if blocks > 1:
        yield "every block is the first", BLOCK.sub(r"\1 = add i32 0, 0", text)
    thread = '%all = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()'
    yield "threads are pairs", THREAD.sub(rf"{thread}\n  \1 = and i32 %all, -2", text)


class Recording(EmulatedExecutable):
    """A program whose run keeps what was in the arrays of each launch before it."""

    def __init__(self, module):
        super().__init__(module, SM_80)
        self.launches = []

    def _kernel(self, kernel):
        return _Recorder(super()._kernel(kernel), self.launches)


class _Recorder:
    def __init__(self, kernel, launches):
        self._kernel, self._launches = kernel, launches

    def launch(self, blocks, arrays, generator, makes):
        self._launches.append((self._kernel.kernel, blocks, [copied(a) for a in arrays]))
        self._kernel.launch(blocks, arrays, generator, makes)


def copied(array):
    """The same bytes elsewhere, to be written or not as before."""
    found = array.copy()
    found.flags.writeable = array.flags.writeable
    return found


def is_found(kernel, runs, short=-1, nbytes=-1):
    """Whether the emulator says of some run that something is wrong; array `short` ends at `nbytes`."""
    for blocks, arrays in runs:
        memory = [copied(a)[:nbytes] if number == short else copied(a) for number, a in enumerate(arrays)]
        try:
            EmulatedKernel(kernel, SM_80).launch(blocks, memory, np.random.default_rng(0))
        except KernelFaultError:
            return True
    return False


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS)
def test_faults_are_found(name):
    count, missed = 0, []
    module = xl.parse(PROGRAMS[name])
    recording, generator = Recording(module), np.random.default_rng(0)
    recording(*(random_array(p.shape, generator) for p in module.entry.parameters))
    for kernel, launches in recording.program.kernels.items():
        runs = [(blocks, arrays) for each, blocks, arrays in recording.launches if each == kernel]
        most = max(blocks for blocks, _ in runs)
        found = {fault: is_found(replace(kernel, text=text), runs) for fault, text in broken(kernel, most)}
        for number, allocation in enumerate(launches[0].arguments):
            # scratch memory may be larger than needed, indices or steps choose, and not every array is touched
            is_whole = allocation.kind in ("argument", "result") and name not in PARTS
            if is_whole and is_found(kernel, runs, number, 0):
                found[f"array {number} ends sooner"] = is_found(kernel, runs, number, -1)
        count += len(found)
        missed += [f"{kernel.strategy}: {fault}" for fault, is_told in found.items() if not is_told]
    assert count
    assert not missed
    print(f"{count} faults planted in {name}, all found")
