"""A program as pseudo-code: every loop with what is computed in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_count
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.loop_ir.affine import ZERO, Var, variable
from xloom.codegen.loop_ir.nest import (
    LoopBody,
    arranged,
    breakpoints,
    interleaved,
    merged,
    ordered,
    outer_pieces,
    pieces,
    reductions_of,
)
from xloom.codegen.loop_ir.nodes import Reduction
from xloom.codegen.loop_ir.strided_loads import strided_loads
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import EmittedProgram, ThunkCode
from xloom.cpu.loops.short_rows import rows_of
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.expression import Writer
from xloom.cpu.printers.names import array_name, array_shape, scalar_text
from xloom.hlo.dtype import pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target
from xloom.trampoline import Nested, run

_HEAD = """\
# %name is an array, as in the HLO; vN is a value in a register, accN one that a loop adds to.
# Arrays are dense and row-major; one index into several dimensions counts elements in that order.
"""


def loops_text(module: Module, target: Target | None = None) -> str:
    """The program that `module` is compiled to, as pseudo-code. Raises LoweringError for what has no native code."""
    schedule, assignment, program = lowered(prepared(module, target=target), target or process_target())
    body = run(_Program(assignment, program).schedule_lines(schedule))
    lines = [f"{_HEAD}\nENTRY %{schedule.computation.name}:", *_indented(body)]
    return "\n".join([*lines, f"  return {', '.join(map(array_name, schedule.root))}"]) + "\n"


class _Program:
    """Writes the blocks of one program."""

    def __init__(self, assignment: BufferAssignment, program: EmittedProgram):
        self.assignment = assignment
        self.program = program

    def schedule_lines(self, schedule: ScheduledComputation) -> Nested[list[str]]:
        """The thunks of a scheduled computation."""
        lines: list[str] = []
        for thunk in schedule.thunks:
            if isinstance(thunk, FusionGroup):
                code = self.program.code[thunk]
                lines += [*_heading(thunk, code), *self._copies(thunk), *nest_lines(code)]
            elif thunk.opcode == "while":
                lines += yield self._while(schedule, thunk)
            elif thunk.opcode == "conditional":
                lines += yield self._conditional(schedule, thunk)
            elif thunk.opcode == "constant":
                lines.append(f"{array_name((thunk, 0))} = {_constant(thunk)}")
            else:
                lines += _phases(self.program.code.get(thunk))
                lines.append(f"{_arrays(thunk)} = {thunk.opcode}({_operands(thunk)})")
        return lines

    def _copies(self, group: FusionGroup) -> list[str]:
        """What loops change a part of, where it is not changed in place."""
        changed = [(r, defining_value(r._operands[0])) for r in group.roots if r.opcode == "dynamic-update-slice"]
        of = self.assignment.of
        return [f"{array_name((r, 0))} = {array_name(s)}  # a copy" for r, s in changed if of((r, 0)) is not of(s)]

    def _while(self, schedule: ScheduledComputation, thunk: Instruction) -> Nested[list[str]]:
        body, condition = schedule.nested[thunk]
        states = _arrays(body.computation.parameters[0])
        test = [*(yield self.schedule_lines(condition)), f"if not {array_name(condition.root[0])}: break"]
        code = self.program.code.get(thunk)
        return [
            f"{states} = {_operands(thunk)}",
            *(f"# {choice}" for choice in (code.choices if code is not None else ())),
            f"while true:  # condition %{condition.computation.name}",
            *_indented([*_renamed(condition, body), *test]),
            f"  # body %{body.computation.name}",
            *_indented([*(yield self.schedule_lines(body)), _state(body, body.root)]),
            f"{_arrays(thunk)} = {states}",
        ]

    def _conditional(self, schedule: ScheduledComputation, thunk: Instruction) -> Nested[list[str]]:
        chooser = thunk._operands[0]
        lines = [f"switch {array_name(defining_value(chooser))}:"]
        for k, (nested, operand) in enumerate(zip(schedule.nested[thunk], thunk._operands[1:], strict=True)):
            case = ("true", "false")[k] if chooser.shape.dtype is pred else str(k)
            lines.append(f"  case {case}:  # %{nested.computation.name}")
            operand_values = [defining_value(operand, k) for k in range(leaf_count(operand.shape))]
            inside = [_state(nested, operand_values)] if operand_values else []
            inside += [
                *(yield self.schedule_lines(nested)),
                f"{_arrays(thunk)} = {', '.join(map(array_name, nested.root))}",
            ]
            lines += _indented(_indented(inside))
        return lines


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _constant(instruction: Instruction) -> str:
    shape = array_shape((instruction, 0))
    return scalar_text(instruction.literal.value[()]) if shape.is_scalar else f"constant {shape}"


def _arrays(instruction: Instruction) -> str:
    return ", ".join(array_name((instruction, k)) for k in range(leaf_count(instruction.shape)))


def _operands(instruction: Instruction) -> str:
    owners = (defining_value(o, k) for o in instruction._operands for k in range(leaf_count(o.shape)))
    return ", ".join(map(array_name, owners))


def _renamed(condition: ScheduledComputation, body: ScheduledComputation) -> list[str]:
    mine, theirs = (_arrays(b.computation.parameters[0]) for b in (condition, body))
    return [] if mine == theirs else [f"{mine} = {theirs}"]


def _state(schedule: ScheduledComputation, values: Iterable[BufferValue]) -> str:
    return f"{_arrays(schedule.computation.parameters[0])} = {', '.join(map(array_name, values))}"


# -- loop nests


def _heading(group: FusionGroup, code: ThunkCode) -> list[str]:
    assert code.nest is not None
    made = dict.fromkeys(s.target for stage in code.nest.stages for s in stage.stores)
    kept = [f"{array_name(s)} {array_shape(s)}" for s in made if s not in code.nest.private]
    lines = [f"# makes {', '.join(kept)}"]
    if code.nest.private:
        private = [array_name(s) for s in made if s in code.nest.private]
        lines[0] += f"; {', '.join(private)} in memory of one iteration of the outer loops"
    fused = [f"%{i.name}" for i in _in_order(group) if i not in group.roots and i.opcode != "constant"]
    if fused:
        lines.append(f"# with {', '.join(fused)} computed where used")
    return ["", *lines, *_phases(code)]


def _in_order(group: FusionGroup) -> list[Instruction]:
    parent = group.roots[0].parent
    assert parent is not None
    return [i for i in parent.post_order() if i in group.inlined]


def _phases(code: ThunkCode | None) -> list[str]:
    """What a kernel shares among threads."""
    lines = []
    for phase in code.phases if code else ():
        if phase.count > phase.grain and code and code.module_name:
            loops = f" ({', '.join(phase.loops)})" if phase.loops else ""
            items = "items" if phase.block == 1 else f"blocks of {phase.block} items"
            lines.append(f"# shared among threads: {phase.count} {items}{loops}, {phase.grain} or more at a time")
    return lines


def nest_lines(code: ThunkCode) -> list[str]:
    """A loop nest as pseudo-code."""
    nest = code.nest
    assert nest is not None
    if any(v.size == 0 for stage in nest.stages for v in (*nest.outer, *stage.vars)):
        return ["nothing: there are no elements"]
    if code.is_view:
        return ["nothing: it is read where it lies"]
    shared = {name for p in code.phases if code.module_name and p.count > p.grain for name in p.loops}
    writer = Writer(nest)
    if nest.outer:
        outer = _joined(writer, *merged(nest.stages, list(nest.outer)))
        with writer.loops(outer, shared):
            for stage in nest.stages:
                with writer.scope():
                    _stage(writer, stage, shared)
    else:
        _stage(writer, nest.stages[0], shared, may_tile=True)
    return writer.lines


def _joined(writer: Writer, loops: list[Var], gone: Iterable[Var]) -> list[Var]:
    """The loops that the compiler makes of several, and those that thereby are always 0."""
    writer.joined.update({var: variable(var) for var in loops})
    writer.joined.update(dict.fromkeys(gone, ZERO))
    return loops


def _stage(writer: Writer, stage: LoopBody, shared: Collection[str], *, may_tile: bool = False) -> None:
    reductions = reductions_of(stage)
    if reductions:
        _reductions(writer, stage, reductions, shared)
        return
    loops = _joined(writer, *arranged(stage, stage.vars))
    crossed = strided_loads(stage, loops) if may_tile else None
    if crossed is not None:
        writer.line(f"# in square tiles of {crossed[0].name} and {loops[-1].name}, transposed in registers")
    rows = rows_of(stage, loops) if may_tile and crossed is None else None
    if rows is not None:
        writer.line(f"# in blocks of {rows[0].name}, vectors of which are set apart and put together in registers")
        loops = [v for v in loops if v not in rows] + [*rows]
    group = interleaved(stage, loops) if crossed is None and rows is None else None
    loops = [v for v in loops if v != group]
    cuts: dict[Var, list[int]] = {}
    if loops and crossed is None and rows is None:
        cuts[loops[-1]] = breakpoints(pieces(stage, loops[-1]))
        if may_tile:
            cuts.update((var, breakpoints(outer_pieces(stage, loops[k:]))) for k, var in enumerate(loops[:-1]))
    with writer.loops(loops, shared, cuts), writer.loops([group] if group else []):
        values = [writer.value(store.node) for store in stage.stores]
        for store, value in zip(stage.stores, values, strict=True):
            writer.assign(writer.element(store.target, store.address), value)


def _reductions(writer: Writer, stage: LoopBody, reductions: list[Reduction], shared: Collection[str]) -> None:
    results = _joined(writer, *arranged(stage, stage.vars))
    inner = LoopBody([*results, *reductions[0].vars], stage.stores)
    with writer.loops(ordered(inner, results), shared):
        state = {id(reduction): writer.start(reduction) for reduction in reductions}
        with writer.loops(_joined(writer, *arranged(inner, reductions[0].vars)), shared):
            for reduction in reductions:
                writer.accumulate(reduction, state[id(reduction)])
        for store in stage.stores:
            reduction, number = store.node.reduction, store.node.number  # type: ignore[attr-defined]
            writer.assign(writer.element(store.target, store.address), state[id(reduction)][number])
