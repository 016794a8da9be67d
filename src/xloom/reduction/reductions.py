"""The table of reductions, in the order in which they are tried."""

from __future__ import annotations

from xloom.reduction.attributes import Annotations, Header, OptionalAttributes
from xloom.reduction.base import Reduction
from xloom.reduction.callees import CalleeAsEntry, CalleeBeside
from xloom.reduction.chains import IdleState, ParameterToOutput
from xloom.reduction.constants import Constants
from xloom.reduction.dead_code import Unread, UnreadToResult
from xloom.reduction.dimensions import Dimensions
from xloom.reduction.extraction import Extraction
from xloom.reduction.inlining import Inlining
from xloom.reduction.loop_state import LoopState, TupleElements
from xloom.reduction.merging import OtherCallee
from xloom.reduction.outputs import Outputs, OutputToCopy
from xloom.reduction.parallel_operands import ParallelOperands, ScanCarries
from xloom.reduction.substitution import ValueToOperand, ValueToZeros
from xloom.reduction.types import ElementTypes
from xloom.reduction.windows import UnitWindows

REDUCTIONS: tuple[Reduction, ...] = (
    Header(),
    Annotations(),
    Unread(),
    Extraction(),
    Unread(),
    Outputs(),
    CalleeAsEntry(),
    UnreadToResult(),
    Inlining(),
    TupleElements(),
    LoopState(),
    ParallelOperands(),
    ScanCarries(),
    OutputToCopy(),
    ValueToOperand(),
    ValueToZeros(),
    Constants(),
    UnitWindows(),
    Dimensions(),
    ElementTypes(),
    OtherCallee(),
    CalleeBeside(),
    ParameterToOutput(),
    IdleState(),
    OptionalAttributes(),
)
"""What takes most away comes first."""
