"""Result shapes of every opcode, one file per op family; importing this package registers them all."""

from xloom.infer import collective, control, dynamic, elementwise, layout, linalg, reduce
from xloom.infer.registry import RULES, infer_shape, infers

__all__ = [
    "RULES",
    "collective",
    "control",
    "dynamic",
    "elementwise",
    "infer_shape",
    "infers",
    "layout",
    "linalg",
    "reduce",
]
