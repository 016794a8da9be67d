"""All passes, which are registered when this is imported."""

# ruff: noqa: F401

from xloom.passes.algebraic_simplification import AlgebraicSimplification
from xloom.passes.all_reduce_combiner import AllReduceCombiner
from xloom.passes.async_simplification import AsyncSimplification
from xloom.passes.base import PASSES, Pass, register
from xloom.passes.batch_norm_expansion import BatchNormExpansion
from xloom.passes.built_in_call_expansion import BuiltInCallExpansion
from xloom.passes.call_inlining import CallInlining
from xloom.passes.channels_last import ChannelsLast
from xloom.passes.choice_sinking import ChoiceSinking
from xloom.passes.collective_expansion import CollectiveExpansion
from xloom.passes.collective_simplification import CollectiveSimplification
from xloom.passes.compare import Compare
from xloom.passes.comparison_outcomes import WrongValueError
from xloom.passes.constant_folding import ConstantFolding
from xloom.passes.cse import CommonSubexpressionElimination
from xloom.passes.dce import DeadCodeElimination
from xloom.passes.dilated_input_phases import DilatedInputPhases
from xloom.passes.dilated_input_simplification import DilatedInputSimplification
from xloom.passes.dot_strength_reduction import DotStrengthReduction
from xloom.passes.dynamic_padding import DynamicPadding
from xloom.passes.effect_ordering import CallNaming, EffectOrdering
from xloom.passes.expand import Expand
from xloom.passes.fusion_inlining import FusionInlining
from xloom.passes.inlining import Inlining
from xloom.passes.integer_range_simplification import IntegerRangeSimplification
from xloom.passes.lapack_call_expansion import LapackCallExpansion
from xloom.passes.layout_simplification import LayoutSimplification
from xloom.passes.linear_algebra_blocking import LinearAlgebraBlocking
from xloom.passes.linear_algebra_widening import LinearAlgebraWidening
from xloom.passes.lookup_tables import LookupTables
from xloom.passes.mask_sharing import MaskSharing
from xloom.passes.narrow_operands import NarrowOperands
from xloom.passes.ordered_operand_rounding import OrderedOperandRounding
from xloom.passes.outline import Outline, Outlined, outline_pattern
from xloom.passes.partitioning import SpmdPartitioning
from xloom.passes.pattern import Pattern, add_pattern, pattern_from_jax
from xloom.passes.pipeline import parse_pipeline, pipeline_text
from xloom.passes.product_blocking import ProductBlocking
from xloom.passes.product_widening import ProductWidening
from xloom.passes.reduction_widening import ReductionWidening
from xloom.passes.result_rounding import ResultRounding
from xloom.passes.row_major_entry import RowMajorEntry
from xloom.passes.runner import PassRun, run_passes
from xloom.passes.scan_expansion import ScanExpansion
from xloom.passes.sign_sharing import SignSharing
from xloom.passes.single_window_simplification import SingleWindowSimplification
from xloom.passes.tuple_simplification import TupleSimplification
from xloom.passes.update_accumulation import UpdateAccumulation
from xloom.passes.update_predication import UpdatePredication
from xloom.passes.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from xloom.passes.while_loop_simplification import WhileLoopSimplification
from xloom.passes.zero_sized_elimination import ZeroSizedElimination
