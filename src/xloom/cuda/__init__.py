"""The backend for NVIDIA's GPUs: kernels as LLVM IR for NVPTX, and a program as the list of their launches."""
