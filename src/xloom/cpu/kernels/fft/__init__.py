"""Discrete Fourier transforms: plans, butterflies, and phases over lines of an array."""
