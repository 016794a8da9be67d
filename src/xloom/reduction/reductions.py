"""The table of reductions, in the order in which they are tried."""

from __future__ import annotations

from xloom.reduction.attributes import Annotations, Header, OptionalAttributes
from xloom.reduction.base import Reduction
from xloom.reduction.callees import CalleeAsEntry
from xloom.reduction.constants import Constants
from xloom.reduction.dimensions import Dimensions
from xloom.reduction.extraction import Extraction
from xloom.reduction.inlining import Inlining
from xloom.reduction.loop_state import LoopState, TupleElements
from xloom.reduction.outputs import Outputs, OutputToCopy
from xloom.reduction.substitution import ValueToOperand, ValueToZeros

REDUCTIONS: tuple[Reduction, ...] = (
    Header(),
    Annotations(),
    Extraction(),
    Outputs(),
    CalleeAsEntry(),
    Inlining(),
    TupleElements(),
    LoopState(),
    OutputToCopy(),
    ValueToOperand(),
    ValueToZeros(),
    Constants(),
    Dimensions(),
    OptionalAttributes(),
)
"""What takes most away comes first."""
