"""Result shapes of every opcode, one file per op family; importing this package registers them all."""

from xloom.infer.registry import RULES, infer_shape, infers

__all__ = ["RULES", "infer_shape", "infers"]
