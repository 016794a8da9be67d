"""torch's own tests of collectives and DistributedDataParallel, out of its wheel, by tensors of a side's device.

They make their tensors on CUDA, or where none is named: a default device decides that.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed

SIDE = sys.argv[4]
BACKEND = "xla" if SIDE == "xla" else "gloo"
os.environ.update(BACKEND=BACKEND, WORLD_SIZE="2", TEMP_DIR="/nowhere")
for features in (common_distributed.DistTestCases.backend_feature, common_distributed.DistTestCases.skip_collective):
    for backends in features.values():
        if "gloo" in backends:
            backends.add(BACKEND)
torch.set_default_device(SIDE)

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    """Its ranks meet in their group, and not by files."""

    def _barrier(self, *args: object, **kwargs: object) -> None:
        if dist.is_initialized():
            dist.barrier()
