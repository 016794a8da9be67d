"""The judge of torch's own suites, on a small suite of the kind: what counts, what does not apply, what crashes."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("expecttest")

from tests.judges.torch_applies import inapplicable
from tests.judges.torch_sources import rewritten

SUITE = """
    import os
    import torch
    import torch_npu
    from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCPU
    from torch_npu.testing.testcase import TestCase

    class TestSmall(TestCase):
        @dtypes(torch.float32)
        def test_sum(self, device, dtype):
            self.assertEqual(torch.ones(3, dtype=dtype, device=device).sum().item(), 3)

        def test_type(self, device):
            self.assertEqual(torch.ones(2, 3, device=device).device.type, "cpu")

        def test_host(self, device):
            self.assertEqual(torch.ones(3).sum(), 3)

        @onlyCPU
        def test_cpu(self, device):
            pass

        def test_end(self, device):
            x = torch.ones(3).npu()
            if device.startswith("xla"):
                os._exit(3)

        def test_sparse_sum(self, device):
            torch.eye(2, device=device).to_sparse().sum()

    instantiate_device_type_tests(TestSmall, globals(), only_for="privateuse1")
"""


@pytest.mark.long
def test_a_suite_is_judged(tmp_path: Path):
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "test_small.py").write_text(textwrap.dedent(SUITE))
    options = ["--from", str(folder), "--files", "test_small", "--out", str(tmp_path / "out")]
    options += ["--json", str(tmp_path / "counts.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.judges.torch_suites", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr  # a crash
    counts = json.loads((tmp_path / "counts.json").read_text())["test_small"]
    assert counts == {"reference": 3, "pass": 1, "fail": 1, "crash": 1, "apart": 3}, done.stdout
    assert "fail TestSmall::test_type_device" in done.stdout
    assert "crash TestSmall::test_end_device: exit status 3" in done.stdout
    assert "1 do not apply: sparse tensors" in done.stdout


def test_the_vendors_device_becomes_ours():
    assert rewritten('x.npu(); torch_npu.npu; "npu:0"; y.is_npu; npu_input', "xla") == (
        'x.xla(); torch_npu.xla; "xla:0"; y.is_xla; npu_input'
    )


def test_reasons_need_a_rule():
    assert inapplicable("a::b::test_add_device", {"verdict": "fail", "message": "AssertionError: 1 != 2"}) == ""
    assert inapplicable("a::b::test_add_device", {"verdict": "unused"}) == "nothing of it runs on the device"
    assert "CPU" in inapplicable(
        "a::b::test_x", {"verdict": "skip", "message": "('x', 3, 'Skipped: Only runs on CPU')"}
    )
