"""The libraries whose own suites are run: where their tests lie in a checkout, and through which door they come to us.

A suite has to be of the version that is installed: the tags are beside the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Library:
    """A library by the name of its distribution, which is also the folder of its checkout."""

    name: str
    tag: str
    door: str
    """`jax`: the platform; `torch`: the device."""
    tests: str
    """Its test files, as a pattern in the checkout; `{a,b}` stands for either folder."""

    def files(self, checkouts: Path) -> list[str]:
        """Its test files, relative to its checkout."""
        root = checkouts / self.name
        before, _, rest = self.tests.partition("{")
        either, _, after = rest.partition("}")
        patterns = [before + name + after for name in either.split(",")]
        return sorted(str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern))


LIBRARIES = [
    Library("numpyro", "0.21.0", "jax", "test/**/test_*.py"),
    Library("diffrax", "v0.7.2", "jax", "test/**/test_*.py"),
    Library("optax", "v0.2.8", "jax", "optax/**/*_test.py"),
    Library("flax", "v0.12.7", "jax", "tests/{nnx,linen}/**/*_test.py"),
    Library("equinox", "v0.13.8", "jax", "tests/**/test_*.py"),
    Library("lineax", "v0.1.1", "jax", "tests/**/test_*.py"),
    Library("optimistix", "v0.1.0", "jax", "tests/**/test_*.py"),
    Library("dm-haiku", "v0.0.16", "jax", "haiku/_src/**/*_test.py"),
    Library("mujoco-mjx", "3.12.0", "jax", "mjx/mujoco/mjx/_src/*_test.py"),
    Library("jax-md", "jax-md-v0.2.29", "jax", "tests/**/*_test.py"),
    Library("torchmetrics", "v1.9.0", "torch", "tests/unittests/**/test_*.py"),
    Library("kornia", "v0.8.3", "torch", "tests/**/test_*.py"),
]
