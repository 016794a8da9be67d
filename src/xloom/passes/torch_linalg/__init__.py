"""PyTorch's linear algebra as operators and calls of LAPACK's routines that have kernels.

torch_factorisations.py  the pass, and which operators it knows
expansion.py             what it makes instructions by
factors.py               factors of matrices, their spectra, and what is made of factors
systems.py               systems of equations, inverses, determinants
"""

from xloom.passes.torch_linalg.torch_factorisations import TorchFactorisations

__all__ = ["TorchFactorisations"]
