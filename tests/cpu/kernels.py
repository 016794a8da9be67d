"""Runs the kernel of one instruction, without the rest of the compiler."""

import ctypes
from itertools import pairwise, starmap
from typing import Any

import numpy as np

import xloom as xl
from xloom.cpu.kernel_modules.form import constant_tables
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels import rule_of
from xloom.cpu.runtime.memory_pool import aligned
from xloom.llvm import jit
from xloom.llvm.target import process_target
from xloom.llvm.target_module import TargetModule


def kernel_of(text) -> Kernel:
    """The kernel of a module's root, an operator that has its own, whose operands are the parameters in order."""
    root = xl.parse(text).entry.root
    outputs = root.shape.elements if root.shape.is_tuple else (root.shape,)
    kernel = Kernel("k", tuple(o.shape for o in root.operands), tuple(outputs), TargetModule(process_target()))
    rule = rule_of(root.opcode)
    assert rule is not None
    rule(kernel, root)
    return kernel


def run_kernel(text, *arguments, split=1) -> Any:
    """The value of a module's root.

    Each phase is called in `split` pieces, as threads would.
    """
    kernel = kernel_of(text)
    root = xl.parse(text).entry.root
    shapes = *kernel.operands, *kernel.outputs
    tables = aligned(np.frombuffer(constant_tables(root, shapes, kernel.target), np.uint8))
    modules = {**kernel.needed, str(kernel.module): kernel.pipeline}
    library = jit.Library(list(starmap(jit.process_code, modules.items())), [p.symbol for p in kernel.phases])
    inputs = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arguments]
    results = [np.zeros(s.dims, s.dtype.numpy) for s in kernel.outputs]
    if kernel.must_alias:
        for output, operand in kernel.in_place.items():
            results[output][...] = inputs[operand]
    scratch = [np.full(n + 64, 0xAA, np.uint8) for n in kernel.scratch]
    pointers = [a.ctypes.data for a in (*inputs, *results)]
    pointers += [-(-s.ctypes.data // 64) * 64 for s in scratch]
    buffers = (ctypes.c_void_p * (len(pointers) + 2))(tables.ctypes.data, None, *pointers)
    for phase in kernel.phases:
        function = library.function(phase.symbol, jit.TASK)
        bounds = [phase.count * k // split for k in range(split + 1)]
        for begin, end in pairwise(bounds):
            function(ctypes.addressof(buffers) + 16, begin, end)
    return tuple(results) if root.shape.is_tuple else results[0]
