"""One process of `benchmarks.distributed_training` in PyTorch: `SIDE PROCESS COUNT PORT DOOR MODEL STEPS`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.distributed_training_steps import report, sequences, vectors


def mlp() -> nn.Module:
    """Three layers over vectors."""
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))


def transformer() -> nn.Module:
    """Two blocks over tokens."""
    block = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(64, 64), nn.TransformerEncoder(block, 2), nn.Linear(64, 64))


def main() -> None:
    """Trains by DDP, each process with its part of every batch."""
    side, process, count, port, _, model, steps = sys.argv[1:]
    os.environ.update(RANK=process, WORLD_SIZE=count, MASTER_ADDR="localhost", MASTER_PORT=port)
    device = "cpu"
    if side == "xloom":
        import xloom.torch  # noqa: F401 - it registers the device and its group

        device = "xla"
    dist.init_process_group("cpu:gloo,xla:xla" if device == "xla" else "gloo")
    torch.manual_seed(0)
    make, batch = (mlp, vectors) if model == "mlp" else (transformer, sequences)
    network = DistributedDataParallel(make().to(device))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)

    def part(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).chunk(int(count))[int(process)].to(device)

    def losses() -> Iterator[torch.Tensor]:
        for k in range(int(steps)):
            x, y = map(part, batch(k))
            logits = network(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.long().flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            dist.all_reduce(loss := loss.detach())
            yield loss / int(count)

    report(losses(), process)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
