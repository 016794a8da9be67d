"""Every opcode, on one table, and every attribute, on another: the reference of the language.

Shape, evaluation and code generation rules live elsewhere, registered by opcode. Meaning and arity follow XLA's
`hlo_opcode.h` and operation semantics.

An opcode's attributes are listed in the order in which XLA prints them. A plain name is required; `name?` is optional
and printed when it differs from its default; `name=` is optional and always printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from xloom.errors import ParseError, near

MANY = -1


class Flags(Flag):
    """Properties that passes ask for."""

    NONE = 0
    COMMUTES = auto()
    ELEMENTWISE = auto()
    REGION = auto()
    EFFECT = auto()
    COLLECTIVE = auto()
    ASYNC = auto()
    NEEDS_SHAPE = auto()


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """An attribute: its kind (how it is parsed, printed and stored), enum name if any, default, and meaning."""

    name: str
    kind: str
    default: Any
    doc: str


@dataclass(frozen=True, slots=True)
class Use:
    """How an opcode uses an attribute: required, and printed even when it has its default value."""

    info: AttributeInfo
    required: bool
    always: bool


@dataclass(frozen=True, slots=True)
class Op:
    """A row of the opcode table. `arity` is the operand count, or MANY."""

    name: str
    arity: int
    flags: Flags
    doc: str
    attributes: dict[str, Use]
    computations: tuple[str, ...]
    """Names of the attributes that hold called computations, in the order in which XLA visits them."""
    required: tuple[str, ...]
    """Names of the attributes without which it means nothing."""

    @property
    def elementwise(self) -> bool:
        """True when output element i depends on element i of each operand only."""
        return Flags.ELEMENTWISE in self.flags

    @property
    def commutes(self) -> bool:
        """True when the two operands may be swapped."""
        return Flags.COMMUTES in self.flags

    @property
    def has_effect(self) -> bool:
        """True when the instruction may not be removed, duplicated or reordered with others of its kind."""
        return Flags.EFFECT in self.flags


ENUMS: dict[str, dict[str, int]] = {
    "direction": {"EQ": 0, "NE": 1, "GE": 2, "GT": 3, "LE": 4, "LT": 5},
    "comparison_type": {"FLOAT": 0, "TOTALORDER": 1, "SIGNED": 2, "UNSIGNED": 3},
    "fft_type": {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3},
    "fusion_kind": {"kLoop": 0, "kInput": 1, "kOutput": 2, "kCustom": 3},
    "distribution": {"rng_uniform": 1, "rng_normal": 2},
    "rng_algorithm": {"rng_default": 0, "rng_three_fry": 1, "rng_philox": 2},
    "padding_type": {"PADDING_INVALID": 0, "PADDING_VALID": 1, "PADDING_SAME": 2},
    "transpose": {"TRANSPOSE_INVALID": 0, "NO_TRANSPOSE": 1, "TRANSPOSE": 2, "ADJOINT": 3},
    "schedule": {"SCHEDULE_NONE": 0, "SCHEDULE_LATEST": 1, "SCHEDULE_EARLIEST": 2},
    "api_version": {
        "API_VERSION_UNSPECIFIED": 0,
        "API_VERSION_ORIGINAL": 1,
        "API_VERSION_STATUS_RETURNING": 2,
        "API_VERSION_STATUS_RETURNING_UNIFIED": 3,
        "API_VERSION_TYPED_FFI": 4,
    },
    "convolution_kind": {"unset": 0, "fprop": 1, "dgrad": 2, "wgrad": 3},
    "precision": {"default": 0, "high": 1, "highest": 2, "packed_nibble": 3},
    "algorithm": {
        "unset": 0,
        "dot_any_f8_any_f8_f32": 1,
        "dot_any_f8_any_f8_f32_fast_accum": 2,
        "dot_f16_f16_f16": 3,
        "dot_f16_f16_f32": 4,
        "dot_bf16_bf16_bf16": 5,
        "dot_bf16_bf16_f32": 6,
        "dot_bf16_bf16_f32_x3": 7,
        "dot_bf16_bf16_f32_x6": 8,
        "dot_tf32_tf32_f32": 9,
        "dot_tf32_tf32_f32_x3": 10,
        "dot_f32_f32_f32": 11,
        "dot_f64_f64_f64": 12,
        "dot_bf16_bf16_f32_x9": 13,
    },
    "mode": {"cross_replica": 0, "cross_partition": 1, "cross_replica_and_partition": 2, "flattened_id": 3},
}
"""Spelling in HLO text and number in XLA's protos of every enumerated attribute value."""

ATTRIBUTES: dict[str, AttributeInfo] = {}
OPCODES: dict[str, Op] = {}


def _attr(key: str, kind: str, default: Any, doc: str) -> None:
    # "rng:algorithm" is the attribute `algorithm` as the rng opcodes use it
    ATTRIBUTES[key] = AttributeInfo(key.rpartition(":")[2], kind, default, doc)


# kinds: int float bool str ints int_lists enum:<ENUMS key> enums:<ENUMS key> computation computations window
# bools dim_labels slice padding literal value number shape shapes aliasing pairs replica_groups domain sparsity
# result_accuracy
_attr("algorithm", "enum:algorithm", "unset", "arithmetic of a dot or convolution")
_attr("rng:algorithm", "enum:rng_algorithm", None, "the random bit generator")
_attr("parameter_replication", "bools", (), "which leaves hold the same value on every replica")
_attr("permute:slice_sizes", "int_lists", (), "sizes of the slices sent")
_attr("parameter_number", "number", None, "which argument; written in the parentheses")
_attr("value:literal", "value", None, "the value; written in the parentheses")
_attr("api_version", "enum:api_version", "API_VERSION_ORIGINAL", "the ABI of a custom call")
_attr("async_execution_thread", "str", "main", "the thread that runs an async computation")
_attr("batch_group_count", "int", 1, "groups that the batch is split into, for a convolution's kernel gradient")
_attr("body", "computation", None, "the loop body, state -> state")
_attr("branch_computations", "computations", (), "one computation a branch")
_attr("called_computations", "computations", (), "computations that a custom call may use")
_attr("calls", "computation", None, "the fused or wrapped computation")
_attr("channel_id", "int", None, "matches operations of one communication across partitions")
_attr("collapsed_slice_dims", "ints", (), "slice dimensions of size 1 that are left out of the result")
_attr("condition", "computation", None, "the loop condition, state -> pred[]")
_attr("constrain_layout", "bool", False, "operands and result keep the layouts written")
_attr("convolution_kind", "enum:convolution_kind", "unset", "what a convolution is the gradient of")
_attr("cross_program_prefetch_index", "int", None, "the prefetch that a copy-start belongs to")
_attr("custom_call_has_side_effect", "bool", False, "never removed, duplicated or reordered")
_attr("custom_call_target", "str", None, "the registered name to call")
_attr("delta", "int", None, "how far the state advances")
_attr("dim_labels", "dim_labels", None, "roles of the dimensions of input, kernel and output: b01f_01io->b01f")
_attr("dimensions", "ints", (), "the dimensions that the operator is about")
_attr("direction", "enum:direction", None, "the comparison")
_attr("distribution", "enum:distribution", None, "the distribution of random numbers")
_attr("domain", "domain", None, "metadata on both sides of a domain boundary")
_attr("dynamic_slice_sizes", "ints", (), "sizes of the slice taken")
_attr("epsilon", "float", None, "added to the variance before its square root")
_attr("exponent_bits", "int", None, "exponent bits kept")
_attr("false_computation", "computation", None, "the branch for false")
_attr("feature_group_count", "int", 1, "groups that the features are split into")
_attr("feature_index", "int", None, "the feature dimension")
_attr("fft_length", "ints", (), "transform lengths of the innermost dimensions")
_attr("fft_type", "enum:fft_type", "FFT", "which transform")
_attr("has_dynamic_root", "bool", False, "the root of the broadcast is the last operand")
_attr("index", "int", None, "which tuple element")
_attr("index_vector_dim", "int", None, "the dimension of the indices that holds index vectors")
_attr("indices_are_sorted", "bool", False, "the caller promises sorted indices")
_attr("infeed_config", "str", "", "opaque configuration")
_attr("inferred_dimension", "int", -1, "the dimension whose size a dynamic reshape infers")
_attr("input_batching_dims", "ints", (), "operand dimensions that are batched")
_attr("inserted_window_dims", "ints", (), "operand dimensions of size 1 that the updates lack")
_attr("iota_dimension", "int", None, "the dimension along which values count up")
_attr("is_associative", "bool", False, "the scan's computation is associative")
_attr("is_composite", "bool", False, "the call stands for a composite operation of a framework")
_attr("is_host_transfer", "bool", False, "the other end is the host")
_attr("is_reverse", "bool", False, "scan from the last element to the first")
_attr("is_stable", "bool", False, "equal elements keep their order")
_attr("k", "int", None, "how many elements are kept")
_attr("kind", "enum:fusion_kind", None, "how a fusion is to be emitted")
_attr("largest", "bool", True, "the largest elements rather than the smallest")
_attr("left_side", "bool", False, "solve a x = b rather than x a = b")
_attr("lhs_batch_dims", "ints", (), "batch dimensions of the left operand")
_attr("lhs_contracting_dims", "ints", (), "summed dimensions of the left operand")
_attr("lhs_ragged_dims", "ints", (), "the ragged dimension of the left operand")
_attr("literal", "literal", None, "a constant that a custom call carries")
_attr("lower", "bool", False, "use or produce the lower triangle")
_attr("mantissa_bits", "int", None, "mantissa bits kept")
_attr("mode", "enum:mode", None, "how replica groups number devices")
_attr("num_carries", "int", None, "how many scan operands are carried state")
_attr("offset_dims", "ints", (), "result dimensions that are offsets into a slice")
_attr("operand_batching_dims", "ints", (), "operand dimensions that are batched")
_attr("operand_layout_constraints", "shapes", None, "operand shapes with the layouts that the callee needs")
_attr("operand_precision", "enums:precision", (), "requested precision an operand")
_attr("outfeed_config", "str", "", "opaque configuration")
_attr("outfeed_shape", "shape", None, "shape of what is sent")
_attr("output_to_operand_aliasing", "aliasing", (), "outputs that share memory with operands")
_attr("padding", "padding", None, "low_high[_interior] a dimension: 0_1x2_2_1")
_attr("padding_type", "enum:padding_type", "PADDING_INVALID", "padding rule of a custom convolution")
_attr("replica_groups", "replica_groups", None, "which devices take part together")
_attr("result_accuracy", "result_accuracy", None, "requested accuracy of a transcendental function")
_attr("rhs_batch_dims", "ints", (), "batch dimensions of the right operand")
_attr("rhs_contracting_dims", "ints", (), "summed dimensions of the right operand")
_attr("rhs_group_dims", "ints", (), "the group dimension of the right operand")
_attr("scatter", "computation", None, "combines a scattered value with the one already there")
_attr("scatter_dims_to_operand_dims", "ints", (), "which operand dimension each index component is for")
_attr("scatter_indices_batching_dims", "ints", (), "index dimensions that are batched")
_attr("schedule", "enum:schedule", "SCHEDULE_NONE", "when a custom call should run")
_attr("select", "computation", None, "which of two window elements is selected")
_attr("slice", "slice", None, "[start:limit:stride] a dimension")
_attr("slice_sizes", "ints", (), "sizes of the slices gathered")
_attr("source_target_pairs", "pairs", None, "which device sends to which")
_attr("sparsity_config", "sparsity", None, "structured sparsity of the operands")
_attr("start_index_map", "ints", (), "which operand dimension each index component is for")
_attr("start_indices_batching_dims", "ints", (), "index dimensions that are batched")
_attr("to_apply", "computation", None, "the computation applied")
_attr("transpose_a", "enum:transpose", "TRANSPOSE_INVALID", "use a, its transpose or its adjoint")
_attr("true_computation", "computation", None, "the branch for true")
_attr("type", "enum:comparison_type", None, "how operands are ordered, where not as their type says")
_attr("unique_indices", "bool", False, "the caller promises that no two indices are equal")
_attr("unit_diagonal", "bool", False, "take the diagonal of a as ones")
_attr("update_window_dims", "ints", (), "update dimensions that are offsets into a window")
_attr("use_global_device_ids", "bool", False, "replica groups hold global device numbers")
_attr("call:window", "window", None, "the window of a custom convolution")
_attr("window", "window", (), "a window's sizes, strides, padding and dilation")


def _use(spec: str) -> tuple[str, Use]:
    key = spec.rstrip("?=")
    info = ATTRIBUTES[key]
    return info.name, Use(info, required=spec == key, always=not spec.endswith("?"))


def op(name: str, arity: int, flags: Flags, doc: str, attrs: str = "") -> None:
    """Adds a row to the table."""
    uses = dict(_use(a) for a in attrs.split())
    called = tuple(n for n, u in uses.items() if u.info.kind in ("computation", "computations"))
    required = tuple(n for n, u in uses.items() if u.required)
    OPCODES[name] = Op(name, arity, flags, doc, uses, ("body", "condition") if name == "while" else called, required)


_0, _C, _R, _X = Flags.NONE, Flags.COMMUTES, Flags.REGION, Flags.EFFECT
_E, _N, _A = Flags.ELEMENTWISE, Flags.NEEDS_SHAPE, Flags.ASYNC
_K = Flags.COLLECTIVE | Flags.EFFECT
_ACC = "result_accuracy?"
_DOT = "lhs_batch_dims? lhs_contracting_dims= rhs_batch_dims? rhs_contracting_dims="

# fmt: off
# elementwise, one operand
op("abs",                 1, _E, "|x|; of a complex number its modulus, a real")
op("acos",                1, _E, "arc cosine", _ACC)
op("acosh",               1, _E, "inverse hyperbolic cosine", _ACC)
op("asin",                1, _E, "arc sine", _ACC)
op("asinh",               1, _E, "inverse hyperbolic sine", _ACC)
op("atanh",               1, _E, "inverse hyperbolic tangent", _ACC)
op("cbrt",                1, _E, "real cube root", _ACC)
op("ceil",                1, _E, "least integer not below x")
op("convert",             1, _E | _N, "x in another type; float to integer truncates and saturates, NaN gives 0")
op("copy",                1, _E, "x, perhaps in another layout or memory space")
op("cosine",              1, _E, "cosine", _ACC)
op("cosh",                1, _E, "hyperbolic cosine", _ACC)
op("count-leading-zeros", 1, _E, "zero bits above the highest one bit; the bit width for 0")
op("erf",                 1, _E, "error function", _ACC)
op("exponential",         1, _E, "e**x", _ACC)
op("exponential-minus-one", 1, _E, "e**x - 1, exact near 0", _ACC)
op("floor",               1, _E, "greatest integer not above x")
op("imag",                1, _E, "imaginary part; 0 of a real")
op("is-finite",           1, _E, "pred: neither infinite nor NaN")
op("log",                 1, _E, "natural logarithm", _ACC)
op("log-plus-one",        1, _E, "log(1 + x), exact near 0", _ACC)
op("logistic",            1, _E, "1 / (1 + e**-x)", _ACC)
op("negate",              1, _E, "-x; integers wrap")
op("not",                 1, _E, "bitwise, or logical on pred")
op("popcnt",              1, _E, "number of one bits")
op("real",                1, _E, "real part; x of a real")
op("reduce-precision",    1, _E | _N, "x rounded to fewer exponent and mantissa bits", "exponent_bits mantissa_bits")
op("round-nearest-afz",   1, _E, "nearest integer, ties away from zero")
op("round-nearest-even",  1, _E, "nearest integer, ties to even")
op("rsqrt",               1, _E, "1 / sqrt(x)", _ACC)
op("sign",                1, _E, "-1, 0 or 1 (keeps -0 and NaN); of a complex number x / |x|")
op("sine",                1, _E, "sine", _ACC)
op("sinh",                1, _E, "hyperbolic sine", _ACC)
op("sqrt",                1, _E, "square root", _ACC)
op("tan",                 1, _E, "tangent", _ACC)
op("tanh",                1, _E, "hyperbolic tangent", _ACC)
# elementwise, two or three operands
op("add",                 2, _E | _C, "lhs + rhs; integers wrap; on pred, logical or")
op("and",                 2, _E | _C, "bitwise, or logical on pred")
op("atan2",               2, _E, "angle of the point (rhs, lhs)")
op("clamp",               3, _E, "clamp(lo, x, hi) = min(max(x, lo), hi); lo and hi may be scalars")
op("compare",             2, _E, "pred: lhs direction rhs; TOTALORDER orders -NaN < -inf < ... < inf < NaN",
   "direction type?")
op("complex",             2, _E, "lhs + i rhs")
op("divide",              2, _E, "lhs / rhs; integers truncate, x/0 = -1 (all ones), INT_MIN/-1 = INT_MIN")
op("maximum",             2, _E | _C, "the greater; NaN if either is NaN; on pred, or")
op("minimum",             2, _E | _C, "the lesser; NaN if either is NaN; on pred, and")
op("mulhi",               2, _E | _C, "the high half of the double-width integer product")
op("multiply",            2, _E | _C, "lhs * rhs; integers wrap; on pred, logical and")
op("or",                  2, _E | _C, "bitwise, or logical on pred")
op("power",               2, _E, "lhs ** rhs; integers wrap, negative exponents truncate")
op("remainder",           2, _E, "remainder with the sign of lhs; integers: x rem 0 = x, INT_MIN rem -1 = 0")
op("select",              3, _E, "pred ? on_true : on_false; pred may be a scalar")
op("shift-left",          2, _E, "lhs << rhs; 0 when rhs >= bit width")
op("shift-right-arithmetic", 2, _E, "lhs >> rhs, copies of the sign shifted in; all sign when rhs >= bit width")
op("shift-right-logical", 2, _E, "lhs >> rhs, zeros shifted in; 0 when rhs >= bit width")
op("stochastic-convert",  2, _E | _N, "lhs in a narrower type, rounded up or down by the random bits rhs")
op("subtract",            2, _E, "lhs - rhs; integers wrap")
op("xor",                 2, _E | _C, "bitwise, or logical on pred")
# layout: elements move, values stay
op("bitcast",             1, _N, "the same bytes in memory under another shape and layout")
op("bitcast-convert",     1, _N, "the same bits as another element type; narrower types add a minor dimension")
op("broadcast",           1, _N, "repeat the operand; its dimension i becomes `dimensions[i]`", "dimensions=")
op("concatenate",      MANY, _0, "operands joined along one dimension", "dimensions")
op("dynamic-reshape",  MANY, _N, "reshape to the sizes given by scalar operands, within the bounds of the shape")
op("pad",                 2, _0, "edge and interior padding with a scalar; negative edges cut", "padding")
op("reshape",             1, _N, "the same elements in row-major order under other dimensions", "inferred_dimension?")
op("reverse",             1, _0, "reversed along `dimensions`", "dimensions")
op("slice",               1, _N, "static strided slice", "slice")
op("transpose",           1, _0, "result dimension i is operand dimension `dimensions[i]`", "dimensions")
# constants and shapes
op("constant",            0, _N, "a literal", "value:literal")
op("get-dimension-size",  1, _0, "s32: the run-time size of a dimension", "dimensions")
op("iota",                0, _N, "counts up from 0 along one dimension", "iota_dimension")
op("parameter",           0, _N, "an argument of the computation", "parameter_number parameter_replication?")
op("set-dimension-size",  2, _0, "marks a dimension dynamic, with the size given by a scalar", "dimensions")
# dynamic: where depends on data
op("dynamic-slice",    MANY, _N, "slice at run-time starts, clamped so that it fits", "dynamic_slice_sizes")
op("dynamic-update-slice", MANY, _N, "operand with a slice overwritten at run-time starts, clamped so that it fits")
op("gather",              2, _0, "slices at an array of starts, clamped so that they fit",
   "offset_dims collapsed_slice_dims start_index_map operand_batching_dims? start_indices_batching_dims? "
   "index_vector_dim slice_sizes indices_are_sorted?")
op("scatter",          MANY, _R, "operands with updates combined at an array of starts; out-of-bounds ones are skipped",
   "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims? "
   "scatter_indices_batching_dims? index_vector_dim indices_are_sorted? unique_indices? to_apply")
# reduce
op("reduce",           MANY, _R, "reduce the operands over `dimensions` with to_apply", "dimensions to_apply")
op("reduce-window",    MANY, _R, "reduce each window of the operands with to_apply", "window? to_apply")
op("scan",             MANY, _R, "reduce along one dimension, keeping the intermediate results",
   "dimensions num_carries is_reverse? is_associative= to_apply")
op("select-and-scatter",  3, _R, "scatter each source element to the place in its window that `select` picks",
   "window? select scatter")
op("sort",             MANY, _R, "operands sorted together along one dimension by the comparator to_apply",
   "dimensions is_stable? to_apply")
op("topk",                1, _0, "the k largest (or smallest) along the last dimension, and their indices",
   "k largest= is_stable?")
# linear algebra
op("batch-norm-grad",     5, _0, "gradients of batch-norm-training", "epsilon feature_index")
op("batch-norm-inference", 5, _0, "normalise by given mean and variance, scale and shift", "epsilon feature_index")
op("batch-norm-training", 3, _0, "normalise by the batch's mean and variance, scale and shift; returns both too",
   "epsilon feature_index")
op("cholesky",            1, _0, "lower (or upper) factor of a Hermitian positive-definite matrix", "lower?")
op("convolution",         2, _0, "sum over a window of lhs times kernel rhs",
   "window? dim_labels feature_group_count? batch_group_count? convolution_kind? operand_precision? algorithm? "
   "sparsity_config?")
op("dot",                 2, _0, "sum of products over contracting dimensions, for each pair of batch indices",
   _DOT + " operand_precision? algorithm?")
op("fft",                 1, _0, "discrete Fourier transform of the innermost dimensions", "fft_type= fft_length")
op("ragged-dot",          3, _0, "dot whose groups along one dimension have run-time sizes",
   _DOT + " lhs_ragged_dims? rhs_group_dims? operand_precision?")
op("scaled-dot",          4, _0, "dot of operands that are multiplied blockwise by scales",
   _DOT + " operand_precision? algorithm?")
op("triangular-solve",    2, _0, "solve op(a) x = b, or x op(a) = b, a triangular",
   "left_side? lower? unit_diagonal? transpose_a?")
# control
op("call",             MANY, _R, "apply a computation", "to_apply is_composite?")
op("conditional",      MANY, _R, "apply one of the computations, chosen by a pred or an s32",
   "true_computation? false_computation? branch_computations?")
op("fusion",           MANY, _R | _N, "apply a computation that is compiled as one kernel",
   "kind output_to_operand_aliasing? calls")
op("map",              MANY, _R, "apply a scalar computation elementwise", "dimensions= to_apply")
op("while",               1, _R, "apply body to the state as long as condition holds", "condition body")
op("domain",              1, _0, "identity that separates regions of different sharding metadata", "domain")
op("opt-barrier",         1, _0, "identity that optimisations do not cross")
# tuples and tokens
op("add-dependency",      2, _0, "lhs, after rhs")
op("after-all",        MANY, _0, "a token that follows its operands")
op("get-tuple-element",   1, _0, "one element of a tuple", "index")
op("tuple",            MANY, _0, "a tuple of the operands")
# random
op("rng",              MANY, _N | _X, "random numbers of a distribution, by the device's hidden state", "distribution")
op("rng-bit-generator",   1, _N, "random bits from a state; returns the next state too", "rng:algorithm")
op("rng-get-and-update-state", 0, _N | _X, "the hidden state, which advances by delta", "delta")
# collective
op("all-gather",       MANY, _K, "operands of a group joined along one dimension",
   "channel_id? replica_groups= constrain_layout? dimensions use_global_device_ids?")
op("all-gather-done",     1, _K | _A, "end of all-gather-start")
op("all-gather-start", MANY, _K | _A, "begin of an asynchronous all-gather",
   "channel_id? replica_groups= constrain_layout? dimensions use_global_device_ids?")
op("all-reduce",       MANY, _K | _R, "operands of a group combined with to_apply",
   "channel_id? replica_groups= constrain_layout? use_global_device_ids? mode? to_apply")
op("all-reduce-done",     1, _K | _A, "end of all-reduce-start")
op("all-reduce-start", MANY, _K | _R | _A, "begin of an asynchronous all-reduce",
   "channel_id? replica_groups= constrain_layout? use_global_device_ids? mode? to_apply")
op("all-to-all",       MANY, _K, "each member of a group sends one part to every other",
   "channel_id? replica_groups= constrain_layout? dimensions?")
op("collective-broadcast", MANY, _K | _N, "the first member's operand, on all of the group",
   "channel_id? replica_groups= has_dynamic_root?")
op("collective-permute", MANY, _K, "operands sent along source-target pairs; zeros where nothing arrives",
   "channel_id? source_target_pairs permute:slice_sizes?")
op("collective-permute-done", 1, _K | _A, "end of collective-permute-start")
op("collective-permute-start", MANY, _K | _A, "begin of an asynchronous collective-permute",
   "channel_id? source_target_pairs permute:slice_sizes?")
op("partition-id",        0, _0, "u32: this device's partition")
op("ragged-all-to-all",   6, _K | _N, "each member sends parts of run-time sizes to every other",
   "channel_id? replica_groups= dimensions?")
op("reduce-scatter",   MANY, _K | _R | _N, "all-reduce, then each member keeps one part",
   "channel_id? replica_groups= constrain_layout? use_global_device_ids? mode? dimensions to_apply")
op("replica-id",          0, _0, "u32: this device's replica")
# asynchronous wrappers
op("async-done",          1, _A, "end of an asynchronous computation; its result")
op("async-start",      MANY, _R | _A | _N, "begin of an asynchronous computation",
   "async_execution_thread? output_to_operand_aliasing? calls?")
op("async-update",     MANY, _A | _N, "a step of an asynchronous computation")
op("copy-done",           1, _A, "end of copy-start")
op("copy-start",          1, _A | _N, "begin of an asynchronous copy", "cross_program_prefetch_index?")
# custom calls and the host
op("custom-call",      MANY, _R | _N, "code registered under a name",
   "call:window? dim_labels? feature_group_count? batch_group_count? operand_precision? padding_type? "
   "custom_call_target operand_layout_constraints? custom_call_has_side_effect? literal? "
   "output_to_operand_aliasing? schedule? api_version? called_computations?")
op("infeed",              1, _X | _N, "data from the host's infeed queue, and a token", "infeed_config?")
op("outfeed",             2, _X | _N, "data to the host's outfeed queue; a token", "outfeed_shape= outfeed_config?")
op("recv",                1, _X | _N, "begin to receive data on a channel", "channel_id? is_host_transfer?")
op("recv-done",           1, _X | _N, "end of recv: the data and a token", "channel_id? is_host_transfer?")
op("send",                2, _X | _N, "begin to send data on a channel", "channel_id? is_host_transfer?")
op("send-done",           1, _X | _N, "end of send: a token", "channel_id? is_host_transfer?")
# fmt: on


def lookup(name: str) -> Op:
    """The row of opcode `name`. Raises ParseError with the nearest spellings when there is none."""
    found = OPCODES.get(name)
    if found is None:
        raise ParseError(f"unknown opcode {name!r}", hint=near(name, OPCODES))
    return found
