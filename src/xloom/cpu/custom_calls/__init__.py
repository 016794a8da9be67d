"""Code outside the program, called from its entry function: custom calls of every ABI, and the host."""
