"""JAX's own tests on xloom and on jaxlib's CPU, the same sample of each file.

    python -m tests.judges.jax_tests --from <checkout of jax-ml/jax at jax-v0.10.2> [--sample 25] [--seed 0] [--files ...]

With `--as-cpu` xloom takes the place of JAX's CPU, in place of a platform of its own. `--files all` are all that there are.
Verdicts are kept in the folder `--out`, from which a later call goes on where an earlier one has stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from tests.judges.suite_runner import Child, Runner, Verdicts, concluded, first_line, python

CHILD = Path(__file__).with_name("jax_child.py")
FILES = [
    "lax_test",
    "lax_numpy_test",
    "lax_numpy_operators_test",
    "lax_numpy_reducers_test",
    "lax_control_flow_test",
    "linalg_test",
    "fft_test",
    "lax_scipy_test",
    "sparse_test",
    "random_test",
    "api_test",
    "aot_test",
    "compilation_cache_test",
    "ffi_test",
    "python_callback_test",
    "debugging_primitives_test",
    "checkify_test",
    "jaxpr_effects_test",
    "array_test",
    "array_interoperability_test",
    "layout_test",
    "memories_test",
    "multi_device_test",
    "pmap_test",
    "pjit_test",
    "shard_map_test",
    "ode_test",
]


XLOOM = {"JAX_PLATFORMS": "xloom,cpu"}
AS_CPU = {"JAX_PLATFORMS": "cpu", "XLOOM_AS_CPU": "1"}


def jax_child(checkout: Path, dut: str, platforms: dict[str, str], file: str, side: str, ids: str, kept: Path) -> Child:
    """A process that runs tests of the checkout on one side: `cpu`, or xloom."""
    arguments = [f"tests/{file}.py", ids, str(kept), "" if side == "cpu" else dut]
    environment = {"JAX_PLATFORMS": "cpu"} if side == "cpu" else platforms
    return Child(python(CHILD, *arguments), checkout, {**environment, "JAX_SKIP_SLOW_TESTS": "0"})


def all_files(checkout: Path) -> list[str]:
    """Those of the folder of tests itself: others are about Pallas, or several processes."""
    return sorted(path.stem for path in (checkout / "tests").glob("*_test.py"))


def compare(file: str, ours: Verdicts, theirs: Verdicts) -> Counter[str]:
    """Counts of one file; prints what passes on XLA:CPU and not here."""
    counts: Counter[str] = Counter()
    for name, reference in theirs.items():
        mine, is_asked = ours[name], reference["verdict"] == "pass"
        counts["reference"] += is_asked
        if is_asked or mine["verdict"] == "crash":
            counts[mine["verdict"]] += 1
            if mine["verdict"] in ("fail", "crash"):
                print(f"  {mine['verdict']} {name.partition('::')[2]}: {first_line(mine['message'])}")
    print(f"{file}: {_line(counts)}", flush=True)
    return counts


def _line(counts: Counter[str]) -> str:
    # a test that the platform's name leaves out is nobody's success
    asked = counts["reference"] - counts["skip"] - counts["absent"]
    rate = f" ({100 * counts['pass'] / asked:.1f} %)" if asked else ""
    skipped = counts["skip"] + counts["absent"]
    return f"{counts['pass']} of {asked}{rate} that pass on XLA:CPU, {counts['crash']} crashes, {skipped} skipped"


def main() -> int:
    """Judges, and prints a line a file; 1 if any test crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True, type=Path)
    parser.add_argument("--files", default=",".join(FILES), help="names of files, separated by commas; or all")
    parser.add_argument("--sample", type=int, default=25, help="how many tests of a file; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="chooses another sample")
    parser.add_argument(
        "--dut", default="cpu", help="what tests take xloom for: cpu, or xloom, for which they skip more"
    )
    parser.add_argument("--as-cpu", action="store_true", help="xloom is JAX's platform `cpu`")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a test may take")
    parser.add_argument("--out", default=Path("jax_tests"), type=Path, help="folder for verdicts")
    parser.add_argument("--json", type=Path, help="file for the counts of each file")
    options = parser.parse_args()
    platforms = AS_CPU if options.as_cpu else XLOOM
    runner = Runner(partial(jax_child, options.checkout, options.dut, platforms), options.out, options.timeout)
    xloom = "xloom-in-place-of-cpu" if options.as_cpu else f"xloom-as-{options.dut}"
    table: dict[str, Counter[str]] = {}
    for file in all_files(options.checkout) if options.files == "all" else options.files.split(","):
        ids = runner.sample(file, options.sample, "cpu", options.seed)
        theirs = runner.verdicts(file, "cpu", ids)
        table[file] = compare(file, runner.verdicts(file, xloom, ids), theirs)
    return concluded(table, _line, options.json)


if __name__ == "__main__":
    sys.exit(main())
