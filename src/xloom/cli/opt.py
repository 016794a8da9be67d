"""xloom opt."""

from __future__ import annotations

from pathlib import Path

import click

from xloom.cli.program_input import load_code, load_option, program_argument, read_program
from xloom.cpu.stages import STAGES
from xloom.cuda.stages import STAGES as CUDA_STAGES
from xloom.hlo.module import Module

FORMS = ("hlo", *dict.fromkeys(name for stage in (*STAGES, *CUDA_STAGES) for name in stage.prints))
"""What --emit prints, from the program as it is to what runs."""


@click.command()
@program_argument
@click.option("--passes", "-p", default="", help='Passes and their options: "expand{target=MyGelu},dce".')
@click.option(
    "--emit",
    type=click.Choice(FORMS),
    default="hlo",
    show_default=True,
    help="What to print of the program after the passes: HLO, or a stage of its compilation to native code.",
)
@click.option(
    "--target",
    metavar="NAME",
    default="",
    envvar="XLOOM_TARGET",
    show_envvar=True,
    help="Machine that the stages are for, such as x86-64-v3, znver4, neoverse-n1, sm_90a; a wrong name lists all. "
    "By default the level that this machine reaches, or sm_80 for what GPUs alone have; host is all that it can do.",
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), help="File to write (HLO as .hlo or .pb); default: print."
)
@click.option(
    "--explain",
    metavar="QUESTION[:A[,B]]",
    help="fusion: why instructions are fused or not. memory: why arrays lie where they do. kernel: which strategy "
    "computes them, and why. compile-time: of passes and kernels. Of all of them, A, or A and B: names in --emit "
    "prepared.",
)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Verify between passes.")
@click.option("--dump", type=click.Path(file_okay=False), help="Folder for the module after each pass.")
@click.option("--compare", is_flag=True, help="Compare each pass's output with its input, by the interpreter.")
@click.option("--time", "timed", is_flag=True, help="Print what each pass did and took, on standard error.")
@click.option("--large-constants", is_flag=True, help="Print every constant in full.")
@load_option
@click.option(
    "--list",
    "listed",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda c, p, v: _list(c, v),
    help="List the passes with their options, and the patterns of the library.",
)
@click.option(
    "--stages",
    "stages",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda c, p, v: _list_stages(c, v),
    help="List the stages of compilation.",
)
def opt(
    file: str,
    passes: str,
    emit: str,
    target: str,
    explain: str | None,
    output: str | None,
    verify: bool,
    dump: str | None,
    compare: bool,
    timed: bool,
    large_constants: bool,
    libraries: tuple[str, ...],
) -> None:
    """Rewrite a program and print it, or a stage of its compilation.

    The stages are: prepared, the program after the passes that every compilation begins with, which --passes need not
    name; schedule, the steps in order with the memory that each reads and writes; memory, how much of it there is, and
    for which arrays; loops, what is computed in each loop, as pseudo-code; loop-ir,
    the same in full, as kernels are compared and kept by; llvm, LLVM IR before LLVM's own passes; asm,
    the assembly, for this machine or for the one that --target names. GPUs have launches, the kernels in order with
    their grids, ptx, NVIDIA's assembly of each, and sass, its machine code, for which pip install 'xloom[cuda]' brings
    the tools. --stages lists what makes each of them.

    \b
      xloom opt model.hlo                           parse, verify, print
      xloom opt -p expand,dce model.hlo             expand custom calls that carry HLO
      xloom opt -p algebraic-simplification,dce --dump steps/ --time model.hlo
      xloom opt --emit schedule model.hlo           which array lies where, and what runs when
      xloom opt --emit loops model.hlo              what is fused with what
      xloom opt --explain fusion:add.3,reduce.1 model.hlo    why are they not one loop nest?
      xloom opt --explain memory:dot.2 model.hlo    what else is in memory then, and why is it not reused?
      xloom opt --explain kernel:dot.2 model.hlo    is it packed, or read where it lies, and why?
      xloom opt --explain compile-time model.hlo    which passes, and which kernels of LLVM's?
      xloom opt --emit asm model.hlo -o model.s
      xloom opt --emit asm --target x86-64-v3 model.hlo
      xloom opt --emit ptx --target sm_90a model.hlo
      xloom opt --explain kernel --target sm_90a model.hlo    how full is a multiprocessor?
    """
    import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes
    from xloom.passes import run_passes

    load_code(libraries)
    module = read_program(file)
    runs = run_passes(module, passes, verify=verify, dump=dump, compare=compare)
    if timed:
        for record in runs:
            did = "changed" if record.changed else "no change"
            line = f"{record.pass_!s:40} {did:10} {record.seconds * 1e3:9.2f} ms {record.instructions:8} instructions"
            click.echo(line, err=True)
    if output and Path(output).suffix in (".pb", ".binpb"):
        if emit != "hlo":
            raise click.UsageError(f"--emit {emit} is text, and {output} is for HLO")
        Path(output).write_bytes(module.to_proto())
        return
    if explain is not None:
        click.echo(_explained(module, explain, target), nl=False)
        return
    text = module.to_text(print_large_constants=large_constants) if emit == "hlo" else _stage(module, emit, target)
    if output:
        Path(output).write_text(text)
    else:
        click.echo(text, nl=False)


QUESTIONS = ("fusion", "memory", "kernel", "compile-time")
"""What --explain answers."""


def _explained(module: Module, question: str, target: str) -> str:
    from xloom.codegen.fusion.explain import fusion_report
    from xloom.cpu.prepare import prepared
    from xloom.cpu.printers.compile_times import compile_times_text
    from xloom.cpu.printers.kernel_choices import kernel_choices_text
    from xloom.cpu.printers.memory_places import memory_places_text
    from xloom.llvm.target import process_target, target_named

    subject, _, names = question.partition(":")
    found = tuple(name for name in names.split(",") if name)
    if subject not in QUESTIONS or (subject == "fusion" and len(found) > 2):
        raise click.UsageError(f"--explain is one of {', '.join(QUESTIONS)}, then :A or :A,B; and not {question!r}")
    machine = target_named(target) if target else process_target()
    if subject == "fusion":
        return fusion_report(prepared(module, target=machine), found)
    if machine.is_gpu:
        from xloom.cuda.printers import kernel_choices_text as of_gpu

        if subject != "kernel":
            raise click.UsageError(f"--explain {subject} is of processors, and {machine.name} is a GPU")
        return of_gpu(module, found, machine)
    texts = {"memory": memory_places_text, "kernel": kernel_choices_text, "compile-time": compile_times_text}
    return texts[subject](module, found, machine)


def _stage(module: Module, emit: str, target: str) -> str:
    from xloom.llvm.target import process_target, target_named

    of_gpus = {name for stage in CUDA_STAGES for name in stage.prints}
    of_processors = {name for stage in STAGES for name in stage.prints}
    machine = target_named(target or "sm_80") if target or emit not in of_processors else process_target()
    if emit not in (of_gpus if machine.is_gpu else of_processors):
        of_machine = sorted(of_gpus if machine.is_gpu else of_processors)
        raise click.UsageError(f"--emit {emit} is nothing that {machine.name} has; it has {', '.join(of_machine)}")
    if machine.is_gpu:
        from xloom.cuda import printers
    else:
        from xloom.cpu import printers
    return getattr(printers, f"{emit.replace('-', '_')}_text")(module, machine)


def _list(context: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes
    from xloom.cli.listing import listing

    click.echo(listing(), nl=False)
    context.exit()


def _list_stages(context: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    for heading, stages in (("of processors", STAGES), ("of NVIDIA's GPUs", CUDA_STAGES)):
        click.echo(f"{heading}:")
        for stage in stages:
            printed = f" (--emit {' | '.join(stage.prints)})" if stage.prints else ""
            click.echo(f"{stage.name:9} {stage.takes} -> {stage.gives}, in {stage.function}{printed}")
            click.echo(f"{'':9} {stage.meaning}")
    context.exit()
