"""Custom calls that are kernels of the user's: PTX, machine code, CUDA source, and what other libraries compile.

registered.py    kernels in images, under a name
cuda_source.py   CUDA C++ to machine code, by NVRTC or nvcc
libraries.py     kernels of Numba, CuPy and Triton
"""

from xloom.cuda.user_kernels.libraries import register_kernel_object
from xloom.cuda.user_kernels.registered import register_kernel

__all__ = ["register_kernel", "register_kernel_object"]
