"""torch.distributed on the device, against Gloo on the host: `torch_programs.py PROCESS COUNT ADDRESS NAME ...`.

All run in one start of the processes; each says `ok NAME`, or what was wrong.
"""

import gc
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullStateDictConfig,
    FullyShardedDataParallel,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.nn.functional import all_gather as differentiable_gather
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode

import xloom.torch  # noqa: F401 - it registers the device and the backend
from xloom.errors import DistributedError
from xloom.pjrt import brief_runs
from xloom.pjrt.compiler import SpmdNative
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.memory_statistics import memory_allocated
from xloom.torch.metrics import METRICS

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool)
SHAPES = ((), (5,), (4, 6), (2, 0), (3, 1, 700))


def numbers(dims, dtype, rank: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7 + (dist.get_rank() if rank is None else rank))
    return (torch.rand(dims, generator=generator, device="cpu") * 8 - (0 if dtype is torch.uint8 else 4)).to(dtype)


def cases():
    return [(dims, dtype) for dims in SHAPES for dtype in DTYPES]


def agree(found, wanted, exact=True):
    assert found.device.type == "xla", found.device
    if exact:
        torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=0, equal_nan=True)
    else:
        torch.testing.assert_close(found.cpu(), wanted)


def both(call, *tensors, exact=True):
    """What a call does to tensors of the device, and to copies on the host."""
    here = [t.to("xla") * 1 if t.dtype is not torch.bool else t.to("xla") for t in tensors]
    there = [t.clone() for t in tensors]
    call(*here)
    call(*there)
    for found, wanted in zip(here, there, strict=True):
        agree(found, wanted, exact)


def reductions():
    ops = dist.ReduceOp
    for dims, dtype in cases():
        x = numbers(dims, dtype)
        for op in (ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX):
            if dtype is torch.bool:
                continue
            both(lambda t, op=op: dist.all_reduce(t, op), x, exact=dtype is not torch.bfloat16)
            for root in range(2):
                t, h = x.to("xla"), x.clone()
                dist.reduce(t, root, op)
                dist.reduce(h, root, op)
                agree(t, h if dist.get_rank() == root else x, exact=dtype is not torch.bfloat16)
        if not dtype.is_floating_point and dtype is not torch.bool:
            for op in (ops.BAND, ops.BOR, ops.BXOR):
                both(lambda t, op=op: dist.all_reduce(t, op), x)


def averages():
    x = numbers((5, 3), torch.float32).to("xla")
    dist.all_reduce(x, dist.ReduceOp.AVG)
    agree(x, sum(numbers((5, 3), torch.float32, r) for r in range(2)) / 2)


def broadcasts():
    for dims, dtype in cases():
        for root in range(2):
            both(lambda t, r=root: dist.broadcast(t, r), numbers(dims, dtype))


def gathers():
    for dims, dtype in cases():
        x = numbers(dims, dtype)

        def list_of(*outputs, x=x):
            dist.all_gather(list(outputs), x.to(outputs[0].device))

        both(list_of, torch.zeros_like(x), torch.zeros_like(x))
        if dims:
            whole = torch.zeros((2 * dims[0], *dims[1:]), dtype=dtype)
            both(lambda t, x=x: dist.all_gather_single(t, x.to(t.device)), whole)
    lengths = [torch.zeros(3 - 2 * k, 2, device="xla") for k in range(2)]  # Gloo's are of one length
    dist.all_gather(lengths, numbers(lengths[dist.get_rank()].shape, torch.float32).to("xla"))
    for rank, part in enumerate(lengths):
        agree(part, numbers(part.shape, torch.float32, rank))


def of_wrong_arguments():
    """They are errors before anything is sent, so that no process waits or reads uninitialised memory."""
    x, y = torch.ones(4, device="xla"), torch.zeros(5, device="xla")
    wrong = {
        "list of a tensor for each, found 1": lambda: dist.all_gather([x], x),
        "found 3": lambda: dist.reduce_scatter(x, [x, x, x]),
        "1 of 5": lambda: dist.reduce_scatter(y, [x, x]),
        "2 of 4": lambda: dist.all_gather_single(y, x),
        "2 of 5": lambda: dist.reduce_scatter_single(y, x),
        "float64": lambda: dist.all_gather_single(torch.zeros(8, device="xla").double(), x),
        "3 sizes": lambda: dist.all_to_all_single(x.clone(), x, [1, 1, 2], [2, 2]),
        "parts of 1, 2 rows": lambda: dist.all_to_all_single(x.clone(), x, [2, 2], [1, 2]),
        "5 rows": lambda: dist.all_to_all_single(y.clone(), y),
        "a tensor for each": lambda: dist.all_to_all([x.clone()], [x]),
        "root of a collective is 2": lambda: dist.broadcast(x, 2),
        "cannot send to rank 2": lambda: dist.send(x, 2),
        "of 2 processes cannot send to rank -3": lambda: dist.recv(x, group_src=-3),
        f"cannot send to rank {dist.get_rank()}, nor": lambda: dist.recv(x, dist.get_rank()),
    }
    for message, collective in wrong.items():
        try:
            collective()
        except ValueError as error:
            assert message in str(error), (message, error)
        else:
            raise AssertionError(message)
    dist.all_reduce(x)
    agree(x, torch.full((4,), 2.0))


def gathers_to_one():
    x = numbers((4, 3), torch.float32)
    for root in range(2):
        outputs = [torch.zeros(4, 3, device="xla") for _ in range(2)] if dist.get_rank() == root else None
        dist.gather(x.to("xla"), outputs, dst=root)
        for rank, output in enumerate(outputs or ()):
            agree(output, numbers((4, 3), torch.float32, rank))


def scatters():
    for root in range(2):
        parts = [numbers((4, 3), torch.float32, 5 + k) for k in range(2)]
        given = [part.to("xla") for part in parts] if dist.get_rank() == root else None
        output = torch.zeros(4, 3, device="xla")
        dist.scatter(output, given, src=root)
        agree(output, parts[dist.get_rank()])


def reduce_scatters():
    for dims in ((4, 3), (2, 1000)):
        parts = [numbers(dims, torch.float32, 10 * dist.get_rank() + k) for k in range(2)]
        total = sum(numbers(dims, torch.float32, 10 * r + dist.get_rank()) for r in range(2))
        output = torch.zeros(dims, device="xla")
        dist.reduce_scatter(output, [part.to("xla") for part in parts])
        agree(output, total)
        dist.reduce_scatter_single(output.zero_(), torch.cat(parts).to("xla"))
        agree(output, total)


def exchanges():
    x = numbers((4, 3), torch.float32)
    both(lambda t: dist.all_to_all_single(t, x.to(t.device)), torch.zeros(4, 3))
    rank = dist.get_rank()
    sent, received = [[1, 3], [2, 5]][rank], [[1, 2], [3, 5]][rank]
    y = numbers((sum(sent), 2), torch.int64)
    both(lambda t: dist.all_to_all_single(t, y.to(t.device), received, sent), torch.zeros(sum(received), 2).long())
    rows = [torch.zeros(n, 2, device="xla").long() for n in received]
    dist.all_to_all(rows, [part.to("xla") for part in y.split(sent)])
    single = torch.zeros(sum(received), 2).long()
    dist.all_to_all_single(single, y, received, sent)  # Gloo's takes parts of one length only
    agree(torch.cat(rows), single)


def between_two():
    rank = dist.get_rank()
    x, y, turned = (each.to("xla") for each in (numbers((3, 4), torch.bfloat16), *torch.zeros(2, 4, 3).bfloat16()))
    works = [dist.irecv(y.t(), 1 - rank), dist.isend(x + 1, 1 - rank)]
    works += [dist.irecv(turned, 1 - rank), dist.isend(x.t(), 1 - rank)]
    for work in works:
        assert work is not None
        work.wait()
    theirs = numbers((3, 4), torch.bfloat16, 1 - rank)
    agree(y.t(), theirs + 1)
    agree(turned, theirs.t())
    if rank:
        dist.send(x, 0)
    else:
        dist.recv(y.t(), 1)
        agree(y.t(), theirs)


def into_views():
    """Of operands that the device computes, that are not in order, and whose memory others read."""
    base = torch.zeros(4, 6, device="xla")
    part = base[1:3, ::2]
    part += dist.get_rank() + 1
    dist.all_reduce(part)
    other = base.t() * 2
    wanted = torch.zeros(4, 6)
    wanted[1:3, ::2] = 3
    agree(base, wanted)
    agree(other, wanted.t() * 2)
    x = numbers((4, 6), torch.float32).to("xla").t()
    dist.all_reduce(x)
    agree(x, (numbers((4, 6), torch.float32, 0) + numbers((4, 6), torch.float32, 1)).t())


def beside_autograd():
    """What a collective overwrites counts as changed no more than on other devices, as in asynchronous losses."""
    x = torch.ones(3, device="xla", requires_grad=True)
    y = x.exp()
    dist.all_reduce(y.detach())
    y.sum().backward()  # exp's gradient reads y, which is a sum now
    assert x.grad is not None
    agree(x.grad, torch.full((3,), 2 * math.e), exact=False)


def dispatched():
    """A group's methods are operators, which modes see, and tensors of other classes."""

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    x = torch.full((3,), 1.0 + dist.get_rank(), device="xla")
    gathered = torch.empty(6, device="xla")
    with Seen():
        work = dist.all_reduce(x, async_op=True)
        dist.all_gather_into_tensor(gathered, x)
    assert work is not None
    work.wait()
    assert names == ["c10d.allreduce_.default", "c10d._allgather_base_.default"], names
    agree(gathered, torch.full((6,), 3.0))
    with torch.profiler.profile() as profile:
        dist.all_reduce(x)
    assert "c10d::allreduce_" in {event.name for event in profile.events() or ()}
    agree(x, torch.full((3,), 6.0))


def waited_for_as_one():
    for device in ("cpu", "xla"):
        sums = [torch.full((n,), dist.get_rank() + 1.0, device=device) for n in (3, 2)]
        with _coalescing_manager(device=torch.device(device) if device == "xla" else None):
            for each in sums:
                dist.all_reduce(each)
        assert [each.tolist() for each in sums] == [[3.0] * 3, [3.0] * 2]


def objects():
    found = [None, None]
    dist.all_gather_object(found, {"rank": dist.get_rank()})
    assert found == [{"rank": 0}, {"rank": 1}]
    dist.barrier()


def one_prints():
    """What a process looks at alone changes nothing for the others."""
    x = numbers((3,), torch.float32).to("xla")
    for k in range(5):
        x = x * 0.5
        if dist.get_rank() == k % 2:
            x.sum().item()
        dist.all_reduce(x)
    total = sum(numbers((3,), torch.float32, r) for r in range(2)) * 0.5
    for _ in range(4):
        total = total * 0.5 * 2
    agree(x, total)


def of_groups():
    alone = [dist.new_group([rank]) for rank in range(2)]
    turned = dist.new_group([1, 0])
    assert isinstance(turned, dist.ProcessGroup)
    x = numbers((3,), torch.float32).to("xla")
    dist.all_reduce(x, group=alone[dist.get_rank()])
    agree(x, numbers((3,), torch.float32))
    found = [torch.zeros(3, device="xla") for _ in range(2)]
    dist.all_gather(found, x, group=turned)
    order = dist.get_process_group_ranks(turned)
    for rank, each in zip(order, found, strict=True):
        agree(each, numbers((3,), torch.float32, rank))


def functional():
    group = dist.group.WORLD
    assert group is not None
    x, y = (numbers((4, 3), torch.float32, r) for r in range(2))
    mine = (x, y)[dist.get_rank()].to("xla")
    agree(fc.all_reduce(mine, "sum", group), x + y)
    agree(fc.all_gather_single(mine, 0, group), torch.cat([x, y]))
    agree(fc.all_gather_single(mine, 1, group), torch.cat([x, y], 1))
    agree(fc.reduce_scatter_single(mine, "avg", 0, group), ((x + y) / 2).chunk(2)[dist.get_rank()])
    agree(fc.broadcast(mine, 1, group), y)
    both_parts = [x.chunk(2)[dist.get_rank()], y.chunk(2)[dist.get_rank()]]
    agree(fc.all_to_all_single(mine, None, None, group), torch.cat(both_parts))
    for a, b in zip(fc.all_reduce_coalesced([mine, mine * 2], "max", group), (1, 2), strict=True):
        agree(a, torch.maximum(x * b, y * b))
    leaf = mine.clone().requires_grad_()
    gathered = differentiable_gather(leaf)
    (gathered[0].sum() + 2 * gathered[1].sum()).backward()
    agree(leaf.grad, torch.full((4, 3), 2.0 * (dist.get_rank() + 1)))


def functional_of_the_host():
    """Gloo's threads want Python's lock while they keep Gloo's: who calls it may not have both."""
    group = dist.group.WORLD
    assert group is not None
    rank = dist.get_rank()
    for _ in range(400):
        gathered = fc.all_gather_single(torch.full((2,), rank + 1.0, device="cpu"), 0, group)
        ones = [torch.ones(4, 3, device="cpu"), torch.full((2,), rank + 1.0, device="cpu")]
        scattered = fc.reduce_scatter_tensor_coalesced(ones, "sum", [0, 0], group)
        found = [(each * 1).tolist() for each in (gathered, *scattered)]
    assert found == [[1.0, 1.0, 2.0, 2.0], [[2.0] * 3] * 2, [3.0]], found


def data_parallel():
    """The same steps as one process takes on all of the data."""
    model, alone = layers()
    train_alike(torch.nn.parallel.DistributedDataParallel(model), alone)


def data_parallel_on_the_default_device():
    """Where tensors are made on the device unless somebody says else, torch's own included."""
    torch.set_default_device("xla")
    try:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
        alone = deepcopy(model).to("cpu")
        train_alike(torch.nn.parallel.DistributedDataParallel(model), alone)
    finally:
        torch.set_default_device(None)


class Branches(torch.nn.Module):
    """Of three layers one is used each time, or one always; the last never."""

    def __init__(self, alternates):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])
        self.alternates = alternates
        self.calls = 0

    def forward(self, x):
        self.calls += self.alternates
        return self.layers[self.calls // 2 % 2](x)


def data_parallel_with_unused_parameters():
    """Those of which some step has no gradient, where torch is to find out which, or told that they stay the same."""
    for option in ("find_unused_parameters", "static_graph"):
        torch.manual_seed(0)
        alone = Branches(option == "find_unused_parameters")
        options: dict[str, Any] = {option: True}
        model = torch.nn.parallel.DistributedDataParallel(deepcopy(alone).to("xla"), **options)
        train_alike(model, alone)
        assert all(p.grad is None for p in model.module.layers[2].parameters())
    strided = torch.empty_strided((2, 0, 3), (1, 2, 2)), torch.empty_strided((2, 3), (1, 2), dtype=torch.int16)
    assert [each.stride() for each in strided] == [(1, 2, 2), (1, 2)]
    assert not strided[1]._is_view()
    assert strided[1].untyped_storage().nbytes() == 12


def optimizer_in_parts():
    """Each process has a part of what the optimiser keeps. TorchScript compiles torch's own ones as it is imported."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, alone = layers()
    model = torch.nn.parallel.DistributedDataParallel(model)
    in_parts = partial(ZeroRedundancyOptimizer, optimizer_class=torch.optim.SGD, lr=0.1, momentum=0.9)
    train_alike(model, alone, optimizer=in_parts)


def synchronised_batch_norm():
    """Statistics of what all processes have, and the gradients of that."""
    torch.manual_seed(0)
    alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(deepcopy(alone)).to("xla")
    train_alike(torch.nn.parallel.DistributedDataParallel(model), alone)
    for mine, other in zip(model.buffers(), alone.buffers(), strict=True):
        agree(mine, other, exact=False)
    images = numbers((3, 4, 5, 6), torch.bfloat16).to("xla").to(memory_format=torch.channels_last)
    assert torch.nn.SyncBatchNorm(4).to("xla", torch.bfloat16)(images).is_contiguous(memory_format=torch.channels_last)


def data_parallel_from_the_third_step():
    """In the second one buckets of gradients are others than in the first; then nothing is new."""
    model, _ = layers()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    programs = []
    for step in range(4):
        model(numbers((6, 8), torch.float32, step).to("xla")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        programs.append(METRICS.programs)
    assert programs[1] == programs[3], programs


SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
"""Unlike Adam it takes another step when a gradient is a multiple of what it should be."""
ADAMW = partial(torch.optim.AdamW, lr=1e-2)


def train_alike(model, alone, same_data=False, optimizer: Callable[..., torch.optim.Optimizer] = SGD):
    """Steps of a model and of what it is without other processes, which leave the same parameters."""
    optimizers = [optimizer(m.parameters()) for m in (model, alone)]
    for step in range(4):
        data = [numbers((6, 8), torch.float32, 100 * step + (0 if same_data else rank)) for rank in range(2)]
        for each in optimizers:
            each.zero_grad()
        model(data[dist.get_rank()].to("xla")).square().mean().backward()
        alone(torch.cat(data)).square().mean().backward()
        for each in optimizers:
            each.step()
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        whole = mine.full_tensor() if isinstance(mine, DTensor) else mine
        agree(whole.detach().to("xla"), other.detach(), exact=False)


def layers():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    alone = deepcopy(model)
    return model.to("xla"), alone


def sharded():
    mesh = init_device_mesh("xla", (2,))
    x = numbers((4, 6), torch.float32, 3)
    cut = distribute_tensor(x.to("xla"), mesh, [Shard(0)])
    product, total = cut @ cut.t(), cut.sum()
    assert isinstance(product, DTensor)
    assert isinstance(total, DTensor)
    agree(product.redistribute(mesh, [Replicate()]).to_local(), x @ x.t(), exact=False)
    agree(cut.redistribute(mesh, [Shard(1)]).to_local(), x.chunk(2, 1)[dist.get_rank()])
    agree(total.full_tensor(), x.sum(), exact=False)


def tensor_parallel():
    mesh = init_device_mesh("xla", (2,))
    model, alone = layers()
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = numbers((3, 8), torch.float32, 3)
    model(x.to("xla")).sum().backward()  # without a gradient of what came in, which DTensor must not keep in mind
    model.zero_grad()
    with CommDebugMode() as said:
        y = model(x.to("xla").requires_grad_())
    assert list(said.get_comm_counts().values()) == [1], "one sum, and weights stay where they are"
    agree(y.detach(), alone(x).detach(), exact=False)
    with CommDebugMode() as said:
        y.sum().backward()
    assert list(said.get_comm_counts().values()) == [1], "of the gradient of what came in, and no other"
    alone(x).sum().backward()
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert isinstance(mine.grad, DTensor)
        agree(mine.grad.full_tensor(), other.grad, exact=False)


def fully_sharded():
    model, alone = layers_fully_sharded()
    train_alike(model, alone, optimizer=ADAMW)
    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())


def fully_sharded_in_part():
    """What is left whole is replaced by an optimiser of both as it is by one of all."""
    mesh = init_device_mesh("xla", (2,))
    model, alone = layers()
    fully_shard(model[0], mesh=mesh)
    train_alike(model, alone, same_data=True, optimizer=ADAMW)
    assert {isinstance(parameter, DTensor) for parameter in model.parameters()} == {True, False}


def fully_sharded_unevenly():
    """Parts that are filled up, or cut along the columns; and copies that are one operator for all parameters."""
    mesh = init_device_mesh("xla", (2,))
    for placement in (None, lambda parameter: Shard(parameter.dim() - 1)):
        torch.manual_seed(0)
        hidden = 10 if placement else 5
        model = torch.nn.Sequential(torch.nn.Linear(8, hidden), torch.nn.LayerNorm(hidden), torch.nn.Linear(hidden, 4))
        alone = deepcopy(model)
        fully_shard(model[0], mesh=mesh, shard_placement_fn=placement)
        fully_shard(model, mesh=mesh, shard_placement_fn=placement)
        train_alike(model, alone)
    assert not {"fsdp.all_gather_copy_in.default", "fsdp.split_with_sizes_copy.default"} & set(METRICS.decomposed)


def fully_sharded_from_the_host():
    """Modules that are on the host move when they are sharded, and what is left out does not."""
    mesh = init_device_mesh("xla", (2,))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    left_out = next(model[1].parameters())
    left_out.requires_grad_(False)
    alone = deepcopy(model).to("xla")
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params={left_out})
    assert left_out is model[1].weight
    assert left_out.device.type == "cpu"
    assert model[1].running_mean.device.type == "xla"
    assert isinstance(model[0].weight, DTensor) and isinstance(model[2].weight, DTensor)
    agree(model[0].weight.full_tensor(), alone[0].weight.cpu(), exact=True)


def fully_sharded_kept_on_the_host():
    """Parts of parameters stay there also as what is around them is sharded, which moves the rest to the device."""
    mesh = init_device_mesh("xla", (2,))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))
    alone = deepcopy(model)
    for each in (model[0], model):
        fully_shard(each, mesh=mesh, offload_policy=CPUOffloadPolicy())
    for parameter in model.parameters():
        assert isinstance(parameter, DTensor)
        assert parameter.to_local().device.type == "cpu"
    train_alike(model, alone)


def fully_sharded_by_flat_parameters():
    """FullyShardedDataParallel, also of a module on the host, whose steps are those of Gloo on the host."""
    policy = ModuleWrapPolicy({torch.nn.Linear})
    choices: list[dict[str, Any]] = [
        {},
        {"use_orig_params": True},
        {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
    ]
    for options in choices:
        losses = []
        for device in ("cpu", "xla"):
            torch.manual_seed(0)
            model: Any = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
            where = torch.device("xla", 0) if device == "xla" else torch.device("cpu")
            model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=where, **options)
            optimizer = ADAMW(model.parameters())
            for step in range(4):
                y = model(numbers((6, 8), torch.float32, 100 * step + dist.get_rank()).to(device)).square().mean()
                y.backward()
                losses.append((y.item(), model.clip_grad_norm_(1.0).item()))
                optimizer.step()
                optimizer.zero_grad()
            with FullyShardedDataParallel.summon_full_params(model):
                losses.append([p.sum().item() for p in model.parameters()])
        torch.testing.assert_close(losses[:5], losses[5:], rtol=2e-6, atol=1e-6)


def fully_sharded_whole_state_on_the_host():
    """What one process saves of all; torch's own, of modules on the host, ends the process there."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16))
    wanted = {name: each.clone() for name, each in model.state_dict().items()}
    on_host = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    for whole in (False, True):
        wrapped = FullyShardedDataParallel(deepcopy(model).to("xla"), use_orig_params=whole)
        for _ in range(2):
            with FullyShardedDataParallel.state_dict_type(wrapped, StateDictType.FULL_STATE_DICT, on_host):
                found = wrapped.state_dict()
            assert found.keys() == (set() if dist.get_rank() else wanted.keys())
            for name, each in found.items():
                assert each.device.type == "cpu"
                assert torch.equal(each, wanted[name])
        with FullyShardedDataParallel.summon_full_params(wrapped, offload_to_cpu=True):
            for name, each in wrapped.named_parameters():
                assert each.device.type == "cpu"
                assert torch.equal(each, wanted[name.removeprefix("_fsdp_wrapped_module.")])
                with torch.no_grad():
                    each.mul_(2)
        with FullyShardedDataParallel.summon_full_params(wrapped):
            for name, each in wrapped.named_parameters():
                agree(each, 2 * wanted[name.removeprefix("_fsdp_wrapped_module.")])
        assert wrapped(torch.ones(2, 8, device="xla")).device.type == "xla"


def fully_sharded_holds_parts():
    """Between steps there is nothing of the other process's parameters: what was gathered is given back."""
    gc.collect()
    others = memory_allocated()
    mesh = init_device_mesh("xla", (2,))
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, bias=False) for _ in range(4)]).to("xla")
    for module in (*model, model):
        fully_shard(module, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = 0
    for step in range(3):
        model(numbers((2, 64), torch.float32, step).to("xla")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        gc.collect()
        held = memory_allocated() - others
        assert not step or held <= before, (held, before)  # less: what ran before may be given back late
        before = held
    parts = 4 * 64 * 64 * 4 // 2
    assert before < 3.5 * parts, before  # and the same once more where views of it were read or written


def layers_fully_sharded():
    mesh = init_device_mesh("xla", (2,))
    model, alone = layers()
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model, alone


def checkpoints():
    mesh = init_device_mesh("xla", (2,))
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    x = numbers((4, 6), torch.float32, 3)
    save({"cut": distribute_tensor(x.to("xla"), mesh, [Shard(0)]), "one": x.to("xla")}, checkpoint_id=folder[0])
    empty = torch.zeros(4, 6, device="xla")
    found = {"cut": distribute_tensor(empty, mesh, [Shard(1)]), "one": torch.zeros(4, 6, device="xla")}
    load(found, checkpoint_id=folder[0])
    agree(found["cut"].full_tensor(), x)
    agree(found["one"], x)
    later = folder[0] + "/later"
    state = {"cut": distribute_tensor(x.to("xla"), mesh, [Shard(0)]), "turned": x.to("xla").t(), "one": x.to("xla") + 1}
    saving: Any = async_save(state, checkpoint_id=later)
    state["one"].zero_()  # what is saved is a copy
    saving.result()
    found = {"cut": distribute_tensor(empty, mesh, [Shard(1)]), "turned": torch.zeros(6, 4, device="xla"), "one": empty}
    load(found, checkpoint_id=later)
    agree(found["cut"].full_tensor(), x)
    agree(found["turned"], x.t())
    agree(found["one"], x + 1)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])


def compiled():
    """A collective among tensors of the host, inside a native program."""
    group = dist.group.WORLD
    assert group is not None
    function = torch.compile(lambda x: fc.all_reduce(x * 2, "sum", group) + 1, backend="xloom", fullgraph=True)
    for k in range(3):
        torch.testing.assert_close(function(torch.ones(3) * (k + dist.get_rank())), torch.full((3,), 4.0 * k + 3))


def compiled_on_device():
    """Collectives in a graph of the device's tensors, with gradients, and of a subgroup."""
    group, rank = dist.group.WORLD, dist.get_rank()
    alone = [dist.new_group([r]) for r in range(2)][rank]
    assert isinstance(alone, dist.ProcessGroup) and group is not None

    def function(x, w):
        y = x @ w
        gathered = fc.all_gather_single_autograd(y, 0, group)
        part = fc.reduce_scatter_single_autograd(gathered * gathered, "sum", 0, group)
        turned = fc.all_to_all_single_autograd(part, None, None, group)
        total = fc.all_reduce(turned.detach(), "max", group)
        return turned, total, fc.broadcast(total, 1, group), fc.all_reduce(total + rank, "sum", alone)

    leaves = []
    for run in (torch.compile(function, backend="xloom", fullgraph=True), function):
        for k in range(3):
            x, w = (numbers(dims, torch.float32, 10 * k + rank) for dims in ((4, 3), (3, 6)))
            x, w = x.to("xla").requires_grad_(), w.to("xla").requires_grad_()
            results = run(x, w)
            results[0].square().sum().backward()
            assert x.grad is not None and w.grad is not None
            leaves.append([each.detach() for each in (*results, x.grad, w.grad)])
    for mine, wanted in zip(leaves[:3], leaves[3:], strict=True):
        for found, other in zip(mine, wanted, strict=True):
            agree(found, other.cpu())


def compiled_data_parallel():
    """DistributedDataParallel of the device's model, compiled."""
    model, alone = layers()
    train_alike(torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend="xloom"), alone)


def compiled_fully_sharded():
    """FSDP2's layers, each a graph between its collectives."""
    model, alone = layers_fully_sharded()
    train_alike(torch.compile(model, backend="xloom"), alone)


def compiled_tensor_parallel():
    """DTensor's redistributions within a graph."""
    model, alone = layers()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(model, init_device_mesh("xla", (2,)), plan)
    train_alike(torch.compile(model, backend="xloom", fullgraph=True), alone, same_data=True)


def in_the_callers_thread():
    """Small collectives, once others were short: to hand them over would take longer."""
    x = torch.ones(3, device="xla")
    given: list[Any] = []
    own_run, own_limit = SpmdNative.run, brief_runs.LONG

    def handed_over(self: SpmdNative, arguments: Any, launch: Any) -> Any:
        given.append(launch)
        return own_run(self, arguments, launch)

    SpmdNative.run, brief_runs.LONG = handed_over, 1e9
    try:
        for _ in range(10):
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
            x.cpu()
    finally:
        SpmdNative.run, brief_runs.LONG = own_run, own_limit
    assert len(given) == 1, f"{len(given)} of 10 were handed over"
    agree(x, torch.ones(3))


def other_shapes():
    """A wrong program is an error in both, after which both may go on."""
    differ(torch.ones(3 + dist.get_rank(), device="xla"))


def other_shapes_later():
    """The same of programs that have run, which begin in another way."""
    both = [torch.ones(3 + k, device="xla") for k in range(2)]
    for x in both * 3:
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        x.cpu()
    differ(both[dist.get_rank()], op=dist.ReduceOp.MAX)


def differ(x, **options):
    try:
        dist.all_reduce(x, **options)
        x.cpu()
    except DistributedError as error:
        assert re.search(r"all-gather f32\[2,3\]|all-reduce by (add|maximum) of f32\[3\]", str(error)), error
    else:
        raise AssertionError("two shapes were added")
    dist.barrier()
    y = torch.ones(3, device="xla")
    dist.all_reduce(y)
    agree(y, torch.full((3,), 2.0))


def one_dies():
    """The other gets an error that says which."""
    x = torch.ones(3, device="xla")
    dist.all_reduce(x)
    agree(x, torch.full((3,), 2.0))
    if dist.get_rank():
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)
    x.cpu()


def one_dies_before_many():
    many_without(lambda: os.kill(os.getpid(), signal.SIGKILL))


def one_ends_before_many():
    many_without(lambda: sys.exit(0))


def one_is_not_at_the_barrier():
    group = dist.new_group(timeout=timedelta(seconds=2))
    assert isinstance(group, dist.ProcessGroup)
    dist.barrier(group)
    if not dist.get_rank():
        try:
            dist.barrier(group)
        except DistributedError as error:
            assert re.match(r"process 0 has waited [\d.]+ s for process 1 at barrier 2 of ", str(error)), error
        else:
            raise AssertionError("the other one has not come")
    dist.barrier()


def many_without(end: Callable[[], None]):
    """What was begun after the first fails with it, however much that is, if the second process ends so before."""
    many = [torch.ones(3 + k, device="xla") for k in range(4 * device_client.AHEAD)]
    for x in many:
        dist.all_reduce(x)
    many[-1].cpu()
    if dist.get_rank():
        end()
    for x in many:
        dist.all_reduce(x)
    many[-1].cpu()


def names_of_torch_xla():
    from xloom.torch import xm

    rank = dist.get_rank()
    x = torch.arange(4.0) + rank
    y = torch.arange(4.0) + 1 - rank
    here = x.to("xla")
    assert (xm.xrt_world_size(), xm.get_ordinal()) == (2, rank)
    agree(xm.all_reduce(xm.REDUCE_SUM, here, scale=0.5), (x + y) / 2)
    agree(xm.all_gather(here), torch.cat([torch.arange(4.0), torch.arange(4.0) + 1]))
    agree(xm.reduce_scatter(xm.REDUCE_SUM, here, 1.0, 0, 2), (x + y).chunk(2)[rank])
    agree(xm.collective_permute(here, [(0, 1), (1, 0)]), y)
    agree(xm.all_gather(here, groups=[[0], [1]]), x)
    assert xm.mesh_reduce("ranks", rank, sum) == 1
    assert xm.rendezvous("here", bytes([rank])) == [b"\x00", b"\x01"]
    model, _ = layers()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.forward(torch.full((2, 8), rank + 1.0, device="xla")).sum().backward()
    xm.optimizer_step(optimizer)
    weights = next(model.parameters()).detach()
    both_weights = xm.all_gather(weights[None])
    agree(both_weights[0], both_weights[1].cpu())


if __name__ == "__main__":
    process, count, address, *names = sys.argv[1:]
    host, port = address.split(":")
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, RANK=process, WORLD_SIZE=count)
    dist.init_process_group("cpu:gloo,xla:xla", init_method="xla://")
    failed = False
    for name in names:
        try:
            globals()[name]()
            print("ok", name, flush=True)
        except Exception:
            failed = True
            print("failed", name, traceback.format_exc(), sep="\n", flush=True)
    dist.barrier()
    dist.destroy_process_group()
