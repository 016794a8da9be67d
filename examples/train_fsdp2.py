"""Trains a small transformer whose parameters are cut over the processes, by PyTorch's FSDP2.

    python train_fsdp2.py                                                 one process
    torchrun --nproc-per-node 2 train_fsdp2.py                            two, on this machine

    torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29500 train_fsdp2.py

The last command is for two machines, on both, of which HOST is the first. `--device xla` is xloom, `--device cpu` that
of PyTorch's own with Gloo. `--checkpoint FOLDER` saves every ten steps and goes on from the last, also after a failure:
torchrun starts all processes again if one dies, as often as `--max-restarts` says:

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 2 --max-restarts 3 train_fsdp2.py --checkpoint FOLDER

By that variable processes that are started again do not find the addresses of those that died.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import xloom.torch  # noqa: F401 - the device `xla` and its process group

BATCH, LENGTH, WIDTH, TOKENS = 16, 32, 64, 50
EVERY = 10


class Model(nn.Module):
    """Predicts the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(step: int, rank: int, world: int) -> torch.Tensor:
    """This process's part of a batch: each sequence counts on by a number of its own."""
    generator = torch.Generator().manual_seed(step)
    start, by = torch.randint(TOKENS, (2, BATCH, 1), generator=generator)
    tokens = (start + (by % 3 + 1) * torch.arange(LENGTH + 1)) % TOKENS
    return tokens.chunk(world)[rank]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("xla", "cpu"), default="xla")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    options = parser.parse_args()

    if "RANK" not in os.environ:  # no torchrun
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
    dist.init_process_group("cpu:gloo,xla:xla" if options.device == "xla" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh(options.device, (world,))

    torch.manual_seed(0)
    model = Model().to(options.device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    first = 0
    if options.checkpoint and (found := newest(options.checkpoint)):
        first = load(found, model, optimizer)
    begun = time.perf_counter()
    for step in range(first, options.steps):
        tokens = batch(step, rank, world).to(options.device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY == EVERY - 1:
            dist.all_reduce(loss := loss.detach(), dist.ReduceOp.SUM)
            if rank == 0:
                print(f"step {step + 1:4}: loss {loss.item() / world:.5f}", flush=True)
            if options.checkpoint:
                save(options.checkpoint / f"step_{step + 1:06}", model, optimizer, step + 1)
    if rank == 0:
        print(f"{options.steps - first} steps in {time.perf_counter() - begun:.1f} s")
    dist.destroy_process_group()


def newest(folder: Path) -> Path | None:
    """The last checkpoint that is whole: its metadata are written at the end."""
    return max((each.parent for each in folder.glob("step_*/.metadata")), default=None)


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    parameters, state = get_state_dict(model, optimizer)
    dcp.save({"model": parameters, "optimizer": state, "step": torch.tensor(step)}, checkpoint_id=folder)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on with."""
    parameters, state = get_state_dict(model, optimizer)
    found = {"model": parameters, "optimizer": state, "step": torch.tensor(0)}
    dcp.load(found, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    return int(found["step"])


if __name__ == "__main__":
    main()
