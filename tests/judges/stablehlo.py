"""StableHLO's own golden programs, on the interpreter.

    python -m tests.judges.stablehlo --from <checkout of openxla/stablehlo> [--suite testdata] [--json out.json]

A program's checks become custom calls, which the interpreter runs like any other: each compares two values. A check
that fails by less than --relax counts as relaxed, since the golden values came from other back ends.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing as mp
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import xloom as xl

SUITES = {
    "testdata": ["testdata"],
    "interpret": ["tests/interpret", "tests/interpret/chlo"],
    "math": ["tests/math"],
    "quantized": ["testdata/quantized"],
}
_CHECK = re.compile(r"\bcheck\.expect_(\w+)\s+(%[\w#.]+)\s*,\s*")
# the generic form of the same
_GENERIC = re.compile(r'"check\.expect_(\w+)"\((%[\w#.]+)(?:, (%[\w#.]+))?\) <\{')
_OPTION = re.compile(r"\s*,\s*(tolerance|max_ulp_difference|min_ulp_difference)\s*=\s*([-+.\deE]+)(?:\s*:\s*f64)?")
_FUNCTION = re.compile(r"func\.func\s+(?:public\s+)?@(\w+)\(\)")
_TARGET = re.compile(r"@check\.(expect_eq|expect_almost_eq|expect_close|eq)\b")
_DEFAULTS = {"eq": 0.0, "almost_eq": 1e-3, "close": 3.0}


def programs(checkout: Path, suite: str) -> Iterator[tuple[str, str]]:
    """A name and MLIR text for each test function, its checks as custom calls."""
    for folder in SUITES[suite]:
        for path in sorted((checkout / "stablehlo" / folder).glob("*.mlir")):
            for k, chunk in enumerate(re.split(r"^// -----.*$", path.read_text(), flags=re.M)):
                body = "\n".join(line for line in chunk.splitlines() if not line.lstrip().startswith("//"))
                # the interpreter dialect, of the reference interpreter, is not in jaxlib
                if "check." not in body or "interpreter." in body or "check.expect_serialized" in body:
                    continue
                text = _as_custom_calls(body)
                tests = [m[1] for m in _FUNCTION.finditer(text) if "@xloom.check" in _body_of(text, m.end())]
                for name in tests or ["main"]:
                    main = text if name == "main" else re.sub(rf"@{name}\(\)", "@main()", text)
                    yield f"{folder}/{path.name}#{k}:{name}", main


def _body_of(text: str, start: int) -> str:
    following = text.find("func.func", start)
    return text[start : following if following >= 0 else len(text)]


def _balanced(text: str, start: int) -> int:
    """Just past the `>` that closes the `<` at or after `start`."""
    depth, quoted = 0, False
    for k in range(text.index("<", start), len(text)):
        c = text[k]
        quoted ^= c == '"'
        if quoted:
            continue
        depth += (c == "<") - (c == ">" and text[k - 1] != "-")
        if depth == 0:
            return k + 1
    raise ValueError("unbalanced")


def _as_custom_calls(text: str) -> str:
    """The check dialect, which jaxlib does not have, and the checks that are custom calls already."""
    text = _TARGET.sub(lambda m: f"@xloom.check.{m[1].removeprefix('expect_')}.{_DEFAULTS.get(m[1][7:], 1e-3)}", text)
    text = _custom_form(text)
    out, end = [], 0
    for number, match in enumerate(_CHECK.finditer(text)):
        kind, value, at = match[1], match[2], match.end()
        setup = ""
        if kind.endswith("_const"):
            stop = _balanced(text, at)
            literal, at = text[at:stop], text.index(":", stop) + 1
            stop = _balanced(text, at)
            kind, type_ = kind.removesuffix("_const"), text[at:stop].strip()
            other = f"%check{number}"
            setup = f"{other} = stablehlo.constant {literal} : {type_}\n"
            types, options = [type_, type_], dict(_options(text, stop)[0])
            at = _options(text, stop)[1]
        else:
            other = re.compile(r"%[\w#.]+").match(text, at)[0]  # type: ignore[index]
            found, at = _options(text, at + len(other))
            options = dict(found)
            at = text.index(":", at) + 1
            types = []
            while True:
                stop = _balanced(text, at)
                types.append(text[at:stop].strip(" ,"))
                at = stop
                if not re.compile(r"\s*,\s*tensor").match(text, at):
                    break
            types = types * 2 if len(types) == 1 else types
        bound = options.get(
            "tolerance", options.get("max_ulp_difference", {"almost_eq": "1e-4", "close": "1"}.get(kind, "0"))
        )
        call = (
            f"stablehlo.custom_call @xloom.check.{kind}.{_spelled(bound)}({value}, {other}) {{has_side_effect = true}}"
        )
        out += [text[end : match.start()], setup, f"{call} : ({', '.join(types)}) -> ()"]
        end = at
    return "".join(out) + text[end:]


def _spelled(bound: str) -> str:
    # a symbol may not hold a plus
    return repr(float(bound)).replace("+", "")


def _custom_form(text: str) -> str:
    """Checks in generic form, in the form that the rest of a file has."""
    out, end = [], 0
    for match in _GENERIC.finditer(text):
        at = match.end()
        value = ""
        if found := re.compile(r"value = (?=dense)").match(text, at):
            stop = _balanced(text, found.end())
            value, at = text[found.end() : stop], _balanced(text, text.index(":", stop))
        close = text.index("}>", at)
        options = re.sub(r'"', "", text[at:close])
        types = re.compile(r"\}>\s*:\s*\((.*)\)\s*->\s*\(\)").match(text, close)
        assert types is not None
        if options and not options.lstrip().startswith(","):
            options = ", " + options
        shown = types[1]
        out += [text[end : match.start()], f"check.expect_{match[1]} {match[2]}, {value or match[3]}"]
        out.append(f" : {shown}{options}" if value else f"{options} : {shown}")
        end = types.end()
    return "".join(out) + text[end:]


def _options(text: str, at: int) -> tuple[list[tuple[str, str]], int]:
    found = []
    while match := _OPTION.match(text, at):
        found.append((match[1], match[2]))
        at = match.end()
    return found, at


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [np.real(x), np.imag(x)] if x.dtype.kind == "c" else [x]


def _ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many floats lie between a and b."""

    def ordered(x: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(object)
        return np.where(bits < 0, -(bits + (1 << (8 * x.dtype.itemsize - 1))), bits)

    return np.abs(ordered(a) - ordered(b)).astype(np.float64)


def difference(kind: str, bound: float, a: np.ndarray, b: np.ndarray, relax: float) -> str:
    """ "pass", "relaxed" or "fail"."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return "fail"
    verdict = "pass"
    for x, y in zip(_parts(a), _parts(b), strict=True):
        if x.dtype.kind in "iub" or "int" in x.dtype.name:
            if not np.array_equal(x, y):
                return "fail"
            continue
        p, q = x.astype(np.float64), y.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (p == q) | (np.isnan(p) & np.isnan(q))
            if kind == "close":
                good = same | (np.isfinite(p) & np.isfinite(q) & (_ulps(x, y) <= bound)) | (bound >= 2.0**63)
            else:
                good = same | (np.abs(p - q) <= (bound if kind == "almost_eq" else 0))
            near = good | (np.isfinite(p) & np.isfinite(q) & (np.abs(p - q) <= relax * (1 + np.abs(q))))
        if not good.all():
            verdict = "relaxed" if near.all() else "fail"
        if verdict == "fail":
            break
    return verdict


def run(text: str, relax: float) -> tuple[str, str]:
    """The verdict on one program, and a message."""
    verdicts: list[str] = []
    try:
        module = xl.from_stablehlo(text)
    except xl.XloomError as error:
        return "error", error.message
    for target in {i["custom_call_target"] for i in module.instructions if i.opcode == "custom-call"}:
        if target.startswith("xloom.check."):
            kind, _, bound = target.removeprefix("xloom.check.").partition(".")

            def check(out, actual, expected, kind=kind, bound=float(bound)):
                verdicts.append(
                    difference("almost_eq" if kind == "eq" and bound else kind, bound, actual, expected, relax)
                )

            xl.custom_call(target)(check)
    try:
        xl.evaluate(module)
    except xl.UnsupportedError as error:
        return "unsupported", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    if not verdicts:
        return "error", "no check was reached"
    return ("fail" if "fail" in verdicts else "relaxed" if "relaxed" in verdicts else "pass"), ""


def _worker(connection, relax: float) -> None:
    while (job := connection.recv()) is not None:
        connection.send(run(job, relax))


def judged(cases: list[tuple[str, str]], relax: float, timeout: float) -> dict[str, tuple[str, str]]:
    """Every case in a child process, which is replaced when a case kills or outlasts it."""
    context = mp.get_context("spawn")
    results: dict[str, tuple[str, str]] = {}
    child = None
    for name, text in cases:
        if child is None or not child[0].is_alive():
            ours, theirs = context.Pipe()
            process = context.Process(target=_worker, args=(theirs, relax), daemon=True)
            process.start()
            theirs.close()
            child = (process, ours)
        process, connection = child
        try:
            connection.send(text)
            if not connection.poll(timeout):
                process.kill()
                results[name], child = ("crash", f"no answer in {timeout:g} s"), None
                continue
            results[name] = connection.recv()
        except (EOFError, BrokenPipeError):
            results[name], child = ("crash", "the process died"), None
    if child is not None:
        child[1].send(None)
    return results


def main() -> None:
    """Prints the cases that did not pass, and one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True)
    parser.add_argument("--suite", choices=SUITES, default="testdata")
    parser.add_argument("--json")
    parser.add_argument("--relax", type=float, default=1e-3)
    parser.add_argument("--timeout", type=float, default=60)
    arguments = parser.parse_args()
    cases = list(programs(Path(arguments.checkout), arguments.suite))
    results = judged(cases, arguments.relax, arguments.timeout)
    counts = collections.Counter(verdict for verdict, _ in results.values())
    for name, (verdict, message) in results.items():
        if verdict not in ("pass", "relaxed"):
            print(f"{verdict} {name}: {message[:150]}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1))
    kinds = ("pass", "relaxed", "fail", "unsupported", "error", "crash")
    print(f"stablehlo {arguments.suite}: {len(results)} cases: " + ", ".join(f"{counts[k]} {k}" for k in kinds))


if __name__ == "__main__":
    main()
