"""What every backend does to a module before it is planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from xloom.codegen.buffers.separation import ControlFlowSeparation
from xloom.errors import LoweringError
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import place
from xloom.passes import OrderedOperandRounding, Pass, parse_pipeline, run_passes
from xloom.passes.hooks import Hook

PIPELINE = (
    "async-simplification,collective-simplification,collective-expansion,batch-norm-expansion,linear-algebra-widening,"
    "product-widening,reduction-widening,call-inlining,"
    "tuple-simplification,single-window-simplification,algebraic-simplification,layout-simplification,constant-folding,"
    "sign-sharing,"
    "algebraic-simplification,update-predication,update-accumulation,while-loop-simplification,"
    "while-loop-invariant-code-motion,integer-range-simplification,"
    "choice-sinking,mask-sharing,cse,dce"
)

_FIRST = (
    "all-reduce-combiner,effect-ordering,call-naming,built-in-call-expansion,lapack-call-expansion,inlining,"
    "zero-sized-elimination"
)
_passes: Callable[[str], Sequence[Pass]] = lru_cache(parse_pipeline)


def prepared(
    module: Module,
    hooks: Sequence[Hook] = (),
    own: Sequence[Pass] = (),
    first: Sequence[Pass] = (),
    products: Sequence[Pass] = (),
    blocking: str = "product-blocking",
) -> Module:
    """A copy of `module` in the form that the planner takes: no calls, no fusions, nothing that is not needed.

    `hooks` see the copy at the start of each part of the pipeline, and after each pass that changed it; `own` are
    a backend's own passes, which run when all else is simplified and look at what it has kernels for;
    `first` are those whose results are to be simplified, `products` what chooses products before they are blocked, by
    `blocking`.
    """
    overgrown = overgrown_call(module.entry)
    if overgrown is not None:
        call, size = overgrown
        raise LoweringError(
            f"this {call.opcode} stands for {size} instructions: each call has several others in it",
            where=place(call),
            hint="put what is called often into a loop",
        )
    module = module.clone()
    run = partial(run_passes, module, verify=False, hooks=hooks)
    run((*first, *_passes(f"{_FIRST},{PIPELINE}")))
    run((*products, *_passes("dce")) if products else ())
    # of simplified computations, which some scans need not be loops in, and where products are found
    if any(report.changed for report in run(_passes(f"scan-expansion,{blocking}"))):
        run(_passes(PIPELINE))
    run((OrderedOperandRounding(), *own, ControlFlowSeparation()))
    for computation in module.computations:
        for instruction in computation:
            if instruction.shape.is_dynamic:
                raise LoweringError(
                    f"an array of dynamic size: {instruction.shape}",
                    where=place(instruction),
                    hint="run the program on the interpreter: xloom.evaluate",
                )
    return module
