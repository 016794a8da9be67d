"""Tensors of the device: what torch sees of one, and the storage that has its value."""
