"""The process group of backend `xla`: tensors of the device by collectives of its own, those of the host by Gloo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import ProcessGroup, ProcessGroupGloo, Work
from torch.utils._pytree import tree_leaves

from xloom.errors import DistributedError
from xloom.torch.lazy.distributed.collectives import (
    Group,
    Programs,
    ThroughHost,
    joined,
    rows,
    shaped,
    split,
    stacked,
    zeros_like,
)
from xloom.torch.lazy.distributed.device_mesh import register_tensors
from xloom.torch.lazy.distributed.joining import join
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import device_client, device_module
from xloom.torch.lazy.tensor.tensor import XlaTensor

_done: Callable[[Any], Work] = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]


def make(options: Any, backend_options: Any) -> ProcessGroup:
    """What `init_process_group` and `new_group` call."""
    register_tensors()
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    return XlaProcessGroup(options.store, options.group_rank, members, options.timeout)


def _read(tensor: Tensor) -> Value:
    assert isinstance(tensor, XlaTensor), f"a tensor on {tensor.device} among others on xla"
    return tensor._alias.read()


def write(tensor: Tensor, value: Value) -> None:
    """Overwrites a tensor of the device, of whatever dimensions, with a value of as many elements."""
    assert isinstance(tensor, XlaTensor), f"a tensor on {tensor.device} among others on xla"
    tensor._alias.write(shaped(value, tensor.shape))


def _reduction(options: Any) -> str:
    return options.reduceOp.op.name.lower()


def _collective(method: Callable[..., Any]) -> Callable[..., Work]:
    """Of tensors of the device; others go to Gloo. Its result is ready: later programs come later."""

    @wraps(method)
    def run(self: XlaProcessGroup, *args: Any, **kwargs: Any) -> Work:
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if not any(isinstance(each, XlaTensor) for each in tensors):
            return getattr(self.gloo, method.__name__)(*args, **kwargs)
        method(self, *args, **kwargs)
        future = torch.futures.Future()
        future.set_result(tensors)
        return _done(future)

    return run


class XlaProcessGroup(ProcessGroup):
    """Processes with a device each."""

    def __init__(self, store: Any, rank: int, members: Sequence[int], timeout: timedelta):
        """`members` are the numbers, among all processes, of those of the group."""
        super().__init__(rank, len(members))  # type: ignore[call-arg]
        self.gloo: Any = ProcessGroupGloo(PrefixStore("gloo/", store), rank, len(members), timeout=timeout)
        self._name = self._description = ""
        whole = torch.distributed.distributed_c10d.GroupMember.WORLD
        if whole is None:
            membership = join(PrefixStore("xloom/", store), rank, len(members))
        elif isinstance(whole, XlaProcessGroup):
            membership = whole.membership
        else:
            raise DistributedError(
                "a group of backend xla within one of another backend",
                hint="torch.distributed.init_process_group('cpu:gloo,xla:xla')",
            )
        self.membership = membership
        if membership.connected is None:
            engine = ThroughHost(self.gloo)
        else:
            first = {each.description.process_index: each.id for each in reversed(device_client.client().devices)}
            engine = Programs(tuple(first[member] for member in members), rank)
        self.group = Group(engine)

    # -- names

    def getBackendName(self) -> str:
        """`xla`."""
        return "xla"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:  # type: ignore[override]
        """By which functional collectives find it."""
        return self._name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_desc(self) -> str:  # type: ignore[override]
        """What it is for."""
        return self._description

    # -- one result

    @_collective
    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> None:  # type: ignore[override]
        """Each tensor becomes what those of all members are when folded."""
        for tensor in tensors:
            write(tensor, self.group.all_reduce(_read(tensor), _reduction(opts) if opts else "sum"))

    @_collective
    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> None:  # type: ignore[override]
        """The same."""
        for tensor in tensors:
            write(tensor, self.group.all_reduce(_read(tensor), _reduction(opts) if opts else "sum"))

    @_collective
    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> None:  # type: ignore[override]
        """The same, for one member; the others' tensors stay."""
        for tensor in tensors:
            value = self.group.all_reduce(_read(tensor), _reduction(opts))
            if opts.rootRank == self.group.rank:
                write(tensor, value)

    @_collective
    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> None:  # type: ignore[override]
        """Each tensor becomes that of one member."""
        for tensor in tensors:
            write(tensor, self.group.broadcast(_read(tensor), opts.rootRank))

    # -- a result from each

    @_collective
    def allgather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None) -> None:  # type: ignore[override]
        """All members' tensors."""
        for targets, tensor in zip(outputs, inputs, strict=True):
            self._store_rows(targets, self.group.all_gather(_read(tensor)))

    def _store_rows(self, targets: Sequence[Tensor], value: Value) -> None:
        for target, row in zip(targets, rows(value), strict=True):
            write(target, row)

    @_collective
    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> None:  # type: ignore[override]
        """One behind the other."""
        write(output, self.group.all_gather(_read(input)))

    all_gather_single = _allgather_base  # type: ignore[assignment]

    @_collective
    def allgather_into_tensor_coalesced(  # type: ignore[override]
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> None:
        """The same for several."""
        for output, tensor in zip(outputs, inputs, strict=True):
            write(output, self.group.all_gather(_read(tensor)))

    @_collective
    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> None:  # type: ignore[override]
        """All members' tensors, for one of them."""
        value = self.group.all_gather(_read(inputs[0]))
        if opts.rootRank == self.group.rank:
            self._store_rows(outputs[0], value)

    # -- a part for each

    @_collective
    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> None:  # type: ignore[override]
        """The part of this member, folded."""
        for output, parts in zip(outputs, inputs, strict=True):
            self._scatter(output, stacked([_read(part) for part in parts]), opts)

    def _scatter(self, output: Tensor, value: Value, opts: Any) -> None:
        write(output, self.group.reduce_scatter(value, _reduction(opts) if opts else "sum"))

    def _in_parts(self, tensor: Tensor) -> Value:
        value = _read(tensor)
        return shaped(value, (self.group.size, tensor.numel() // self.group.size))

    @_collective
    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> None:  # type: ignore[override]
        """The same, of one tensor with all parts."""
        self._scatter(output, self._in_parts(input), opts)

    reduce_scatter_single = _reduce_scatter_base  # type: ignore[assignment]

    @_collective
    def reduce_scatter_tensor_coalesced(  # type: ignore[override]
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> None:
        """The same for several."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._scatter(output, self._in_parts(tensor), opts)

    @_collective
    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> None:  # type: ignore[override]
        """The part of this member, of what one of them has."""
        (output,) = outputs
        is_root = opts.rootRank == self.group.rank
        own = zeros_like(_read(output))
        parts = [_read(part) for part in inputs[0]] if is_root else [own] * self.group.size
        write(output, rows(self.group.all_to_all(stacked(parts)))[opts.rootRank])

    @_collective
    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> None:  # type: ignore[override]
        """A tensor to each member, one from each; they may differ in length."""
        flat = [shaped(_read(each), (each.numel(),)) for each in inputs]
        sent, received = [each.numel() for each in inputs], [each.numel() for each in outputs]
        found = self.group.uneven_all_to_all(joined(flat), sent, received)
        for output, value in zip(outputs, split(found, received), strict=True):
            write(output, value)

    @_collective
    def alltoall_base(  # type: ignore[override]
        self, output: Tensor, input: Tensor, output_sizes: Sequence[int], input_sizes: Sequence[int], opts: Any = None
    ) -> None:
        """The same of rows of one tensor; without sizes, as many for each."""
        write(output, self.group.exchange(_read(input), list(input_sizes), list(output_sizes)))

    all_to_all_single = alltoall_base  # type: ignore[assignment]

    # -- between two, through the host

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work:  # type: ignore[override]
        """Sends a copy of the host's."""
        return self.gloo.send([each.detach().cpu() for each in tensors], dstRank, tag)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work:  # type: ignore[override]
        """Receives it, and waits for it where it goes on to the device."""
        return self._received(tensors, lambda hosts: self.gloo.recv(hosts, srcRank, tag))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:  # type: ignore[override]
        """The same, from whoever sends first."""
        return self._received(tensors, lambda hosts: self.gloo.recv_anysource(hosts, tag))

    def _received(self, tensors: Sequence[Tensor], receive: Callable[[list[Tensor]], Work]) -> Work:
        if not any(isinstance(each, XlaTensor) for each in tensors):
            return receive(list(tensors))
        hosts = [torch.empty(each.shape, dtype=each.dtype) for each in tensors]
        return _Receiving(receive(hosts), hosts, tensors)

    # -- all together

    def barrier(self, opts: Any = None) -> Work:  # type: ignore[override]
        """Waits for what this process has started, then for the others."""
        device_module.synchronize()
        return self.gloo.barrier()

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:  # type: ignore[override]
        """The same, and says who does not come."""
        device_module.synchronize()
        self.gloo.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks)


class _Receiving(Work):
    """What comes to the host, and goes on to tensors of the device when somebody waits for it."""

    def __init__(self, work: Work, hosts: Sequence[Tensor], tensors: Sequence[Tensor]):
        super().__init__()
        self._work, self._hosts, self._tensors = work, hosts, tensors

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # type: ignore[override]
        """Until it is there."""
        self._work.wait(timeout)
        for host, tensor in zip(self._hosts, self._tensors, strict=True):
            with torch.no_grad():
                tensor.copy_(host)
        self._tensors = self._hosts = ()
        return True

    def is_completed(self) -> bool:
        """Whether it has come."""
        return self._work.is_completed()

    def source_rank(self) -> int:  # type: ignore[override]
        """Who has sent it."""
        return self._work._source_rank()

    _source_rank = source_rank
