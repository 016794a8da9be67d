"""What GPUs are called where others ask for them."""

PJRT_PLATFORM = "xloom_cuda"
"""The platform of PJRT, and of JAX."""
CALL_PLATFORM = "CUDA"
"""What custom calls for GPUs are registered for, as XLA has it."""
