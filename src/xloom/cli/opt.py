"""xloom opt."""

from __future__ import annotations

from pathlib import Path

import click

from xloom.cli.program import program_argument, read_program


@click.command()
@program_argument
@click.option("--passes", "-p", default="", help='Passes and their options: "expand{target=MyGelu},dce".')
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="File to write (.hlo or .pb); default: print.")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Verify between passes.")
@click.option("--dump", type=click.Path(file_okay=False), help="Folder for the module after each pass.")
@click.option("--compare", is_flag=True, help="Check values against the interpreter after each pass.")
@click.option("--time", "timed", is_flag=True, help="Print what each pass did and took, on standard error.")
@click.option("--large-constants", is_flag=True, help="Print every constant in full.")
@click.option(
    "--list",
    "listed",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda c, p, v: _list(c, v),
    help="List the passes.",
)
def opt(
    file: str,
    passes: str,
    output: str | None,
    verify: bool,
    dump: str | None,
    compare: bool,
    timed: bool,
    large_constants: bool,
) -> None:
    """Rewrite a program and print it.

    \b
      xloom opt model.hlo                           parse, verify, print
      xloom opt -p expand,dce model.hlo             expand custom calls that carry HLO
      xloom opt -p algebraic-simplification,dce --dump steps/ --time model.hlo
    """
    from xloom.passes import run_passes

    module = read_program(file)
    runs = run_passes(module, passes, verify=verify, dump=dump, compare=compare)
    if timed:
        for record in runs:
            did = "changed" if record.changed else "no change"
            line = f"{record.pass_!s:40} {did:10} {record.seconds * 1e3:9.2f} ms {record.instructions:8} instructions"
            click.echo(line, err=True)
    if output and Path(output).suffix in (".pb", ".binpb"):
        Path(output).write_bytes(module.to_proto())
    elif output:
        Path(output).write_text(module.to_text(print_large_constants=large_constants))
    else:
        click.echo(module.to_text(print_large_constants=large_constants), nl=False)


def _list(context: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    from xloom.passes import PASSES

    for name, made in sorted(PASSES.items()):
        click.echo(f"{name:28} {(made.__doc__ or '').strip().splitlines()[0]}")
    context.exit()
