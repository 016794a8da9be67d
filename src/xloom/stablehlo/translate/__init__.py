"""MLIR operations -> HLO instructions, for all that ordinary programs have; a file per family, a rule per operation.

What has no rule here, or an attribute that its rule does not know, is jaxlib's to convert: the program as a whole.
"""

from xloom.stablehlo.translate import chlo, control, custom_call, dynamic, elementwise, layout, linalg, random, reduce
from xloom.stablehlo.translate.program import translated
from xloom.stablehlo.translate.rules import NotTranslatedError

__all__ = ["NotTranslatedError", "translated"]

_FAMILIES = (
    chlo,
    control,
    custom_call,
    dynamic,
    elementwise,
    layout,
    linalg,
    random,
    reduce,
)  # which register their rules
