"""Kernels as LLVM modules: what one is, which are shared, batched, or serve many shapes."""
