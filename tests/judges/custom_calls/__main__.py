"""Custom calls, measured: `make judge-custom-calls`. Prints Markdown: what runs, what it costs, what outlining undoes."""

from __future__ import annotations

import argparse
import importlib.util
import os
import warnings
from collections import Counter

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> int:
    """Prints each table; 1 when something does not run, is too slow, or is not what it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="of measuring, for each of the two kinds of program")
    parser.add_argument("--programs", type=int, default=2500, help="generated ones that are outlined and expanded")
    options = parser.parse_args()
    good = [_table(), _faults(), _overhead(options.seconds), _generated(options.programs), _models()]
    return 0 if all(good) else 1


_WHERE = ("in this process", "in a child")


def _row(*cells: object) -> None:
    print("|", " | ".join(str(cell).replace("\n", " ").replace("|", "/") for cell in cells), "|", flush=True)


def _head(title: str, *columns: str) -> None:
    print(f"\n## {title}\n")
    _row(*columns)
    _row(*["---"] * len(columns))


def _table() -> bool:
    from tests.judges.custom_calls.kernels import KINDS
    from tests.judges.custom_calls.sources import NOT_THERE
    from tests.judges.custom_calls.table import rows

    _head("ABI x source", "ABI", "source", *KINDS)
    seen: Counter[str] = Counter()
    for abi, source, cells in rows():
        _row(abi, source, *cells)
        seen.update(cells)
    known = ("runs", NOT_THERE, "compiles, called", "compiles, no driver")
    wrong = sum(seen.values()) - sum(seen[k] for k in known)
    print(f"\n{seen['runs']} run, {seen[NOT_THERE]} are not in the ABI, {wrong} are wrong", end="")
    print(f"; CUDA: {seen[known[2]]} called, {seen[known[3]]} compiled and registered, but there is no driver.")
    return not wrong


def _faults() -> bool:
    from tests.judges.custom_calls.faults import planted

    caught: dict[str, Counter[str]] = {}
    for name, engine, isolate, seen in planted():
        counts = caught.setdefault(name, Counter())
        where = "in a child" if isolate else "in this process"
        counts[f"{where}, of"] += 1
        counts[where] += seen
        if not seen:
            print(f"not caught: {name}, {engine.__name__}, {where}")
    _head("Sanitizer: caught of planted", "fault", "in this process", "in a child")
    for name, counts in caught.items():
        cells = [f"{counts[w]} of {counts[f'{w}, of']}" if counts[f"{w}, of"] else "" for w in _WHERE]
        _row(name, *cells)
    seen, all_ = (sum(c[f"{w}{of}"] for c in caught.values() for w in _WHERE) for of in ("", ", of"))
    print(f"\n{seen} of {all_} are caught and named: by native code, the interpreter and the simulator.")
    return seen == all_


def _overhead(seconds: float) -> bool:
    from tests.judges.custom_calls.overhead import measured, targets

    found = measured(seconds)
    reached = targets(found)
    _head("Cost in microseconds", "call", "program with one", "each in a loop", "on target")
    for name, (once, each) in found.items():
        _row(name, f"{once:.2f}", f"{each:.3f}", "" if name not in reached else "yes" if all(reached[name]) else "no")
    return all(map(all, reached.values()))


def _generated(programs: int) -> bool:
    from tests.passes.pattern.generated import outline_and_expand

    seen: Counter[str] = Counter()
    seed = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that are not finite are compared too
        while seen["programs"] < programs:
            outcome = outline_and_expand(seed, values=True)
            if outcome is not None:
                seen.update(programs=1, outlined=outcome.found > 0, matches=outcome.found, wrong=bool(outcome.wrong))
                if outcome.wrong:
                    print(f"program {seed}: {outcome.wrong}")
            seed += 1
    print("\n## Outlined and expanded\n")
    print(
        f"{seen['programs']} generated programs: {seen['matches']} matches in {seen['outlined']} of them outlined;",
        end="",
    )
    print(f" {seen['wrong']} were another after they were expanded, or had other values.")
    return not seen["wrong"]


def _models() -> bool:
    from tests.passes.pattern.framework_models import MODELS, NEEDS
    from tests.passes.pattern.roundtrip import library_outlined

    _head("Models", "model", "instructions", "outlined", "expanded, it is")
    good = True
    for name, model in MODELS.items():
        if not all(map(importlib.util.find_spec, NEEDS[name.partition("_")[0]])):
            continue
        module = model()
        outcome = library_outlined(module, "call-inlining,dce", values=True)
        found = ", ".join(f"{count} {pattern}" for pattern, count in outcome.found.items()) or "nothing"
        _row(name, sum(map(len, module.computations)), found, outcome.wrong or "the same, with the same values")
        good = good and not outcome.wrong
    return good


if __name__ == "__main__":
    raise SystemExit(main())
