"""xloom ops."""

from __future__ import annotations

import click

from xloom.errors import XloomError, near
from xloom.hlo.opcodes import MANY, OPCODES, Flags, Op


@click.command()
@click.argument("names", nargs=-1)
@click.option("--markdown", is_flag=True, help="The whole table as Markdown: docs/ops.md.")
def ops(names: tuple[str, ...], markdown: bool) -> None:
    """Say what opcodes mean; without names, all of them.

    \b
      xloom ops
      xloom ops gather scatter
    """
    if markdown:
        click.echo(markdown_table(), nl=False)
        return
    from xloom.cpu.coverage import lowering_kind

    for name in names:
        if name not in OPCODES:
            raise XloomError(f"there is no opcode {name!r}", hint=near(name, OPCODES) or "see `xloom ops`")
    for name in names or OPCODES:
        row = OPCODES[name]
        click.echo(f"{name:28} {_arity(row):>4}  {row.doc}")
        if names:
            click.echo(f"    native code: {lowering_kind(name) or 'none'}")
            for attribute, use in row.attributes.items():
                need = "required" if use.required else f"default {use.info.default!r}"
                click.echo(f"    {attribute:26} {use.info.kind:18} {need:24} {use.info.doc}")


def _arity(row: Op) -> str:
    return "any" if row.arity == MANY else str(row.arity)


def markdown_table() -> str:
    """The opcode table as a Markdown page."""
    from xloom.cpu.coverage import lowering_kind

    lines = [
        "# Opcodes",
        "",
        "Generated from the opcode table by `xloom ops --markdown`.",
        "",
        "The interpreter has them all. Native code is a part of *loops* with other operators, a *kernel* of its own, a",
        "part of the *entry* function, or that of other operators where an opcode is *rewritten* (collectives: for one",
        "device); what only says whose memory a value is needs *no code*. What is empty is not native.",
        "",
        "| opcode | operands | attributes | native | meaning |",
        "|---|---|---|---|---|",
    ]
    for row in OPCODES.values():
        attributes = ", ".join(f"`{n}`" if u.required else f"[`{n}`]" for n, u in row.attributes.items())
        doc = row.doc.replace("|", "\\|")
        effect = " Has side effects." if Flags.EFFECT in row.flags else ""
        lines.append(f"| `{row.name}` | {_arity(row)} | {attributes} | {lowering_kind(row.name)} | {doc}.{effect} |")
    return "\n".join(lines) + "\n"
