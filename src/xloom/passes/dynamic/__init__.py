"""How each operator treats arrays that are larger than what is in them; used by the pass `dynamic-padding`."""

from xloom.passes.dynamic import arithmetic, movement, reductions  # noqa: F401 - each registers its rules
from xloom.passes.dynamic.values import RULES

__all__ = ["RULES"]
