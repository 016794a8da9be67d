"""torch's own suites on the device `xla` and on the CPU, the same sample of each file.

    python -m tests.judges.torch_suites --from <folder of suites adapted to a device> [--sample 60] [--seed 0] [--files test_torch,...]

A test counts when it passes on the CPU and applies here: torch_applies.py has the reasons why one does not. With --alone
these are the tests of pytorch/xla, which compare with the CPU by themselves and ask for `torch_xla`. With --default-device tests make their tensors on the device where they name none.
Verdicts are kept in the folder `--out`, from which a later call goes on where an earlier one has stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from tests.judges.suite_runner import Child, Runner, Verdicts, concluded, first_line, python
from tests.judges.torch_applies import inapplicable
from tests.judges.torch_sources import prepare

CHILD = Path(__file__).with_name("torch_child.py")
FILES = [
    "test_torch",
    "test_indexing",
    "test_view_ops",
    "test_shape_ops",
    "test_sort_and_select",
    "test_reductions",
    "test_binary_ufuncs",
    "test_unary_ufuncs",
    "test_type_promotion",
    "test_tensor_creation_ops",
    "test_modules",
    "test_nn",
    "test_autograd",
    "optim/test_optim",
    "optim/test_lrscheduler",
    "optim/test_swa_utils",
    "nn/test_convolution",
    "nn/test_dropout",
    "nn/test_embedding",
    "nn/test_init",
    "nn/test_lazy_modules",
    "nn/test_module_hooks",
    "nn/test_multihead_attention",
    "nn/test_packed_sequence",
    "nn/test_parametrization",
    "nn/test_pooling",
    "nn/test_pruning",
    "autograd/test_complex",
    "autograd/test_functional",
]
ALONE = [
    "test_operations",
    "test_ops",
    "test_core_aten_ops",
    "test_metrics",
    "test_input_output_aliases",
    "test_inplace_update",
    "test_autocast",
    "test_autocast_xla",
    "test_async_closures",
    "test_data_type",
    "test_devices",
    "test_grad_checkpoint",
    "test_gru",
    "test_mat_mul_precision",
    "test_ops_error_message",
    "test_python_ops",
    "test_as_stride_use_slice",
    "test_syncfree_optimizers",
    "test_xla_graph_execution",
    "test_while_loop",
    "test_utils",
]
"""Of pytorch/xla's tests those that speak of one device and of no accelerator."""

REGISTRIES = "torch_registries"
"""Our own suite, over torch's registries of modules and optimisers."""


def torch_child(folder: Path, by_default: bool, file: str, side: str, ids: str, kept: Path) -> Child:
    """A process that runs a file's tests on a side."""
    suite = CHILD.with_name(f"{REGISTRIES}.py") if file == REGISTRIES else folder / side / f"{file}.py"
    arguments = [str(suite), ids, str(kept), side, *(["default"] if by_default else [])]
    return Child(python(CHILD, *arguments), folder / side)


def compare(file: str, ours: Verdicts, theirs: Verdicts) -> Counter[str]:
    """Counts of one file; prints what passes on the CPU and not here, and why others do not apply."""
    counts: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for name, reference in theirs.items():
        if reference["verdict"] != "pass":
            counts["not on the CPU"] += 1
            continue
        mine = ours[name]
        reason = inapplicable(name, mine)
        if reason:
            apart[reason] += 1
            continue
        counts["reference"] += 1
        counts[mine["verdict"]] += 1
        if mine["verdict"] != "pass":
            print(f"  {mine['verdict']} {name.partition('::')[2]}: {first_line(mine['message'])}")
    for reason, count in apart.most_common():
        print(f"  {count} do not apply: {reason}")
    counts["apart"] = apart.total()
    print(f"{file}: {line(counts)}", flush=True)
    return counts


def line(counts: Counter[str]) -> str:
    asked = counts["reference"]
    rate = f" ({100 * counts['pass'] / asked:.1f} %)" if asked else ""
    outside = f"{counts['apart']} do not apply, {counts['not on the CPU']} do not pass on the CPU"
    return f"{counts['pass']} of {asked}{rate}, {counts['crash']} crashes; {outside}"


def main() -> int:
    """Judges, and prints a line a file; 1 if any test crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True, type=Path)
    parser.add_argument("--alone", action="store_true", help="tests of pytorch/xla, which need no reference")
    parser.add_argument("--default-device", action="store_true", help="tensors are made on it where none is named")
    parser.add_argument("--files", help="names of files, separated by commas")
    parser.add_argument("--sample", type=int, default=60, help="how many tests of a file; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="another takes other tests")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a test may take")
    parser.add_argument("--out", default=Path("torch_suites"), type=Path, help="folder for verdicts")
    parser.add_argument("--json", type=Path, help="file for the counts of each file")
    options = parser.parse_args()
    sources = options.out.resolve() / "sources"
    for side in ("cpu", "xla"):
        prepare(options.checkout, sources, side)
    out = options.out / "default_device" if options.default_device else options.out
    runner = Runner(partial(torch_child, sources, options.default_device), out, options.timeout)
    table: dict[str, Counter[str]] = {}
    default = ALONE if options.alone else [REGISTRIES, *FILES]
    for file in options.files.split(",") if options.files else default:
        ids = runner.sample(file, options.sample, "xla", options.seed)
        theirs = {name: {"verdict": "pass"} for name in ids} if options.alone else runner.verdicts(file, "cpu", ids)
        wanted = [name for name in ids if theirs[name]["verdict"] == "pass"]
        ours = runner.verdicts(file, "xla", wanted)
        table[file] = compare(file, ours, theirs)
    return concluded(table, line, options.json)


if __name__ == "__main__":
    sys.exit(main())
