"""Modules into HLO text, byte for byte as XLA prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xloom.hlo.async_chain import async_computation
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.text.annotations import (
    print_frontend_attributes,
    print_original_array,
    print_original_value,
    print_statistics,
)
from xloom.hlo.text.attributes import PRINTERS, braced
from xloom.hlo.text.lexer import escape, is_json_dict
from xloom.hlo.text.metadata import print_metadata

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation
    from xloom.hlo.instruction import Instruction
    from xloom.hlo.module import Module

_ASYNC = {"async-start": "-start", "async-update": "-update", "async-done": "-done"}


@dataclass(frozen=True)
class PrintOptions:
    """What to print; the names and defaults are those of XLA's HloPrintOptions."""

    print_large_constants: bool = False
    print_metadata: bool = True
    print_backend_config: bool = True
    print_operand_shape: bool = False
    print_operand_names: bool = True
    print_result_shape: bool = True
    print_program_shape: bool = True
    print_percent: bool = True
    print_control_dependencies: bool = True
    print_extra_attributes: bool = True
    include_layout_in_shapes: bool = True
    compact_operands: bool = False
    print_ids: bool = True
    syntax_sugar_async_ops: bool = True
    operand_index_annotation_interval: int = 5

    @staticmethod
    def short_parsable() -> PrintOptions:
        """The short form that still parses: no metadata, no shapes of operands, all constants in full."""
        return PrintOptions(
            print_large_constants=True,
            print_metadata=False,
            print_program_shape=False,
            print_percent=False,
            print_control_dependencies=False,
            operand_index_annotation_interval=0,
        )


def module_text(module: Module, options: PrintOptions | None = None) -> str:
    """The module in HLO text."""
    options = options or PrintOptions()
    head = [f"HloModule {module.name if options.print_ids else ''}", *_header(module)]
    out = [", ".join(head)]
    out.append(_tables(module))
    if module.stack_frames is not None and options.print_metadata:
        out.append(_stack_frames(module.stack_frames))
    out.append("\n\n")
    hidden = _sugared_bodies(module) if options.syntax_sugar_async_ops else set()
    fused = {c for i in module.instructions if i.opcode == "fusion" for c in i.called_computations}
    for computation in module.computation_post_order():
        if computation not in hidden:
            scheduled = module.config.is_scheduled and computation not in fused
            out.append(_computation(computation, options, scheduled))
            out.append("\n\n")
    return "".join(out)


def _header(module: Module) -> Iterable[str]:
    config = module.config
    if config.is_scheduled:
        yield "is_scheduled=true"
    if config.input_output_alias:
        pairs = (
            f"{braced(a.output_index)}: ({a.parameter}, {braced(a.parameter_index)},"
            f" {'must' if a.must else 'may'}-alias)"
            for a in sorted(config.input_output_alias, key=lambda a: a.output_index)
        )
        yield f"input_output_alias={{ {', '.join(pairs)} }}"
    if config.buffer_donors:
        donors = (f"({p}, {braced(index)})" for p, index in config.buffer_donors)
        yield f"buffer_donor={{ {', '.join(donors)} }}"
    if config.alias_passthrough_params:
        yield "alias_passthrough_params=true"
    parameters = ", ".join(
        f"{f'/*index={k}*/' if k and k % 5 == 0 else ''}{s}" for k, s in enumerate(module.parameter_shapes)
    )
    yield f"entry_computation_layout={{({parameters})->{module.result_shape}}}"
    for name, flags in (
        ("parameters", config.propagate_sharding_to_parameters),
        ("output", config.propagate_sharding_to_output),
    ):
        if flags != (False,):
            shown = ",".join("true" if f else "false" for f in flags)
            yield f"allow_spmd_sharding_propagation_to_{name}={{{shown}}}"
    if config.replica_count != 1:
        yield f"replica_count={config.replica_count}"
    if config.num_partitions != 1:
        yield f"num_partitions={config.num_partitions}"
    if module.frontend_attributes:
        yield f"frontend_attributes={print_frontend_attributes(module.frontend_attributes)}"


def _tables(module: Module) -> str:
    out = []
    if module.origin_recovery_table:
        out.append(", origin_recovery_table={\n")
        for old, new, recovery in module.origin_recovery_table:
            text = ""
            if recovery is not None:
                body = _indent(module_text(recovery), "    ")
                text = f',\n  "\n{body}\n  "'
            out.append(f"  {print_original_array(old)} : {print_original_array(new)}{text}\n")
        out.append("}\n")
    if module.debug_attributes:
        rows = (
            f"  {print_original_array(array)}:({','.join(f'{{{t}}}' for t in attributes)})"
            for array, attributes in module.debug_attributes
        )
        out.append(",\ndebug_attributes={\n" + ",\n".join(rows) + "\n}")
    return "".join(out)


def _indent(text: str, tab: str) -> str:
    # XLA indents the header, the computations' first lines and the instructions, and leaves the empty lines
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n".join(tab + line if line else line for line in lines)


def _stack_frames(frames: Any) -> str:
    out = ["\n\nFileNames\n"]
    out += [f'{k} "{escape(n)}"\n' for k, n in enumerate(frames.file_names, 1)]
    out.append("\nFunctionNames\n")
    out += [f'{k} "{escape(n)}"\n' for k, n in enumerate(frames.function_names, 1)]
    out.append("\nFileLocations\n")
    out += [
        f"{k} {{file_name_id={a} function_name_id={b} line={c} end_line={d} column={e} end_column={f}}}\n"
        for k, (a, b, c, d, e, f) in enumerate(frames.locations, 1)
    ]
    out.append("\nStackFrames\n")
    out += [f"{k} {{file_location_id={a} parent_frame_id={b + 1}}}\n" for k, (a, b) in enumerate(frames.frames, 1)]
    return "".join(out)


def _is_sugar(body: Computation) -> bool:
    root = body.root
    return all(i is root or i.opcode == "parameter" for i in body._instructions)


def _sugared_bodies(module: Module) -> set[Computation]:
    return {c for i in module.instructions if i.opcode == "async-start" for c in i.called_computations if _is_sugar(c)}


def computation_text(computation: Computation, options: PrintOptions | None = None) -> str:
    """A computation in HLO text; of scheduled modules in schedule order, else in post-order."""
    module = computation.module
    return _computation(computation, options or PrintOptions(), module is not None and module.config.is_scheduled)


def _computation(computation: Computation, options: PrintOptions, scheduled: bool) -> str:
    order = list(computation._instructions) if scheduled else computation.post_order()
    out = ["ENTRY " if computation.is_entry else ""]
    if options.print_percent:
        out.append("%")
    if options.print_ids:
        out.append(computation.name + " ")
    if options.print_program_shape:
        parameters = ", ".join(f"{p.name}: {p.shape.to_text(False)}" for p in computation.parameters)
        out.append(f"({parameters}) -> {computation.root.shape.to_text(False)} ")
    out.append("{\n")
    root = computation.root
    for instruction in order:
        out.append("  ROOT " if instruction is root else "  ")
        out.append(instruction_text(instruction, options))
        out.append("\n")
    out.append("}")
    if computation.execution_thread != "main":
        out.append(f', execution_thread="{computation.execution_thread}"')
    return "".join(out)


def instruction_text(instruction: Instruction, options: PrintOptions | None = None) -> str:
    """One instruction in HLO text, without indentation and ROOT."""
    options = options or PrintOptions()
    percent = "%" if options.print_percent else ""
    opcode = instruction.opcode
    sugar = None
    if opcode in _ASYNC and options.syntax_sugar_async_ops:
        body = async_computation(instruction)
        if body is not None and _is_sugar(body):
            sugar = body.root
            opcode = sugar.opcode + _ASYNC[opcode]
    out = [percent, instruction.name, " = "]
    if options.print_result_shape:
        out.append(instruction.shape.to_text(options.include_layout_in_shapes))
        out.append(" ")
    out.append(opcode)
    out.append("(")
    out.append(_operands(instruction, options, percent))
    out.append(")")
    if options.print_extra_attributes:
        _attributes(instruction, sugar, options, percent, out)
    _annotations(instruction, options, percent, out)
    return "".join(out)


def attributes_text(instruction: Instruction, options: PrintOptions | None = None) -> str:
    """What `instruction_text` prints after the operands: `dimensions={1}, to_apply=%add`."""
    options = options or PrintOptions()
    percent = "%" if options.print_percent else ""
    out: list[str] = []
    _attributes(instruction, None, options, percent, out)
    _annotations(instruction, options, percent, out)
    return "".join(out).removeprefix(", ")


def _operands(instruction: Instruction, options: PrintOptions, percent: str) -> str:
    if instruction.opcode == "parameter":
        return str(instruction.attrs["parameter_number"])
    if instruction.opcode == "constant":
        literal = instruction.literal
        # what a dump left out is not made up again
        shown = options.print_large_constants or (literal.shape.is_array and literal.shape.size <= 10)
        shown = shown and not literal.elided
        return literal.to_text() if shown else "{...}"
    operands = instruction._operands
    if options.compact_operands and len(operands) > 4:
        shown_operands, rest = operands[:4], f", ...(+{len(operands) - 4})"
    else:
        shown_operands, rest = operands, ""
    interval = options.operand_index_annotation_interval
    if not options.print_operand_shape and (len(operands) <= interval or not interval) and options.print_operand_names:
        return ", ".join([percent + o.name for o in shown_operands]) + rest
    out = []
    for k, operand in enumerate(shown_operands):
        if k:
            out.append(f", /*index={k}*/" if interval and k % interval == 0 else ", ")
        if options.print_operand_shape:
            out.append(operand.shape.to_text(options.include_layout_in_shapes))
        if options.print_operand_names:
            out.append(f"{' ' if options.print_operand_shape else ''}{percent}{operand.name}")
    return "".join(out) + rest


def _attributes(
    instruction: Instruction, sugar: Instruction | None, options: PrintOptions, percent: str, out: list[str]
) -> None:
    attrs = _branches(instruction) if instruction.opcode == "conditional" else instruction.attrs
    for name, use in OPCODES[instruction.opcode].attributes.items():
        info = use.info
        kind = info.kind
        if kind == "number" or kind == "value":
            continue
        if name == "output_to_operand_aliasing" and sugar is not None:
            _attributes(sugar, None, options, percent, out)
            if not instruction.frontend_attributes and sugar.frontend_attributes:
                out.append(f", frontend_attributes={print_frontend_attributes(sugar.frontend_attributes)}")
        if name in attrs:
            value = attrs[name]
            if not use.always and value == info.default:
                continue
        elif use.always and not use.required:
            value = info.default
        else:
            continue
        if kind == "computation":
            if name == "calls" and sugar is not None:
                continue
            text = percent + value.name
        elif kind == "computations":
            text = f"{{{', '.join(percent + c.name for c in value)}}}"
        elif kind == "result_accuracy":
            continue  # printed at the very end
        else:
            text = PRINTERS[kind](value)
        out.append(f", {name}={text}")


def _branches(conditional: Instruction) -> Mapping[str, Any]:
    """The attributes, with two branches that a pred chooses from as the text names them."""
    attrs = conditional.attrs
    branches = attrs.get("branch_computations", ())
    if len(branches) != 2 or not conditional._operands or conditional._operands[0].shape.dtype.name != "pred":
        return attrs
    others = {name: value for name, value in attrs.items() if name != "branch_computations"}
    return {**others, "true_computation": branches[0], "false_computation": branches[1]}


def _annotations(instruction: Instruction, options: PrintOptions, percent: str, out: list[str]) -> None:
    if instruction.sharding is not None:
        text = instruction.sharding.to_text(metadata=options.print_metadata)
        out.append(f", sharding={text}")
    if instruction.frontend_attributes:
        out.append(f", frontend_attributes={print_frontend_attributes(instruction.frontend_attributes)}")
    if options.print_control_dependencies and instruction._predecessors:
        names = ", ".join(percent + p.name for p in instruction._predecessors)
        out.append(f", control-predecessors={{{names}}}")
    attrs = instruction.attrs
    if "statistics" in attrs:
        out.append(f", statistics={print_statistics(attrs['statistics'])}")
    accuracy = attrs.get("result_accuracy")
    if accuracy is not None:
        out.append(f", result_accuracy={PRINTERS['result_accuracy'](accuracy)}")
    if "origin" in attrs:
        out.append(f", origin={print_original_value(attrs['origin'])}")
    if options.print_metadata and instruction.metadata is not None:
        text = print_metadata(instruction.metadata)
        if text:
            out.append(f", metadata={{{text}}}")
    if options.print_backend_config and instruction.backend_config:
        config = instruction.backend_config
        quoted = config if is_json_dict(config) else f'"{escape(config)}"'
        out.append(f", backend_config={quoted}")
