"""One program, measured in this process.

python -m benchmarks.trial NAME REPEATS FILE prints a line of JSON a stage, and the result as the last. The program's
bytecode is left in FILE.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.agreement import difference
from benchmarks.programs import PROGRAMS, Program
from benchmarks.result import Bound, Result, Times
from benchmarks.sides import WARM_UP, Compiled, bytecode, compile_ours, compile_xla
from benchmarks.timing import Block, alternate, cpu_ratios, median_cpu, median_wall, ratios
from xloom.roofline.yardsticks import Yardstick, arithmetic, memory


def try_program(program: Program, data: bytes, repeats: int, stage: Callable[[str], None]) -> Result:
    """Compiles on both sides, compares the results, and only then measures. `stage` hears what comes next.

    `data` is the program's bytecode.
    """
    stage("XLA compiles")
    arguments = program.make_arguments()
    warm_up = WARM_UP.make_arguments()
    compile_xla(WARM_UP, warm_up)
    theirs = compile_xla(program, arguments)
    stage("xloom compiles")
    try:
        compile_ours(bytecode(WARM_UP), warm_up)
        ours = compile_ours(data, arguments)
    except Exception as error:  # whatever it is, it is the answer
        return Result(program.name, "not compiled", one_line(error))
    stage("compare")
    wrong = difference(ours.results(), theirs.results(), program.tolerance, program.outliers)
    if wrong:
        return Result(program.name, "differs", wrong)
    stage("run")
    bound, yardstick = _yardstick(program)
    runs = (theirs.run, ours.run, yardstick.run) if yardstick else (theirs.run, ours.run)
    first, second, *best = alternate(*runs, repeats=repeats)
    by_clock = ratios(first, second)
    low, _, high = statistics.quantiles(by_clock, n=4) if len(by_clock) > 1 else by_clock * 3
    amount = program.flops or program.bytes_moved
    return Result(
        program.name,
        "ok",
        xla=_times(theirs, first),
        ours=_times(ours, second),
        ratio=statistics.median(by_clock),
        ratio_low=low,
        ratio_high=high,
        cpu_ratio=statistics.median(cpu_ratios(first, second)),
        bound=bound,
        reached=statistics.median(ratios(best[0], second)) * amount / yardstick.amount if yardstick else 0.0,
    )


def _yardstick(program: Program) -> tuple[Bound, Yardstick | None]:
    """What bounds a program, and what the machine can do of it."""
    if program.flops:
        return "FMA", arithmetic()
    return ("memory", memory()) if program.bytes_moved else ("", None)


def _times(compiled: Compiled, blocks: list[Block]) -> Times:
    return Times(median_wall(blocks), median_cpu(blocks), compiled.compile_seconds, compiled.peak_bytes)


def one_line(error: Exception) -> str:
    """What an error says first."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def main(name: str, repeats: str, file: str) -> None:
    """What a child process does."""
    data = bytecode(PROGRAMS[name])
    Path(file).write_bytes(data)
    result = try_program(
        PROGRAMS[name], data, int(repeats), stage=lambda text: print(json.dumps({"stage": text}), flush=True)
    )
    print(json.dumps({"result": result.to_json()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
