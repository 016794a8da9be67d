"""A checkpoint of one number of processes in another one: `torch_checkpoints.py PROCESS COUNT ADDRESS FOLDER WHAT`.

`save` trains a model that is cut over the processes and one that each of them has, and writes both with their
optimisers; `load` reads them, compares with a model that had no other processes, and goes on in step with it.
"""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import xloom.torch  # noqa: F401 - it registers the device and the backend

STEPS = 3


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 10), torch.nn.LayerNorm(10), torch.nn.Linear(10, 3))


def cut() -> torch.nn.Module:
    made, mesh = model().to("xla"), init_device_mesh("xla", (dist.get_world_size(),))
    for each in (made[0], made):
        fully_shard(each, mesh=mesh)
    return made


def whole() -> torch.nn.Module:
    return DistributedDataParallel(model().to("xla"))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range, parts: int, part: int) -> None:
    for step in steps:
        data = torch.randn(8, 8, generator=torch.Generator("cpu").manual_seed(step), device="cpu")
        device = next(model.parameters()).device
        model(data.chunk(parts)[part].to(device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-2)


def states(models: dict[str, Any]) -> dict[str, Any]:
    """What is written: under the same names, however the models are wrapped."""
    parts = {name: get_state_dict(model, optimizer) for name, (model, optimizer) in models.items()}
    return {name: {"model": of_model, "optimizer": of_optimizer} for name, (of_model, of_optimizer) in parts.items()}


def agree(models: dict[str, Any], alone: torch.nn.Module) -> None:
    for found, _ in models.values():
        for mine, other in zip(found.parameters(), alone.parameters(), strict=True):
            value = mine.full_tensor() if isinstance(mine, DTensor) else mine
            torch.testing.assert_close(value.detach().cpu(), other.detach(), rtol=1e-4, atol=1e-5)


def main(folder: str, what: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    models: dict[str, Any] = {"cut": cut(), "whole": whole()}
    models = {name: (each, adam(each)) for name, each in models.items()}
    alone = model()
    of_alone = adam(alone)
    train(alone, of_alone, range(STEPS), 1, 0)
    if what == "save":
        for each, optimizer in models.values():
            train(each, optimizer, range(STEPS), world, rank)
        agree(models, alone)
        save(states(models), checkpoint_id=folder)
        return
    found = states(models)
    load(found, checkpoint_id=folder)
    for name, (each, optimizer) in models.items():
        parts = found[name]
        set_state_dict(each, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"])
    agree(models, alone)
    train(alone, of_alone, range(STEPS, 2 * STEPS), 1, 0)
    for each, optimizer in models.values():
        train(each, optimizer, range(STEPS, 2 * STEPS), world, rank)
    agree(models, alone)


if __name__ == "__main__":
    process, count, address, folder, what = sys.argv[1:]
    host, port = address.split(":")
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, RANK=process, WORLD_SIZE=count)
    dist.init_process_group("cpu:gloo,xla:xla", init_method="xla://")
    main(folder, what)
    print("ok", what, flush=True)
    dist.barrier()
    dist.destroy_process_group()
