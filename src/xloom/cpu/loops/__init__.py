"""Loop nests: kernels of fused operators, as expressions an element, before they are LLVM IR."""
