"""Is code that is shared or kept what would be made anew? Programs are compiled, and found again, with the check of it.

python -m tests.judges.shared_code [--from <checkout of openxla/stablehlo>] [--count 400] [--seed 0] [--filter REGEX]

They are the benchmarks, HLO files of the tests and examples, StableHLO's testdata, and random ones of the differential
judge. All have one cache, so that kernels of many sizes meet many.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import xloom as xl
from tests.judges.child import Case, Skipped, report, run_cases
from tests.judges.programs import generate
from tests.judges.stablehlo_cases import programs
from xloom.compilation_cache import cache
from xloom.cpu import kept_programs
from xloom.cpu.kernel_modules import shape_generic
from xloom.errors import UnregisteredCallError
from xloom.hlo.module import Module
from xloom.llvm import jit, shared_code

_ROOT = Path(__file__).parents[2]
_COUNTS = "XLOOM_JUDGE_COUNTS"

Item = tuple[str, str]
"""Where a program is from, and which."""


def cases(item: Item) -> Iterator[Case]:
    """The programs of an item."""
    origin, name = item
    for title, load in SOURCES[origin](name):
        yield f"{origin} {title}", lambda load=load: judge(load)


def judge(load: Callable[[], Module]) -> str:
    """Compiles a program, and again from what the first time has left on the disk. The check raises."""
    module = load()
    try:
        xl.compile(module)
    except UnregisteredCallError as error:
        raise Skipped(str(error)) from None
    cache.flush()
    for kept in (jit.object_cache, shape_generic.kept, kept_programs.linked):
        kept.clear()
    xl.compile(module)
    counts = Path(os.environ[_COUNTS]) / f"{os.getpid()}.json"
    counts.write_text(json.dumps(shared_code.compared))
    return ""


def _benchmark(name: str) -> Iterator[tuple[str, Callable[[], Module]]]:
    from benchmarks.programs import PROGRAMS

    yield name, lambda: xl.from_stablehlo(PROGRAMS[name].lower().as_text(), name)


def _hlo(path: str) -> Iterator[tuple[str, Callable[[], Module]]]:
    for number, part in enumerate(Path(path).read_text().split("// ---- expect")):
        yield f"{Path(path).name} {number}", lambda text=part: _parsed(text)


def _parsed(text: str) -> Module:
    try:
        module = xl.parse(text)
        xl.verify(module)
    except xl.XloomError as error:
        raise Skipped(str(error)) from None
    return module


def _stablehlo(path: str) -> Iterator[tuple[str, Callable[[], Module]]]:
    for program in programs(Path(path).read_text(), Path(path).name):
        yield program.name, lambda p=program: _imported(p.module, p.name, p.problem or p.grid)


def _imported(text: str, name: str, problem: object) -> Module:
    if problem:
        raise Skipped(str(problem))
    return xl.from_stablehlo(text, name)


def _random(name: str) -> Iterator[tuple[str, Callable[[], Module]]]:
    seed, number = map(int, name.split(":"))
    yield name, lambda: generate(seed, number).module


SOURCES = {"benchmark": _benchmark, "hlo": _hlo, "stablehlo": _stablehlo, "random": _random}


def _items(checkout: str, seed: int, count: int) -> Iterator[Item]:
    from benchmarks.programs import PROGRAMS

    yield from (("benchmark", name) for name in PROGRAMS)
    for folder in ("examples", "tests"):
        yield from (("hlo", str(path)) for path in sorted((_ROOT / folder).rglob("*.hlo")))
    if checkout:
        folder = Path(checkout) / "stablehlo" / "testdata"
        yield from (("stablehlo", str(path)) for path in sorted(folder.glob("*.mlir")))
    yield from (("random", f"{seed}:{number}") for number in range(count))


def main() -> None:
    """Prints what differs, how often what was compared, and one line of counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", default="")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--filter", default="", help="a regular expression: only items whose names hold it")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one case")
    parser.add_argument("--json", help="file for the verdict of each case")
    parser.add_argument("--show", type=int, default=20, help="how many failures to print")
    options = parser.parse_args()
    items = [i for i in _items(options.checkout, options.seed, options.count) if re.search(options.filter, " ".join(i))]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({"XLOOM_CHECK": "kernels", "XLOOM_CACHE_DIR": f"{folder}/cache", _COUNTS: folder})
        verdicts = list(run_cases("tests.judges.shared_code:cases", items, options.timeout))
        compared: Counter[str] = Counter()
        for path in Path(folder).glob("*.json"):
            compared.update(json.loads(path.read_text()))
    for kind, number in sorted(compared.items()):
        print(f"  {number:7d} {kind} compared")
    report("shared code", verdicts, options.json, options.show)


if __name__ == "__main__":
    main()
