"""Random programs on the interpreter, jaxlib's XLA:CPU and the CPU compiler: do they return the same?

python -m tests.judges.differential [--count 10000] [--seed 0] [--against jaxlib|interpreter|both]

Each side runs in a child process. Who is judged is the CPU compiler where there is one, and XLA:CPU, each against the
interpreter within what rounding allows (see `bounds`); the CPU compiler against XLA:CPU too. A disagreement is
reduced to its smallest program; those of which `explained` knows the cause are counted apart.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xloom
from tests.judges.bounds import Bounds, bounds
from tests.judges.child import run_cases
from tests.judges.explained import Difference, explanation
from tests.judges.reducer import Disagrees, computation_values, reduced
from tests.judges.sides import Source, Task
from xloom.errors import XloomError
from xloom.hlo.module import Module

_INPUTS = ("parameter", "constant", "broadcast", "iota", "tuple", "get-tuple-element")
_PER_CHILD = 1000  # programs, after which a side starts afresh: compiled code piles up


@dataclass
class Outcome:
    """What a side made of a program: its results, or why it has none."""

    status: str  # ran, refused, crashed, hung
    message: str = ""
    results: Any = None


class Side:
    """A side in its child process."""

    def __init__(self, name: str, folder: Path, timeout: float):
        self.name, self.timeout = name, timeout
        self.file = folder / f"{name}.pickle"
        self._queue: deque[Task | None] = deque()
        self._verdicts = self._start()
        self._ran = 0

    def run(self, source: Source) -> Outcome:
        """The outcome of one program."""
        self._ran += 1
        if self._ran % _PER_CHILD == 0:
            self.stop()
            self._verdicts = self._start()
        self.file.unlink(missing_ok=True)
        self._queue.append(Task(self.name, source, str(self.file)))
        verdict = next(self._verdicts)
        message = verdict["message"]
        if verdict["status"] == "pass":
            return Outcome("ran", "", pickle.loads(self.file.read_bytes()))
        if verdict["status"] == "crash":
            return Outcome("crashed", message)
        return Outcome("hung" if message.startswith("no answer in") else "refused", message)

    def _start(self) -> Iterator[dict[str, str]]:
        return run_cases("tests.judges.sides:cases", iter(self._queue.popleft, None), self.timeout)

    def stop(self) -> None:
        """Ends the child."""
        self._queue.append(None)
        for _ in self._verdicts:
            pass


@dataclass
class Finding:
    """A program on which a side did not do as its reference."""

    number: int
    pair: str
    status: str  # disagrees, explained, refused, crashed, hung
    message: str
    program: str = ""


class Judge:
    """Runs programs on the sides, and counts."""

    def __init__(self, seed: int, against: str, timeout: float, folder: Path):
        names = ["interpreter"]
        if against != "interpreter":
            names.append("jaxlib")
        if hasattr(xloom, "compile"):
            names.append("cpu")
        self.seed = seed
        self.sides = {name: Side(name, folder, timeout) for name in names}
        self.pairs = [(name, "interpreter") for name in names[1:] if name == "jaxlib" or against != "jaxlib"]
        if "cpu" in names and against != "interpreter":
            self.pairs.append(("cpu", "jaxlib"))
        self.counts: Counter[str] = Counter()
        self.elements = self.loose = 0

    def judge(self, number: int) -> list[Finding]:
        """What there is to say about one program."""
        source = Source(self.seed, number)
        outcomes = {name: side.run(source) for name, side in self.sides.items()}
        findings = []
        for name, outcome in outcomes.items():
            self.counts[f"{name} {outcome.status}"] += 1
            if outcome.status != "ran":
                findings.append(self._failure(number, name, outcome))
        mine = outcomes["interpreter"].results
        if mine is None:
            return findings
        self.elements += sum(b.runs[0].size for b in mine)
        self.loose += sum(int(b.loose().sum()) for b in mine)
        for pair in self.pairs:
            side, reference = (outcomes[name] for name in pair)
            if side.status == reference.status == "ran":
                instead = None if pair[1] == "interpreter" else reference.results
                found = mismatch(mine, side.results, instead)
                finding = self._finding(number, pair, found.message) if found else None
                self.counts[f"{pair[0]} against {pair[1]}: {finding.status if finding else 'agrees'}"] += 1
                findings += [finding] if finding else []
        return findings

    def _failure(self, number: int, name: str, outcome: Outcome) -> Finding:
        """A side has no results: with a smaller program, if it is ours and died."""
        program = ""
        if outcome.status == "crashed" and name != "jaxlib":
            side = self.sides[name]
            program = self._smaller(number, lambda m, a: side.run(_source(m, a)).status == "crashed")
        return Finding(number, name, outcome.status, outcome.message, program)

    def _finding(self, number: int, pair: tuple[str, str], message: str) -> Finding:
        smallest: list[tuple[str, Difference | None]] = [(message, None)]

        def disagrees(module: Module, arguments: Sequence[np.ndarray]) -> bool:
            found = self._difference(pair, module, arguments)
            if found is not None:
                smallest.append(found)
            return found is not None

        program = self._smaller(number, disagrees)
        message, difference = smallest[-1]
        cause = explanation(difference) if difference is not None and "jaxlib" in pair else ""
        status = f"explained ({cause})" if cause else "disagrees"
        return Finding(number, " ".join(pair), status, message, program)

    def _smaller(self, number: int, fails: Disagrees) -> str:
        module, arguments = Source(self.seed, number).load()
        try:
            return _listing(*reduced(module, arguments, fails))
        except XloomError as error:
            return f"// not reduced: {error}\n{module.to_text()}"

    def _difference(
        self, pair: tuple[str, str], module: Module, arguments: Sequence[np.ndarray]
    ) -> tuple[str, Difference | None] | None:
        """What is wrong on one side of a part of a program; nothing, if either does not run it."""
        got = self.sides[pair[0]].run(_source(module, arguments))
        if got.status != "ran":
            return None
        instead = None
        if pair[1] != "interpreter":
            reference = self.sides[pair[1]].run(_source(module, arguments))
            if reference.status != "ran":
                return None
            instead = reference.results
        try:
            mine = bounds(module, arguments)
        except XloomError:
            return None
        found = mismatch(mine, got.results, instead)
        return None if found is None else (found.message, _of_one_instruction(module, arguments, found))

    def stop(self) -> None:
        """Ends the children."""
        for side in self.sides.values():
            side.stop()


@dataclass
class Mismatch:
    """Where one output is not within bounds."""

    message: str
    got: np.ndarray
    want: np.ndarray
    wrong: np.ndarray


def mismatch(mine: list[Bounds], got: list[np.ndarray], instead: list[np.ndarray] | None) -> Mismatch | None:
    """The first output of `got` that is not within bounds."""
    nothing = np.zeros(0)
    if len(mine) != len(got):
        return Mismatch(f"{len(got)} outputs for {len(mine)}", nothing, nothing, nothing)
    for k, (bound, value) in enumerate(zip(mine, got, strict=True)):
        want = bound.runs[0] if instead is None else instead[k]
        if value.dtype != want.dtype or value.shape != want.shape:
            message = f"output {k}: {value.dtype}{list(value.shape)} for {want.dtype}{list(want.shape)}"
            return Mismatch(message, nothing, nothing, nothing)
        wrong = bound.wrong(value, None if instead is None else want)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            runs = ", ".join(str(r[at]) for r in bound.runs[1:])
            share = f"{wrong.sum()} of {wrong.size} elements"
            message = (
                f"output {k} {value.dtype}: {share}, at {list(at)} {value[at]} for {want[at]} (other runs: {runs})"
            )
            return Mismatch(message, value, want, wrong)
    return None


def _of_one_instruction(module: Module, arguments: Sequence[np.ndarray], found: Mismatch) -> Difference | None:
    """The mismatch as the difference of one instruction, if the program is but one and its inputs."""
    working = [i for i in module.entry if i.opcode not in _INPUTS]
    if len(working) != 1 or not found.got.size:
        return None
    values = computation_values(module, module.entry, arguments)
    operands = [values[o] for o in working[0].operands]
    folded = not any(i.opcode == "parameter" for i in module.entry)
    return Difference(working[0], operands, folded, found.got, found.want, found.wrong)


def _source(module: Module, arguments: Sequence[np.ndarray]) -> Source:
    return Source(text=module.to_text(print_large_constants=True), arguments=tuple(arguments))


def _listing(module: Module, arguments: Sequence[np.ndarray]) -> str:
    with np.printoptions(threshold=64, precision=9):
        values = "\n".join(f"// p{k} = {a!s}" for k, a in enumerate(arguments))
    return f"{module.to_text(print_large_constants=True)}\n{values}"


def _fails(finding: Finding) -> bool:
    if finding.pair == "jaxlib":  # what XLA:CPU does not run is counted, and no fault of ours
        return False
    return not finding.status.startswith("explained")


def main() -> None:
    """Prints the first disagreements and the counts; exit status 1 if any is not explained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--against", choices=("jaxlib", "interpreter", "both"), default="both")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--json", help="file for every finding")
    parser.add_argument("--show", type=int, default=10, help="how many findings to print with their programs")
    options = parser.parse_args()
    findings: list[Finding] = []
    shown: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(options.seed, options.against, options.timeout, Path(folder))
        for number in range(options.first, options.first + options.count):
            for finding in judge.judge(number):
                findings.append(finding)
                shown[finding.status] += 1
                if shown[finding.status] <= options.show:
                    print(f"{options.seed}:{number} {finding.pair} {finding.status}: {finding.message}", flush=True)
                    print(finding.program, flush=True)
        judge.stop()
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(f) for f in findings], indent=1))
    for kind, count in sorted(judge.counts.items()):
        print(f"  {count:7d} {kind}")
    share = 100 * judge.loose / max(1, judge.elements)
    print(f"differential: {options.count} programs; of {judge.elements} elements {share:.2f} % bound looser than 1 %")
    sys.exit(1 if any(_fails(f) for f in findings) else 0)


if __name__ == "__main__":
    main()
