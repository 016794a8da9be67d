"""One process of `benchmarks.distributed_training` in PyTorch: `SIDE PROCESS COUNT PORT DOOR MODEL STEPS`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from benchmarks.distributed_training_steps import report, sequences, vectors


class Block(nn.Module):
    """Attention, then two layers; a process may have some of the heads, and some of the features between the layers."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.head = width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [batch, length, width]; as much."""
        normed = self.before(x)
        q, k, v = (each(normed).unflatten(-1, (-1, self.head)).transpose(1, 2) for each in (self.q, self.k, self.v))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


def mlp() -> nn.Sequential:
    """Three layers over vectors."""
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))


def transformer() -> nn.Sequential:
    """Two blocks over tokens."""
    return nn.Sequential(nn.Embedding(64, 64), Block(), Block(), nn.Linear(64, 64))


def wrapped(network: nn.Sequential, door: str, mesh: DeviceMesh) -> nn.Module:
    """The same network over all processes."""
    if door == "ddp":
        return DistributedDataParallel(network)
    if door == "fsdp2":
        for layer in network:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)
        return network
    columns, rows = (
        [name for name, _ in network.named_modules() if name.rpartition(".")[2] in wanted]
        for wanted in (("q", "k", "v", "up"), ("out", "down"))
    )
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in columns or ["0"]}
    plan |= {name: RowwiseParallel() for name in rows or ["2"]}
    return parallelize_module(network, mesh, plan)


def main() -> None:
    """Trains, each process with its part of every batch; with the door `tp` with all of it, by parts of the weights."""
    side, process, count, port, door, model, steps = sys.argv[1:]
    os.environ.update(RANK=process, WORLD_SIZE=count, MASTER_ADDR="localhost", MASTER_PORT=port)
    device = "cpu"
    if side == "xloom":
        import xloom.torch  # noqa: F401 - it registers the device and its group

        device = "xla"
    dist.init_process_group("cpu:gloo,xla:xla" if device == "xla" else "gloo")
    torch.manual_seed(0)
    make, batch = (mlp, vectors) if model == "mlp" else (transformer, sequences)
    parts = 1 if door == "tp" else int(count)
    network = wrapped(make().to(device), door, init_device_mesh(device, (int(count),)))
    optimizer = torch.optim.SGD(network.parameters(), 0.1, foreach=False)  # tp has parameters of two classes

    def part(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).chunk(parts)[int(process) % parts].to(device)

    def losses() -> Iterator[torch.Tensor]:
        for k in range(int(steps)):
            x, y = map(part, batch(k))
            logits = network(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.long().flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = loss.detach()
            if parts > 1:
                dist.all_reduce(loss)
            yield loss / parts

    report(losses(), process)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
