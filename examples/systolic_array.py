"""A systolic array as a backend of xloom: this file is all of it.

DRAM, 256 MiB  <-- DMA, 64 bytes a cycle -->  scratchpad, 1 MiB
matrix unit    32 x 32 cells, in which a tile of the right operand stands still; the left one flows through, a row
               a cycle; operands are bfloat16, sums float32
vector unit    128 lanes, for all that is no product: native code of the CPU's computes it, on arrays in DRAM
kernels        attention, RMS norm and GELU are fused: what is between their operands and results stays in the
               scratchpad
"""

import ml_dtypes
import numpy as np

from xloom.sim import Simulator, Tolerance, as_matrices, operator

BF16 = np.dtype(ml_dtypes.bfloat16)
SIDE, LANES = 32, 128
DMA_LATENCY, DMA_BYTES = 64, 64
PASSES = {"exponential": 4, "tanh": 6, "rsqrt": 3, "sqrt": 3, "divide": 3, "log": 4, "power": 8}  # other operators: 1


class SystolicArray(Simulator):
    """A device."""

    platform = "systolic"
    memory_bytes = 256 << 20
    scratchpad_bytes = 1 << 20
    native = True
    fused = ("attention", "rms_norm", "gelu")

    @operator("dot", types="bf16 f16 f32")
    def product(self, instruction, lhs, rhs):
        """The matrix unit: tile by tile of the right operand, all rows of the left one each."""
        a, b = as_matrices(instruction, lhs, rhs)
        (count, rows, depth), columns = a.shape, b.shape[2]
        sums = np.zeros((count, rows, columns), np.float32)
        for g in range(count):
            for k in range(0, depth, SIDE):
                flowing = self.load(a[g, :, k : k + SIDE], BF16)
                for n in range(0, columns, SIDE):
                    standing = self.load(b[g, k : k + SIDE, n : n + SIDE], BF16)
                    self.charge("matrix", SIDE + rows + 2 * SIDE)  # fill the cells, let rows in, let them out
                    sums[g, :, n : n + SIDE] += flowing.astype(np.float32) @ standing.astype(np.float32)
        return self.store(sums.reshape(instruction.shape.dims).astype(instruction.shape.dtype.numpy))

    def cost(self, instruction):
        """The vector unit: so many elements a cycle."""
        elements = max(i.shape.size for i in (instruction, *instruction.operands) if i.shape.is_array)
        return {"vector": PASSES.get(instruction.opcode, 1) * -(-elements // LANES)}

    def dma_cycles(self, nbytes):
        """Of a transfer, which first takes some time to begin."""
        return DMA_LATENCY + -(-nbytes // DMA_BYTES)

    def tolerance(self, instruction):
        """Products, and kernels with products in them, are as exact as bfloat16."""
        return Tolerance(2, BF16, of_largest=True)
