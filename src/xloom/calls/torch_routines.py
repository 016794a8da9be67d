"""What the routines are called by that PyTorch's operators are, as custom calls."""

PREFIX = "xloom.torch."
"""Before the name of an operator of ATen, whose options the call has as JSON."""
