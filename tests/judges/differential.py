"""Random programs on the interpreter, jaxlib's XLA:CPU and the CPU compiler: do they return the same?

python -m tests.judges.differential [--count 10000] [--seed 0] [--against jaxlib|interpreter|both]
                                    [--judge cpu|emulator|interpreter]

Each side runs in a child process. Values are compared within what rounding allows (see `bounds`): XLA:CPU's with the
interpreter's, and those of the CPU compiler with either. A disagreement is reduced to its smallest program; those of
XLA:CPU of which `explained` knows the cause are counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.judges.mismatch import Mismatch, cause_of, listing, mismatch
from tests.judges.reducer import DISAGREES, Small, Verdict, reduced
from tests.judges.side import Outcome, Side
from tests.judges.sides import Source
from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.interpreter.bounds import bounds


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

    def __init__(self, seed: int, judged: str, against: str, timeout: float, folder: Path):
        names = ["interpreter"]
        if against != "interpreter":
            names.append("jaxlib")
        if judged != "interpreter":
            names.append(judged)
        self.seed = seed
        self.sides = {name: Side(name, folder, timeout) for name in names}
        self.pairs = [("jaxlib", "interpreter")] if "jaxlib" in names else []
        if judged != "interpreter":
            self.pairs += [(judged, name) for name in names[:-1] if against in ("both", name)]
        self.counts: Counter[str] = Counter()
        self.judged = self.elements = self.loose = 0
        self._threads = ThreadPoolExecutor(len(names))

    def judge(self, number: int) -> list[Finding]:
        """What there is to say about one program."""
        source = Source(self.seed, number)
        results = self._threads.map(lambda side: side.run(source), self.sides.values())
        outcomes = dict(zip(self.sides, results, strict=True))
        self.judged += 1
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
        wrong = set()
        for pair in self.pairs:
            side, reference = (outcomes[name] for name in pair)
            # who is wrong by the interpreter is no measure for others
            if side.status != "ran" or reference.status != "ran" or pair[1] in wrong:
                continue
            found = mismatch(mine, side.results, None if pair[1] == "interpreter" else reference.results)
            status = "agrees"
            if found:
                wrong.add(pair[0])
                findings.append(self._finding(number, pair, found.message))
                status = findings[-1].status
            self.counts[f"{pair[0]} against {pair[1]}: {status}"] += 1
        return findings

    def _failure(self, number: int, name: str, outcome: Outcome) -> Finding:
        """A side has no results: with a smaller program, if it is ours and died."""

        def dies(module: Module, arguments: Sequence[np.ndarray]) -> str:
            return DISAGREES if self.sides[name].run(_source(module, arguments)).status == "crashed" else ""

        smaller = outcome.status == "crashed" and name != "jaxlib"
        program = listing(*self._smaller(number, dies)) if smaller else ""
        return Finding(number, name, outcome.status, outcome.message, program)

    def _finding(self, number: int, pair: tuple[str, str], message: str) -> Finding:
        def verdict(module: Module, arguments: Sequence[np.ndarray]) -> str:
            found = self._mismatch(pair, module, arguments)
            return "" if found is None else cause_of(pair, module, arguments, found) or DISAGREES

        module, arguments = self._smaller(number, verdict)
        found = self._mismatch(pair, module, arguments)
        cause = "" if found is None else cause_of(pair, module, arguments, found)
        status = f"explained ({cause})" if cause else DISAGREES
        return Finding(number, " ".join(pair), status, found.message if found else message, listing(module, arguments))

    def _smaller(self, number: int, verdict: Verdict) -> Small:
        module, arguments = Source(self.seed, number).load()
        try:
            return reduced(module, arguments, verdict)
        except XloomError:  # the interpreter cannot say what its parts are
            return module, list(arguments)

    def _mismatch(self, pair: tuple[str, str], module: Module, arguments: Sequence[np.ndarray]) -> Mismatch | None:
        """What is wrong on one side of a part of a program; nothing, if either does not run it."""
        source = _source(module, arguments)
        got = self.sides[pair[0]].run(source)
        if got.status != "ran":
            return None
        try:
            mine = bounds(module, arguments)
        except XloomError:
            return None
        if pair[1] == "interpreter":
            return mismatch(mine, got.results, None)
        reference = self.sides[pair[1]].run(source)
        return mismatch(mine, got.results, reference.results) if reference.status == "ran" else None

    def stop(self) -> None:
        """Ends the children."""
        for side in self.sides.values():
            side.stop()


def _source(module: Module, arguments: Sequence[np.ndarray]) -> Source:
    return Source(proto=module.to_proto(), arguments=tuple(arguments))


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
    parser.add_argument(
        "--judge", choices=("cpu", "emulator", "interpreter"), default="cpu", help="the side that is judged"
    )
    parser.add_argument("--against", choices=("jaxlib", "interpreter", "both"), default="both")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--json", help="file for every finding")
    parser.add_argument("--show", type=int, default=10, help="how many findings to print with their programs")
    options = parser.parse_args()
    findings: list[Finding] = []
    shown: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(options.seed, options.judge, options.against, options.timeout, Path(folder))
        with suppress(KeyboardInterrupt):  # what was found until then is still reported
            for number in range(options.first, options.first + options.count):
                for finding in judge.judge(number):
                    findings.append(finding)
                    kind = f"{finding.pair} {finding.status}"
                    shown[kind] += 1
                    if shown[kind] <= options.show:
                        print(f"{options.seed}:{number} {kind}: {finding.message}", flush=True)
                        print(finding.program, flush=True)
        judge.stop()
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(f) for f in findings], indent=1))
    for kind, count in sorted(judge.counts.items()):
        print(f"  {count:7d} {kind}")
    share = 100 * judge.loose / max(1, judge.elements)
    print(f"differential: {judge.judged} programs; of {judge.elements} elements {share:.2f} % bound looser than 1 %")
    sys.exit(1 if any(_fails(f) for f in findings) else 0)


if __name__ == "__main__":
    main()
