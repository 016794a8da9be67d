"""Operators with a kernel of their own, a family a file: each has a real algorithm, not a generic loop."""

from importlib import import_module
from pathlib import Path

FAMILIES = tuple(sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__"))
for _family in FAMILIES:  # each registers its rules
    import_module(f"{__name__}.{_family}")
