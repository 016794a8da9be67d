"""A process that tries modules in forks of it: a line of JSON on standard input for each, and one for what came."""

from __future__ import annotations

import json
import os
import re
import runpy
import select
import signal
import sys
import warnings

import numpy as np

from xloom.calls import load_library, load_source
from xloom.cpu.compile import compile
from xloom.errors import MissingExtraError, XloomError
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.interpreter.bounds import bounds, leaves
from xloom.interpreter.samples import random_arguments
from xloom.passes import Compare, WrongValueError, run_passes
from xloom.reduction.failure import WRONG, Trial
from xloom.stablehlo.reference import run_on_xla_cpu

_SAMPLES = 3
"""Sets of arguments: what is left of a program shows with some of them alone."""


def main() -> None:
    """Until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the program prints is not an answer
    warnings.simplefilter("ignore")
    says = json.loads(sys.argv[1])
    trial = Trial(**{**says, "load": tuple(says["load"])})
    for library in trial.load:
        _load(library)
    for line in sys.stdin:
        question = json.loads(line)
        print(_in_fork(trial, question["path"], question["seconds"]), file=answers, flush=True)


def _in_fork(trial: Trial, path: str, seconds: float) -> str:
    """The answer to one question. The process that finds it may crash, and is ended after so many seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.write(writing, json.dumps(_answer(trial, path)).encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], seconds)
    if not ready:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not ready:
        return json.dumps({"outcome": f"no end in {seconds:g} s"})
    code = os.waitstatus_to_exitcode(status)
    return answer or json.dumps({"outcome": f"signal {-code}" if code < 0 else f"exit status {code}"})


def _answer(trial: Trial, path: str) -> dict[str, str]:
    try:
        return {"outcome": outcome(trial, path)}
    except MissingExtraError as error:
        return {"error": error.message, "hint": error.hint}


def _load(library: str) -> None:
    """Code of custom calls: Python, a library, or source in C."""
    if library.endswith(".py"):
        runpy.run_path(library)
    elif library.endswith((".so", ".dylib")):
        load_library(library)
    else:
        load_source(library)


def outcome(trial: Trial, path: str) -> str:
    """What comes of one trial."""
    with open(path, encoding="utf-8") as file:
        module = parse(file.read())
    try:
        return (_passes if trial.passes else _run)(trial, module)
    except MissingExtraError:
        raise
    except WrongValueError:
        return WRONG
    except Exception as error:
        return _kind(error)


def _passes(trial: Trial, module: Module) -> str:
    import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes

    compare = Compare(rounding=True, strict=False, seed=trial.seed)
    run_passes(module, trial.passes, compare=compare)
    return ""


def _run(trial: Trial, module: Module) -> str:
    program = compile(module)
    for sample in range(_SAMPLES):
        arguments = random_arguments(module, trial.seed + sample)
        found = [np.asarray(leaf) for leaf in leaves(program(*arguments))]
        if not trial.against:
            continue
        instead = run_on_xla_cpu(module, arguments) if trial.against == "jaxlib" else None
        for k, (bound, value) in enumerate(zip(bounds(module, arguments), found, strict=True)):
            if bound.wrong(value, None if instead is None else instead[k]).any():
                return WRONG
    return ""


def _kind(error: Exception) -> str:
    """The same for errors that differ in names and numbers alone."""
    message = error.message if isinstance(error, XloomError) else str(error)
    words = re.sub(r"\S*[%\d\[\]]\S*", "#", message.split("\n", 1)[0])
    return f"{type(error).__name__}: {words}"


if __name__ == "__main__":
    main()
