"""xloom trace."""

from __future__ import annotations

from pathlib import Path

import click

from xloom.process_traces import join


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file to write."
)
def trace(parts: tuple[Path, ...], output: Path) -> None:
    """Join the traces of several processes, with their clocks set by what they exchanged.

    XLOOM_TRACE=trace.json makes each process write trace.process0.json,
    trace.process1.json... The last one to end joins those that it finds;
    this is for those that lie on several machines, or of which one is missing.

    \b
      xloom trace trace.process*.json -o trace.json      open it in ui.perfetto.dev
    """
    join(parts, output)
    click.echo(f"{output}: {len(parts)} processes")
