"""torch's distributed tests on the device `xla` and on the CPU, whose group is Gloo's: the same sample of each suite.

    python -m tests.judges.torch_distributed [--from <suites adapted to a device>] [--xla <pytorch/xla's test folder>]

A test counts when it passes with Gloo and applies here; it passes if it does in all of its processes, each of which has
a device. torch_distributed_child.py runs them, by two processes where torch's classes ask for as many as there are
devices. Suites are test/distributed of a vendor's, torch's own `distributed_test` out of the wheel (torch_distributed_wheel.py), and
pytorch/xla's torch_distributed. Verdicts are kept in the folder `--out`, from which a later call goes on.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from tests.judges.suite_runner import Child, Runner, concluded, python
from tests.judges.torch_sources import prepare
from tests.judges.torch_suites import compare, line

CHILD = Path(__file__).with_name("torch_distributed_child.py")
SUITES = {
    "DTensor": [
        *(f"_tensor/test_{name}" for name in ("api", "basic_strategy", "common_rules", "dtensor", "dtensor_compile")),
        *(f"_tensor/test_{name}" for name in ("embedding_ops", "init", "math_ops", "matrix_ops", "pointwise_ops")),
        *(f"_tensor/test_{name}" for name in ("random_ops", "redistribute", "tensor_ops", "view_ops")),
        *(f"tensor/test_{name}" for name in ("dtensor_ops", "math_ops", "matrix_ops", "sharded_optim")),
        *(f"tensor/parallel/test_{name}" for name in ("parallelize_api", "tp_examples", "tp_style")),
        *("test_device_mesh", "test_register_sharding"),
    ],
    "FSDP2": [
        *(f"fsdp2/test_fully_shard_{name}" for name in ("autograd", "clip_grad_norm_", "comm", "extensions")),
        *(f"fsdp2/test_fully_shard_{name}" for name in ("frozen", "state", "state_dict")),
        "_composable/fsdp/test_fully_shard_training",
        *(f"checkpoint/test_{name}" for name in ("checkpoint", "fsdp_model_state", "fsdp_optim_state")),
    ],
    "functional": ["test_c10d_functional_native", "test_inductor_collectives"],
    "collectives": ["torch_distributed_wheel"],
    "pytorch_xla": [
        *(f"test_torch_distributed_{name}_xla_backend" for name in ("all_gather", "all_reduce", "reduce_scatter")),
        *(f"test_torch_distributed_{name}_all_reduce_xla_backend" for name in ("bucketed", "multi")),
        "test_ddp",
    ],
}
"""Files by what they are about. Those of the last are pytorch/xla's, and have no reference."""
SOURCES = {"vendor": ["DTensor", "FSDP2", "functional"], "wheel": ["collectives"], "alone": ["pytorch_xla"]}
"""Suites that one process runs: it imports torch and all files once."""


_ALONE = {"OMP_NUM_THREADS": "1", "XLOOM_NUM_THREADS": "1"}
"""Ranks share the processors: threads of theirs would wait for each other."""


def one_device_a_process(folder: Path, side: str) -> None:
    """Devices without a number, and that side's group, in a vendor's sources that are those of a side."""
    group = "cpu:gloo,xla:xla" if side == "xla" else "gloo"
    for path in (folder / side).rglob("*.py"):
        text = re.sub(rf"(\b{side}):\{{[^{{}}]*\}}", r"\1", path.read_text())
        text = re.sub(r"device_ids=\[self\.rank\]", "device_ids=None", text)
        path.write_text(re.sub(r"(['\"])hccl\1", rf"\g<1>{group}\1", text))


def child(sources: Path, xla: Path | None, seconds: float, source: str, side: str, ids: str, kept: Path) -> Child:
    """A process that runs a source's tests on a side."""
    folder = sources / side
    if source == "wheel":
        folder = CHILD.parent
    elif source == "alone" and xla:
        folder = xla / "torch_distributed"
    files = ",".join(str(folder / f"{file}.py") for suite in SOURCES[source] for file in SUITES[suite])
    return Child(python(CHILD, files, ids, str(kept), side, str(seconds)), folder, _ALONE)


def of_suite(suite: str, ids: Iterable[str]) -> list[str]:
    """The tests of a suite's files."""
    return [name for name in ids if name.partition("::")[0] in SUITES[suite]]


def evenly(ids: Sequence[str], count: int) -> list[str]:
    """So many of them, evenly spaced; all with 0."""
    return [ids[k * len(ids) // count] for k in range(count)] if 0 < count < len(ids) else list(ids)


def main() -> int:
    """Judges, and prints a line a suite; 1 if any test crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", type=Path, help="suites adapted to a device, a vendor's checkout")
    parser.add_argument("--xla", type=Path, help="pytorch/xla's folder test")
    parser.add_argument("--sources", help=f"of {', '.join(SOURCES)}, separated by commas")
    parser.add_argument("--sample", type=int, default=75, help="how many tests of a suite; 0 for all")
    parser.add_argument("--timeout", type=float, default=100, help="seconds that a test may take")
    parser.add_argument("--out", default=Path("torch_distributed"), type=Path, help="folder for verdicts")
    parser.add_argument("--json", type=Path, help="file for the counts of each suite")
    options = parser.parse_args()
    sources = options.out.resolve() / "sources"
    for side in ("cpu", "xla") if options.checkout else ():
        if not (sources / side).exists():
            prepare(options.checkout / "test" / "distributed", sources, side)
            one_device_a_process(sources, side)
    xla = options.xla and options.xla.resolve()
    runner = Runner(partial(child, sources, xla, options.timeout), options.out, options.timeout + 300)
    table: dict[str, Counter[str]] = {}
    has = {"vendor": options.checkout, "wheel": True, "alone": xla}
    default = [source for source in SOURCES if has[source]]
    for source in options.sources.split(",") if options.sources else default:
        known = runner.sample(source, 0, "xla")
        chosen = {suite: evenly(of_suite(suite, known), options.sample) for suite in SOURCES[source]}
        ids = [name for names in chosen.values() for name in names]
        theirs = (
            {name: {"verdict": "pass"} for name in ids} if source == "alone" else runner.verdicts(source, "cpu", ids)
        )
        ours = runner.verdicts(source, "xla", [name for name in ids if theirs[name]["verdict"] == "pass"])
        for suite, names in chosen.items():
            table[suite] = compare(suite, ours, {name: theirs[name] for name in names})
    return concluded(table, line, options.json)


if __name__ == "__main__":
    sys.exit(main())
