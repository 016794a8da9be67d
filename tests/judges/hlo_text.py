"""XLA's own test modules: our text and proto against jaxlib's, byte for byte.

python -m tests.judges.hlo_text --from <checkout of openxla/xla> [--json out.json] [--show 5]
"""

from __future__ import annotations

import argparse
import collections
import difflib
import json
import subprocess
import sys
from pathlib import Path

import xloom as xl
from tests.judges.hlo_modules import extract
from xloom.hlo.text.printer import PrintOptions

# jaxlib aborts on some texts, so it runs in a child that is restarted after the one that killed it
_CHILD = """
import json, math, re, sys
from jaxlib import _hlo
CONSTANT = re.compile(r"\\[([0-9,]+)\\]\\S* constant\\(")
def big(text):  # protos of gigabytes
    return any(math.prod(map(int, c.split(","))) > 1_000_000 for c in CONSTANT.findall(text))
for line in sys.stdin:
    name, text = json.loads(line)
    try:
        m = _hlo.hlo_module_from_text(text)
        shapes = _hlo.HloPrintOptions()
        shapes.print_operand_shape = True
        text = m.to_string()
        if big(text):
            print(json.dumps([name, {"text": text, "shapes": m.to_string(shapes)}]), flush=True)
            continue
        data = m.as_serialized_hlo_module_proto()
        again = _hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()
        r = {"text": text, "shapes": m.to_string(shapes), "proto": data.hex(), "again": again}
    except Exception as error:
        r = {"error": str(error)[:200]}
    print(json.dumps([name, r]), flush=True)
"""
_READ = """
import json, sys
from jaxlib import _hlo
for line in sys.stdin:
    name, data = json.loads(line)
    try:
        r = _hlo.HloModule.from_serialized_hlo_module_proto(bytes.fromhex(data)).to_string()
    except Exception as error:
        r = "error: " + str(error)[:200]
    print(json.dumps([name, r]), flush=True)
"""


def in_child(program: str, cases: list[tuple[str, str]]) -> dict[str, object]:
    """jaxlib's answer for each case; "crash" for those that it does not survive."""
    results: dict[str, object] = {}
    todo = list(cases)
    while todo:
        text = "\n".join(json.dumps(case) for case in todo) + "\n"
        done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            name, result = json.loads(line)
            results[name] = result
        rest = [case for case in todo if case[0] not in results]
        if rest:
            results[rest[0][0]] = "crash"
            rest = rest[1:]
        todo = rest
    return results


def main() -> None:
    """Prints one line: how many of the modules that jaxlib parses come out the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True)
    parser.add_argument("--json", help="file for the verdict of each module")
    parser.add_argument("--show", type=int, default=5, help="how many differences of a kind to print")
    arguments = parser.parse_args()
    cases = [(n, t) for n, t in extract(Path(arguments.checkout)) if len(t) < 1_000_000]
    oracle = in_child(_CHILD, cases)
    counts: collections.Counter[str] = collections.Counter()
    verdicts: dict[str, list[str]] = {}
    encoded: list[tuple[str, str]] = []
    shown: collections.Counter[str] = collections.Counter()

    def judge(name: str, kind: str, ours: str, theirs: str) -> None:
        if ours == theirs:
            counts[kind] += 1
            return
        verdicts.setdefault(name, []).append(kind)
        shown[kind] += 1
        if shown[kind] <= arguments.show:
            diff = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "jaxlib", "xloom", n=0, lineterm="")
            print(f"--- {kind} {name}\n" + "\n".join(line[:200] for line in list(diff)[:8]))

    for name, text in cases:
        answer = oracle[name]
        if not isinstance(answer, dict) or "error" in answer:
            counts["jaxlib crashes" if answer == "crash" else "jaxlib rejects"] += 1
            continue
        counts["parsed by jaxlib"] += 1
        try:
            module = xl.parse(text)
            judge(name, "text", module.to_text(), answer["text"])
            judge(name, "operand shapes", module.to_text(print_operand_shape=True), answer["shapes"])
            if all(i.shape.size < 100_000 for i in module.instructions if i.opcode == "constant"):
                short = module.to_text(**vars(PrintOptions.short_parsable()))
                judge(name, "reparse", xl.parse(short).to_text(print_metadata=False), module_again(module))
            else:
                counts["reparse"] += 1  # gigabytes of digits, when written out
            if "proto" not in answer:
                counts["too big for proto"] += 1
                continue
            judge(name, "decode", xl.from_proto(bytes.fromhex(answer["proto"])).to_text(), answer["again"])
            encoded.append((name, module.to_proto().hex()))
        except xl.XloomError as error:
            counts["rejected"] += 1
            verdicts.setdefault(name, []).append(str(error))
            print(f"--- rejected {name}: {error}")
    read = in_child(_READ, encoded)
    for name, _ in encoded:
        judge(name, "encode", str(read[name]), oracle[name]["again"])  # type: ignore[index]
    total = counts["parsed by jaxlib"]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(verdicts, indent=1))
    kinds = ("text", "operand shapes", "reparse", "decode", "encode")
    scores = ", ".join(f"{k} {counts[k]} ({counts[k] / max(1, total):.2%})" for k in kinds)
    rest = ", ".join(f"{counts[k]} {k}" for k in ("rejected", "too big for proto", "jaxlib crashes"))
    print(f"hlo-text: {total} modules that jaxlib parses: {scores}; {rest}")


def module_again(module: xl.Module) -> str:
    """What a reparse of the short form must print: everything but metadata and control dependencies."""
    return module.to_text(print_metadata=False, print_control_dependencies=False)


if __name__ == "__main__":
    main()
