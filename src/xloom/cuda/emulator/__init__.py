"""Kernels on the processor: the LLVM IR that PTX is made of, each thread a coroutine, all accesses checked."""
