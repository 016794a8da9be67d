"""torch's own tests of collectives and DistributedDataParallel, out of its wheel, by tensors of a side's device.

They make their tensors on CUDA, or where none is named: a default device decides that. By the backend's name they choose
which tests apply, and how models are made: they are told Gloo's, and their group is that of the side.
"""

import os
import sys

import torch
import torch.distributed as dist

SIDE = sys.argv[4]
os.environ.update(BACKEND="gloo", WORLD_SIZE="2", TEMP_DIR="/nowhere")
torch.set_default_device(SIDE)
if SIDE == "xla":
    begin = dist.init_process_group
    dist.init_process_group = lambda *args, **options: begin(*args, **{**options, "backend": "xla"})

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    """Its ranks meet in their group, and not by files."""

    def _barrier(self, *args: object, **kwargs: object) -> None:
        if dist.is_initialized():
            dist.barrier()
