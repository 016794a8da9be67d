"""Constants by which code for GPUs is chosen. None was measured: they are estimated from data sheets, and by what ptxas
says of registers.

Whoever has a GPU can: `make judge-gpu-build`, `make judge-gpu ONLY=benchmarks`, the same with another value, and the
times of the benchmarks that are named here, one beside the other. `xloom opt --explain kernel --target sm_90a` says
what a value makes of a kernel's blocks, registers and shared memory. Of `Cut`s the whole is one constant.
"""

from __future__ import annotations

ESTIMATED: dict[str, tuple[str, ...]] = {
    "GPU, estimated: tiles of products (benchmarks `bf16 product 1024 nn` to `f32 product 4096 nt`, `bf16 layer`)": (
        "cuda.kernels.dot.THIN",
        "cuda.kernels.product_tile._TOGETHER",
        "cuda.kernels.tensor_core_tiles.DEPTH",
        "cuda.kernels.tensor_core_tiles._DEPTH_OF_F64",
        "cuda.kernels.tensor_core_tiles.LARGE",
        "cuda.kernels.tensor_core_tiles.SMALL",
        "cuda.kernels.tensor_core_tiles._MANY",
        "cuda.kernels.tensor_core_tiles._MOST_SLICES",
        "cuda.kernels.tensor_core_tiles._SLICE_BYTES",
        "cuda.kernels.thread_tiles.DEPTH",
        "cuda.kernels.thread_tiles.LARGE",
        "cuda.kernels.thread_tiles.SIDE",
        "cuda.kernels.thread_tiles._PAD",
        "cuda.kernels.warpgroup_tiles.NARROW",
        "cuda.kernels.warpgroup_tiles.WIDE",
        "cuda.kernels.warpgroup_tiles._FEW",
        "cuda.kernels.warpgroup_tiles._MANY",
    ),
    "GPU, estimated: sums that few tiles share": (
        "cuda.kernels.split_sums._ENOUGH",
        "cuda.kernels.split_sums._LEAST",
        "cuda.kernels.split_sums._MOST",
    ),
    "GPU, estimated: attention (benchmarks `attention`, `causal attention`)": (
        "cuda.attention.DEEPEST",
        "cuda.attention.LEAST_ROWS",
        "cuda.attention._MOST_INDICES",
        "cuda.kernels.attention.WARPS",
        "cuda.kernels.attention._FEW",
        "cuda.kernels.attention._MANY",
        "cuda.kernels.attention._RESIDENT",
        "cuda.kernels.attention._RESIDENT_DEEP",
        "cuda.kernels.attention._SHALLOW",
        "cuda.kernels.attention._SLICES",
    ),
    "GPU, estimated: elements and rows (benchmarks `copy` to `layer norm`)": (
        "cuda.kernel.BLOCKS",
        "cuda.kernel.THREADS",
        "cuda.loops.map_kernel.LEAST_ITEMS",
        "cuda.loops.map_kernel.VECTOR_BYTES",
        "cuda.loops.reduction_kernel.FEW_RESULTS",
        "cuda.loops.reduction_kernel.MOST_PARTS",
        "cuda.loops.reduction_kernel.OF_A_BLOCK",
        "cuda.loops.reduction_kernel.OF_A_WARP",
        "cuda.loops.reduction_kernel.SHORT",
        "cuda.loops.reduction_kernel._FEW_COLUMNS",
        "cuda.loops.reduction_kernel._FEW_PARTS",
        "cuda.loops.reduction_kernel._LEAST_COLUMNS",
        "cuda.loops.reduction_kernel._MANY_COLUMNS",
        "cuda.loops.reduction_kernel._SHORT_COLUMN",
        "cuda.loops.row_kernel._FOR_REDUCTIONS",
        "cuda.loops.row_kernel._LONG",
        "cuda.loops.transpose_kernel.TILE",
        "cuda.loops.transpose_kernel._LARGE",
        "cuda.loops.transpose_kernel._MOST_LOADS",
    ),
    "GPU, estimated: other kernels (benchmarks `cumulative sums`, `sort`)": (
        "cuda.kernels.blocked_matrix.COLUMNS",
        "cuda.kernels.blocked_matrix.SIDE",
        "cuda.kernels.blocked_matrix._EACH",
        "cuda.kernels.cumulative._FEW",
        "cuda.kernels.cumulative._LEAST_PART",
        "cuda.kernels.cumulative._LONG",
        "cuda.kernels.cumulative._MANY_THREADS",
        "cuda.kernels.fft._SHARED",
        "cuda.kernels.fft_lines._BESIDE",
        "cuda.kernels.fft_lines._BLOCKS",
        "cuda.kernels.fft_lines._NEAR",
        "cuda.kernels.fft_lines._POINTS",
        "cuda.kernels.jacobi._MOST_WARPS",
        "cuda.kernels.radix_sort.FROM",
        "cuda.kernels.radix_sort._BITS",
        "cuda.kernels.radix_sort._DIGITS",
        "cuda.kernels.radix_sort._EACH",
        "cuda.kernels.sort.TILE",
    ),
    "GPU, estimated: graphs, and what is kept (benchmark `dispatch`)": (
        "cuda.run_time.events._PAUSE",
        "cuda.run_time.graphs.FEWEST",
        "cuda.run_time.graphs.KEPT",
        "cuda.run_time.graphs.MOST",
        "cuda.run_time.pinned._KEPT_BYTES",
        "cuda.run_time.pinned._SMALLEST",
    ),
}
"""By what they are for, and the benchmarks of `make judge-gpu` that show it."""
DEFINED: dict[str, tuple[str, ...]] = {
    "GPUs: what PTX and the driver define": (
        "cuda.kernel.ALIGNMENT",
        "cuda.kernel.SHARED_BYTES",
        "cuda.kernel.WARP",
        "cuda.kernels.async_copy.SIZES",
        "cuda.kernels.mma.COLUMNS",
        "cuda.kernels.mma.ROWS",
        "cuda.kernels.thread_tiles._VECTOR_BYTES",
        "cuda.kernels.warpgroup_slices.ROW_BYTES",
        "cuda.kernels.warpgroup_slices._PIECE",
        "cuda.kernels.warpgroup_slices._SWIZZLED",
        "cuda.kernels.warpgroup_tiles._ROWS",
        "cuda.loops.nest_code.SMALL_INDEX",
        "cuda.loops.reduction_kernel._MOST_STATE",
        "cuda.printers.kernel_choices._REGISTER_UNIT",
        "cuda.printers.kernel_choices._SHARED_OF_SYSTEM",
        "cuda.run_time.tape.ALIGNMENT",
        "cuda.run_time.tape_runner._PARAMETERS",
    ),
    "GPUs: how long iterations go on that converge, and seeds": (
        "cuda.kernels.jacobi.SWEEPS",
        "cuda.kernels.jacobi._SHIFT",
        "cuda.kernels.rng._SEED",
        "cuda.kernels.schur._EXCEPTIONAL",
        "cuda.kernels.schur._STEPS",
    ),
    "GPUs: digits of f32": ("cuda.kernels.attention._NOTHING",),
    "GPUs: checks and messages": (
        "cuda.run_time.executable._NAMED",
        "cuda.run_time.guarded_call.ZONE",
        "cuda.run_time.guarded_call._PATTERN",
        "cuda.run_time.modules._LOG_BYTES",
    ),
}
"""Those that something else defines, by what it is."""
CODES = ("cuda.driver.", "cuda.emulator.", "cuda.simulated_driver.")
"""Modules whose numbers are all codes and places of a header, or of memory that only they use."""
