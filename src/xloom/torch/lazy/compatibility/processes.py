"""torch_xla's names of what several processes do, over the default group of torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed
from torch.utils._pytree import tree_map_only

from xloom.environment import LOCAL_RANK, RANK, WORLD_SIZE
from xloom.errors import UnsupportedError
from xloom.torch.lazy.runtime import device_module
from xloom.torch.lazy.tensor.tensor import XlaTensor

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"
_TO_TORCH = {
    REDUCE_SUM: "SUM",
    REDUCE_MUL: "PRODUCT",
    REDUCE_AND: "BAND",
    REDUCE_OR: "BOR",
    REDUCE_MIN: "MIN",
    REDUCE_MAX: "MAX",
}

Groups = Sequence[Sequence[int]] | None


def world_size() -> int:
    """How many processes there are: as torchrun says, until they have a group."""
    return distributed.get_world_size() if distributed.is_initialized() else int(WORLD_SIZE.text or 1)


def ordinal() -> int:
    """Which one this is; the same holds."""
    return distributed.get_rank() if distributed.is_initialized() else int(RANK.text or 0)


def local_ordinal() -> int:
    """Which one of this machine's, as torchrun says."""
    return int(LOCAL_RANK.text or ordinal())


def _group(groups: Groups) -> Any:
    """That of this process, in ascending order; all are made and kept, as torch asks all processes to make each."""
    if not groups:
        return None
    key = tuple(map(tuple, groups))
    if key not in _groups:
        made = [distributed.new_group(list(members)) for members in key]
        _groups[key] = next(g for g, members in zip(made, key, strict=True) if ordinal() in members)
    return _groups[key]


_groups: dict[tuple[tuple[int, ...], ...], Any] = {}


def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Groups = None, pin_layout: bool = True, **unused: Any
) -> Any:
    """A new tensor, or a list of them in place."""
    if world_size() == 1:
        if isinstance(inputs, torch.Tensor):
            return inputs * scale if scale != 1 else inputs.clone()
        return [each.mul_(scale) if scale != 1 else each for each in inputs]
    op, group = getattr(distributed.ReduceOp, _TO_TORCH[reduce_type]), _group(groups)
    tensors = [inputs.clone()] if isinstance(inputs, torch.Tensor) else list(inputs)
    for tensor in tensors:
        distributed.all_reduce(tensor, op, group)
        if scale != 1:
            tensor.mul_(scale)
    return tensors[0] if isinstance(inputs, torch.Tensor) else tensors


def all_reduce_bucketized_gradients(
    gradients: Sequence[torch.Tensor], scale: float = 1.0, groups: Groups = None, pin_layout: bool = True, **unused: Any
) -> None:
    """The sums of all processes' gradients, in place."""
    all_reduce(REDUCE_SUM, gradients, scale, groups)


def all_gather(value: torch.Tensor, dim: int = 0, groups: Groups = None, **unused: Any) -> torch.Tensor:
    """All processes' tensors along a dimension."""
    if world_size() == 1:
        return value.clone()
    group = _group(groups)
    parts = [torch.empty_like(value) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, value.contiguous(), group)
    return torch.cat(parts, dim)


def reduce_scatter(
    reduce_type: str,
    input: torch.Tensor,
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    **unused: Any,
) -> torch.Tensor:
    """This process's part, along a dimension, of the sum."""
    if world_size() == 1:
        return input * scale
    op = getattr(distributed.ReduceOp, _TO_TORCH[reduce_type])
    parts = [each.contiguous() for each in input.chunk(shard_count, scatter_dim)]
    output = torch.empty_like(parts[0])
    distributed.reduce_scatter(output, parts, op, _group(groups))
    return output * scale if scale != 1 else output


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups = None,
    **unused: Any,
) -> torch.Tensor:
    """A part to each process, along one dimension; what comes is put together along another."""
    parts = [each.contiguous() for each in value.chunk(split_count, split_dimension)]
    if world_size() == 1:
        return torch.cat(parts, concat_dimension)
    found = [torch.empty_like(each) for each in parts]
    distributed.all_to_all(found, parts, _group(groups))
    return torch.cat(found, concat_dimension)


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """What the process that is paired with this one has; zeros if there is none."""
    sources = [source for source, target in pairs if target == ordinal()]
    parts = all_gather(value[None])
    return parts[sources[0]] if sources else torch.zeros_like(value)


def collective_broadcast(tensors: Sequence[torch.Tensor], root_ordinal: int = 0, **unused: Any) -> None:
    """All processes' tensors become those of one."""
    if world_size() > 1:
        for tensor in tensors:
            distributed.broadcast(tensor.data, root_ordinal)


def broadcast_master_param(model: torch.nn.Module) -> None:
    """A model becomes that of the first process."""
    collective_broadcast([*model.parameters(), *model.buffers()])


def reduce_gradients(optimizer: torch.optim.Optimizer, **unused: Any) -> None:
    """Gradients become the mean of all processes'."""
    if world_size() > 1:
        all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), 1 / world_size())


def _fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients of an optimiser's parameters, which trainers ask for by this name."""
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Waits for all processes; what each of them brings."""
    device_module.synchronize()
    return _of_all(payload)


def mesh_reduce(tag: str, data: Any, reduce_function: Callable[[list[Any]], Any]) -> Any:
    """A function of what all processes have, of the host's objects."""
    data = tree_map_only(XlaTensor, lambda t: t.detach().cpu(), data)
    return reduce_function(_of_all(data))


def _of_all(value: Any) -> list[Any]:
    if world_size() == 1:
        return [value]
    found: list[Any] = [None] * world_size()
    distributed.all_gather_object(found, value)
    return found


def is_master_ordinal(local: bool = True) -> bool:
    """Whether it is the first process, of this machine or of all."""
    return (local_ordinal() if local else ordinal()) == 0


def master_print(*args: Any, local: bool = False, **options: Any) -> None:
    """`print` by the first process."""
    if is_master_ordinal(local):
        print(*args, **options)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None:
    """Calls `fn(0, *args)`: a process has one device. More processes are what torchrun is for."""
    if nprocs not in (None, 1):
        raise UnsupportedError(f"{nprocs} processes by spawn", hint=f"torchrun --nproc-per-node {nprocs} SCRIPT")
    fn(local_ordinal(), *args)


RUNTIME_NAMES: dict[str, Callable[..., Any]] = {
    "world_size": world_size,
    "global_ordinal": ordinal,
    "local_ordinal": local_ordinal,
    "process_index": ordinal,
    "process_count": world_size,
}
"""Of `torch_xla.runtime`."""

NAMES: dict[str, Any] = {
    "xrt_world_size": world_size,
    "get_ordinal": ordinal,
    "get_local_ordinal": local_ordinal,
    "is_master_ordinal": is_master_ordinal,
    "master_print": master_print,
    "REDUCE_SUM": REDUCE_SUM,
    "REDUCE_MUL": REDUCE_MUL,
    "REDUCE_AND": REDUCE_AND,
    "REDUCE_OR": REDUCE_OR,
    "REDUCE_MIN": REDUCE_MIN,
    "REDUCE_MAX": REDUCE_MAX,
}
"""Of `torch_xla.core.xla_model`."""
for _function in (
    *(
        all_reduce,
        all_reduce_bucketized_gradients,
        all_gather,
        reduce_scatter,
        all_to_all,
        collective_permute,
        collective_broadcast,
    ),
    *(broadcast_master_param, reduce_gradients, _fetch_gradients, rendezvous, mesh_reduce),
):
    NAMES[_function.__name__] = _function
