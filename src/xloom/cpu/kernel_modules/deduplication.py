"""The kernel modules that an entry function calls: of equal kernels one is made, by itself or in one with others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xloom.codegen.buffer_values import BufferValue, dtype_of, leaf_shapes
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.loop_ir.text import nest_text
from xloom.codegen.ops import Trait, having
from xloom.cpu.entry.emitted_program import PARALLEL_FOR, EmittedProgram, KernelModule
from xloom.cpu.kernel_modules.batched_modules import PLACEHOLDER as SMALL
from xloom.cpu.kernel_modules.batched_modules import BatchedModules
from xloom.cpu.kernel_modules.choices import choices_made
from xloom.cpu.kernel_modules.copies import copy_ir, copy_phase
from xloom.cpu.kernel_modules.form import FORMS, ShapeGenericProblem, form
from xloom.cpu.kernel_modules.kernel import Kernel, Phase, Rule
from xloom.cpu.kernel_modules.kernel_code import PLACEHOLDER, KernelCode, code_of, sized_code_of
from xloom.cpu.kernel_modules.kernel_comparison import KernelChecks
from xloom.cpu.kernel_modules.round_tasks import do_rounds, rounds_task, rows_copy_task
from xloom.cpu.kernel_modules.shape_generic import find_kernel, remember_kernel
from xloom.cpu.kernels.linalg.tile_transpose import transpose_in_place
from xloom.cpu.loops.lowering import Lowering
from xloom.cpu.loops.panel_emission import emit_lines
from xloom.cpu.loops.reduction_form import ReductionForm, reduction_form
from xloom.cpu.loops.row_form import RowForm, row_form
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.module_text import module_text
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.shared_code import is_checked
from xloom.llvm.symbolic_dimension import SymbolicDimensions
from xloom.llvm.target import Target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.vectorizer.rewriting import vectorized

_BY_SHAPE = having(Trait.BY_SHAPE)


class KernelModules:
    """Adds kernel modules for a target to a program, and hands each to `on_kernel`.

    Without it no machine code is made, and kernels are written out that are known already.
    """

    def __init__(self, program: EmittedProgram, target: Target, on_kernel: Callable[[KernelModule], None] | None):
        self._program, self._target = program, target
        self._on_kernel = on_kernel
        self._batches = BatchedModules()
        self._nests: dict[str, KernelCode] = {}
        self._checks = KernelChecks(target) if is_checked() else None
        self._shaped: dict[Hashable, tuple[Kernel, KernelCode]] = {}

    def of_copy(self, nbytes: int) -> tuple[KernelCode, int]:
        """A kernel that copies so many bytes but for the last few, and how many those are."""
        phase, left = copy_phase(nbytes, f"{PLACEHOLDER}.0")
        return self._own_module(copy_ir(phase.symbol, self._target), [phase], (), PassPipeline.VECTORS), left

    def of_nest(
        self,
        nest: LoopNest,
        numbers: dict[BufferValue, int],
        pointers: int,
        *,
        small: bool,
        seldom: bool = False,
        serial: bool = False,
    ) -> KernelCode:
        """A kernel of a loop nest, called on so many pointers; `numbers` says which one each of its arrays is at.

        A `small` one shares its module with others; if it also runs `seldom`, it has less code. Of a `serial` one, a
        single result is not made by several threads.
        """
        key = f"{nest_text(nest, numbers)}{' seldom' * seldom}{' serial' * serial}"
        code = self._nests.get(key)
        if code is not None and self._checks is None:
            return code
        form = None if small or serial else row_form(nest, numbers) or reduction_form(nest, numbers)
        if form is not None:
            return self._of_form(key, numbers, form)
        module = TargetModule(self._target)
        name = SMALL if small else PLACEHOLDER
        lowering = Lowering(module, name, nest, numbers, dtype_of, seldom=seldom, serial=serial)
        with choices_made() as choices:
            lowering.run()
        if self._checks is not None:
            self._checks.nest(key, module, lowering)
        if code is None:
            code = self._nest_code(module, lowering, pointers, small)
            code = self._nests[key] = replace(code, choices=tuple(choices))
        return code

    def _of_form(self, key: str, numbers: dict[BufferValue, int], form: RowForm | ReductionForm) -> KernelCode:
        """The kernel of a nest, or that of another one of other sizes."""

        def emit(kernel: Kernel) -> None:
            table = kernel.sizes if form.reads_sizes else None
            with form.opened(kernel.problem) as (nest, sizes):
                lowering = Lowering(kernel.module, PLACEHOLDER, nest, numbers, dtype_of, sizes=sizes, table=table)
                lowering.run()
                kernel.pipeline = _pipeline_of(lowering)
            kernel.phases, kernel.scratch = _renamed(lowering.phases, form.names), lowering.scratch

        with choices_made() as choices:
            code = self._sized(form.problem, self._kernel((), ()), emit)
        phases = _renamed(code.phases, {there: name for name, there in form.names.items()})
        code = self._nests[key] = replace(code, phases=phases, choices=tuple(choices))
        return code

    def _nest_code(self, module: TargetModule, lowering: Lowering, pointers: int, small: bool) -> KernelCode:
        if small:
            plain = lowering.vectorize(whole=True)
            symbol, module_name = self._batches.add(module, lowering.phases, pointers, plain)
            return KernelCode(module_name, lowering.phases, (), symbol)
        pipeline = _pipeline_of(lowering)
        return self._own_module(module_text(module), lowering.phases, lowering.scratch, pipeline)

    def of_rounds(self) -> tuple[str, str]:
        """The symbols of the function that does rounds of loops, and of the task that copies rows."""
        module = TargetModule(self._target)
        task, do, rows_copy = (f"{PLACEHOLDER}.{k}" for k in range(3))
        rounds_task(module, task)
        do_rounds(module, do, task, PARALLEL_FOR)
        rows_copy_task(module, rows_copy)
        phases = [Phase(name, 1, 1) for name in (do, rows_copy)]
        code = self._own_module(module_text(module), phases, (), PassPipeline.CALLS)
        return code.phases[0].symbol, code.phases[1].symbol

    def of_lines(self, nest: LoopNest, numbers: dict[BufferValue, int], part: BufferValue) -> str:
        """A function of a nest that stores one array, to which `part` of that or of one that it loads is given."""
        module = TargetModule(self._target)
        body = emit_lines(module, PLACEHOLDER, nest, numbers, dtype_of, part)
        pipeline = PassPipeline.VECTORS if vectorized([body], self._target, short=False) else PassPipeline.LOOPS
        return self._own_module(module_text(module), [], (), pipeline).module_name

    def of_rule(
        self,
        instruction: Instruction,
        rule: Rule,
        unread: frozenset[int],
        operands: Sequence[Shape] = (),
        made: frozenset[int] = frozenset(),
        *,
        has_epilogue: bool = False,
    ) -> tuple[Kernel, KernelCode]:
        """The kernel that `rule` writes for an instruction, of whose outputs `unread` are dead.

        It may read operands of other types, and have those of numbers `made` computed line by line, or give its sums
        to an epilogue.
        """
        operands = [_dense(s) for s in operands or (o.shape for o in instruction._operands)]
        outputs = [_dense(s) for s in leaf_shapes(instruction.shape)]
        key = (
            instruction.opcode,
            *operands,
            made,
            has_epilogue,
            *outputs,
            unread,
            repr(instruction.attrs),
            instruction.backend_config,
        )
        known = self._shaped.get(key)
        if known is not None and self._checks is None:
            return known
        kernel = self._kernel(tuple(operands), tuple(outputs), unread=unread, made=made, has_epilogue=has_epilogue)
        emit = partial(_emit, rule, instruction)
        with choices_made() as choices:
            form = None
            if instruction.opcode in FORMS:
                shapes = *kernel.operands, *kernel.outputs
                form = FORMS[instruction.opcode](instruction, shapes, self._target)
            if form is not None:
                if kernel.made:
                    form = replace(form, text=f"{form.text} made {sorted(kernel.made)}")
                if unread:
                    form = replace(form, text=f"{form.text} without {sorted(unread)}")
                if has_epilogue:
                    form = replace(form, text=f"{form.text} with an epilogue")
                code = self._sized(form, kernel, emit)
            else:
                emit(kernel)
                self._needed(kernel)
                code = self._own_module(module_text(kernel.module), kernel.phases, kernel.scratch, kernel.pipeline)
        code = replace(code, choices=tuple(choices))
        if known is not None and self._checks is not None:
            self._checks.kernel(f"{instruction.opcode} {instruction.name}", known[1], code)
        if instruction.opcode in _BY_SHAPE:
            self._shaped[key] = kernel, code
        return kernel, code

    def _kernel(self, operands: tuple[Shape, ...], outputs: tuple[Shape, ...], **rest: Any) -> Kernel:
        return Kernel(PLACEHOLDER, operands, outputs, TargetModule(self._target), **rest)

    def of_transposition(self, dtype: DType, batch: int, n: int) -> KernelCode:
        """A kernel that transposes so many matrices of n rows where they lie."""
        kernel = self._kernel((Shape(dtype, (batch, n, n)),), (), pipeline=PassPipeline.VECTORS)
        whole = form(f"transpose-in-place {dtype.name}", lambda size: (size(batch), size(n)))
        return self._sized(whole, kernel, lambda kernel: transpose_in_place(kernel, dtype, *kernel.problem))

    def _sized(self, form: ShapeGenericProblem, kernel: Kernel, emit: Callable[[Kernel], None]) -> KernelCode:
        """Code that serves other shapes too, or served another; else `emit` makes some."""
        code = self._code_of_form(form, kernel, emit)
        return replace(code, tables=form.tables()) if form.tables else code

    def _code_of_form(self, form: ShapeGenericProblem, kernel: Kernel, emit: Callable[[Kernel], None]) -> KernelCode:
        """The same without constants of this shape."""
        known = find_kernel(form, self._target) if self._on_kernel else None
        if known:
            for needed in known.needed:
                self._add_once(KernelModule(needed.name, "", [], needed.pipeline, needed.objects))
            self._add_once(KernelModule(known.name, "", known.phases, known.pipeline, known.objects))
            code = KernelCode(known.name, known.phases, known.scratch, sizes=known.table)
            if self._checks is not None:
                anew = replace(kernel, module=TargetModule(self._target), phases=[], scratch=[])
                text = _for_sizes(form, anew, emit)
                self._checks.sized(form.text, code, known, sized_code_of(text, anew), text)
            return code
        text = _for_sizes(form, kernel, emit)
        code = sized_code_of(text, kernel)
        needed = self._needed(kernel)
        self._made(text, code, kernel.pipeline)
        if self._on_kernel:
            modules = {code.module_name: (text.replace(PLACEHOLDER, code.module_name), kernel.pipeline), **needed}
            remember_kernel(form, kernel, modules, code.phases)
        return code

    def _needed(self, kernel: Kernel) -> dict[str, tuple[str, PassPipeline]]:
        """The modules of functions that a kernel calls, by name: LLVM IR and pipeline."""
        needed = kernel.needed.items()
        return {self._own_module(text, [], [], pipeline).module_name: (text, pipeline) for text, pipeline in needed}

    def _own_module(
        self, text: str, phases: Sequence[Phase], scratch: Sequence[int], pipeline: PassPipeline = PassPipeline.LOOPS
    ) -> KernelCode:
        """A kernel, which becomes a module of its own unless there is an equal one."""
        code = code_of(text, phases, scratch, pipeline)
        self._made(text, code, pipeline)
        return code

    def _made(self, text: str, code: KernelCode, pipeline: PassPipeline) -> None:
        if self._checks is not None:
            self._checks.written(code, text)
        name = code.module_name
        self._add_once(KernelModule(name, text.replace(PLACEHOLDER, name), code.phases, pipeline))

    def _add_once(self, module: KernelModule) -> None:
        if module.name not in self._program.modules:
            self._add(module)

    def _add(self, module: KernelModule) -> None:
        self._program.modules[module.name] = module
        if self._on_kernel:
            self._on_kernel(module)

    def close(self) -> None:
        """Adds the modules that hold many small kernels."""
        self._batches.close()
        for name, (text, pipeline) in self._batches.modules.items():
            self._add(KernelModule(name, text, [], pipeline))


def _renamed(phases: Sequence[Phase], names: Mapping[str, str]) -> list[Phase]:
    """Phases whose loops have other names."""
    return [replace(p, loops=tuple(names.get(name, name) for name in p.loops)) for p in phases]


def _pipeline_of(lowering: Lowering) -> PassPipeline:
    """What LLVM is to do with a nest, whose loops become vectors now where they can."""
    if lowering.vectorize():
        return PassPipeline.VECTORS
    return PassPipeline.ROWS if lowering.nest.outer else PassPipeline.LOOPS


def _for_sizes(form: ShapeGenericProblem, kernel: Kernel, emit: Callable[[Kernel], None]) -> str:
    """The LLVM IR of a kernel that does for other sizes."""
    kernel.sizes = SymbolicDimensions(form.values)
    kernel.problem = form.problem(kernel.sizes)
    emit(kernel)
    return module_text(kernel.module)


def _emit(rule: Rule, instruction: Instruction, kernel: Kernel) -> None:
    """Emits what the rule writes, with vectors in the place of scalar loops if all can become some."""
    rule(kernel, instruction)
    is_scalar, functions = kernel.pipeline is PassPipeline.LOOPS, kernel.module.functions
    if is_scalar and vectorized(functions, kernel.target, short=False, every=True):
        kernel.pipeline = PassPipeline.VECTORS


def _dense(shape: Shape) -> Shape:
    return Shape(shape.dtype, shape.dims)
