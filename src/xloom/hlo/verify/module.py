"""Checks that a module obeys the rules of HLO."""

from __future__ import annotations

from collections.abc import Iterator

from xloom.errors import ShapeError, VerifyError
from xloom.hlo.asynchronous import BEGINS, ends_of
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape
from xloom.hlo.verify.aliases import buffer_problems, check_aliases
from xloom.hlo.verify.devices import channel_problems, check_sharding, sharding_problems
from xloom.hlo.verify.graph import graph_problems, has_cyclic_calls, instruction_error
from xloom.hlo.verify.opcodes import CHECKS
from xloom.hlo.verify.shapes import alike, check_shape, require

_MOST_BYTES = 2**63 - 1
"""Of an array: indices and sizes are of 64 bits."""


def verify(module: Module) -> None:
    """Raises VerifyError for the first rule that `module` breaks, naming the instruction and its source line.

    Checked: the graph (operands, users, parents, roots, cycles, names), parameter numbers, shapes against inference,
    called computations against their callers, layouts, asynchronous pairs, aliases. Linear in the module's size.
    """
    for error in problems(module):
        raise error


def problems(module: Module) -> Iterator[VerifyError]:
    """Every broken rule, one error an instruction, computation or configuration entry."""
    if module.entry is None or module.entry not in module._computations:
        yield VerifyError("the module has no entry computation", where=module.name)
        return
    names: dict[str, str] = {}
    for computation in module.computations:
        yield from graph_problems(module, computation, names)
    if has_cyclic_calls(module):
        yield VerifyError("computations call each other in a cycle", where=module.name)
        return
    for computation in module.computations:
        for instruction in computation:
            problem = _instruction_problem(instruction)
            if problem is not None:
                yield problem
        yield from buffer_problems(computation, f"computation {computation.name}")
    yield from channel_problems(module)
    yield from _configuration(module)


def _instruction_problem(instruction: Instruction) -> VerifyError | None:
    row = OPCODES.get(instruction.opcode)
    if row is None:
        return instruction_error(instruction, "unknown opcode")
    if row.arity >= 0 and len(instruction._operands) != row.arity:
        return instruction_error(instruction, f"takes {row.arity} operands, found {len(instruction._operands)}")
    missing = [name for name in row.required if name not in instruction.attrs]
    if missing:
        return instruction_error(
            instruction, f"the attribute {missing[0]} is missing", row.attributes[missing[0]].info.doc
        )
    for _, leaf in instruction.shape.leaves():
        if leaf.nbytes > _MOST_BYTES and not leaf.is_dynamic:
            return instruction_error(instruction, f"{leaf.to_text(layout=False)} has {leaf.nbytes} bytes, 2^63 or more")
        if (
            leaf.layout is not None
            and not leaf.layout.is_default
            and sorted(leaf.layout.minor_to_major) != list(range(leaf.rank))
        ):
            return instruction_error(instruction, f"the layout of {leaf} is not a permutation of its dimensions")
    try:
        check_shape(instruction)
        check = CHECKS.get(instruction.opcode)
        if check is not None:
            check(instruction)
        check_aliases(instruction)
        if instruction.opcode in BEGINS:
            _one_user(instruction)
        if instruction.opcode != "async-start":
            _same_thread(instruction)
        # an outfeed's sharding is that of its data
        if instruction.sharding is not None and instruction.opcode != "outfeed":
            check_sharding(instruction)
        different = sharding_problems(instruction)
        if different:
            return instruction_error(instruction, different)
        if "origin" in instruction.attrs:
            _origin(instruction.attrs["origin"].tree, instruction.shape)
    except ShapeError as error:
        hint = error.hint or f"xloom ops {instruction.opcode} says what it takes and gives"
        return instruction_error(instruction, error.message.removeprefix(f"{instruction.opcode}: "), hint)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        return instruction_error(instruction, f"malformed attributes: {error!r}")
    return None


def _one_user(i: Instruction) -> None:
    ends = ends_of(i)
    require(len(ends) == 1, f"it must have one user, which ends it; found {len(ends)}")


def _same_thread(i: Instruction) -> None:
    mine = i.parent.execution_thread if i.parent is not None else "main"
    for callee in i.called_computations:
        require(
            callee.execution_thread == mine, f"{callee.name} runs on {callee.execution_thread}, its caller on {mine}"
        )


def _origin(tree: object, shape: Shape) -> None:
    if not isinstance(tree, tuple):
        return
    require(shape.is_tuple and len(tree) == len(shape.elements), f"its origin is a tuple of another form than {shape}")
    for part, element in zip(tree, shape.elements, strict=True):
        _origin(part, element)


def _configuration(module: Module) -> Iterator[VerifyError]:
    config, entry = module.config, module.entry
    parameters = [p.shape for p in entry.parameters]
    if config.parameter_layouts is not None:
        same = len(config.parameter_layouts) == len(parameters) and all(
            map(alike, config.parameter_layouts, parameters)
        )
        if not same or config.result_layout is None or not alike(config.result_layout, entry.root.shape):
            yield VerifyError("entry_computation_layout does not fit the entry computation", where=module.name)
    for alias in config.input_output_alias:
        try:
            output = entry.root.shape.at(alias.output_index)
            if not 0 <= alias.parameter < len(parameters):
                raise ShapeError(f"the entry has no parameter {alias.parameter}", hint="parameters are numbered from 0")
            given = parameters[alias.parameter].at(alias.parameter_index)
            if output.nbytes != given.nbytes:
                raise ShapeError(
                    f"output {output} cannot share memory with parameter {given}",
                    hint="alias a result with a parameter of its shape, each once",
                )
        except ShapeError as error:
            yield VerifyError(f"input_output_alias: {error.message}", where=module.name, hint=error.hint)
