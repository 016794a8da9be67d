"""Runs the kernel of one instruction, without the rest of the compiler."""

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np

import xloom as xl
from xloom.cpu import jit
from xloom.cpu.kernel import Kernel
from xloom.cpu.kernels import rule_of


def run_kernel(text, *arguments, split=1) -> Any:
    """The value of a module's root, an operator with a kernel of its own whose operands are the parameters in order.

    Each phase is called in `split` pieces, as threads would.
    """
    module = xl.parse(text)
    root = module.entry.root
    outputs = root.shape.elements if root.shape.is_tuple else (root.shape,)
    kernel = Kernel("k", tuple(o.shape for o in root.operands), tuple(outputs))
    rule = rule_of(root.opcode)
    assert rule is not None
    rule(kernel, root)
    library = jit.Library([jit.object_code(str(kernel.module), kernel.content)], [p.symbol for p in kernel.phases])
    inputs = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arguments]
    results = [np.zeros(s.dims, s.dtype.numpy) for s in outputs]
    if kernel.must_alias:
        for output, operand in kernel.in_place.items():
            results[output][...] = inputs[operand]
    scratch = [np.full(n + 64, 0xAA, np.uint8) for n in kernel.scratch]
    pointers = [a.ctypes.data for a in (*inputs, *results)]
    pointers += [-(-s.ctypes.data // 64) * 64 for s in scratch]
    buffers = (ctypes.c_void_p * len(pointers))(*pointers)
    for phase in kernel.phases:
        function = library.function(phase.symbol, jit.TASK)
        bounds = [phase.count * k // split for k in range(split + 1)]
        for begin, end in pairwise(bounds):
            function(ctypes.addressof(buffers), begin, end)
    return tuple(results) if root.shape.is_tuple else results[0]
