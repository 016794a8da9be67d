"""The process group of backend `xla`: tensors of the device by collectives of its own, those of the host by Gloo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import ScriptObject, Tensor
from torch._C._distributed_c10d import PrefixStore, _resolve_process_group
from torch.distributed import AllreduceOptions, ProcessGroup, ProcessGroupGloo, Work

from xloom.distributed.timeout import seconds
from xloom.errors import DistributedError
from xloom.torch.lazy.distributed.arguments import check_peer
from xloom.torch.lazy.distributed.barriers import Barriers
from xloom.torch.lazy.distributed.collectives import Group, Programs
from xloom.torch.lazy.distributed.device_mesh import register_tensors
from xloom.torch.lazy.distributed.joining import join
from xloom.torch.lazy.distributed.through_host import ThroughHost
from xloom.torch.lazy.distributed.torch_store import TorchStore
from xloom.torch.lazy.distributed.waiting_board import WaitingBoard
from xloom.torch.lazy.recording import log
from xloom.torch.lazy.runtime import device_client, device_module
from xloom.torch.lazy.tensor.argument_tensors import argument_tensors
from xloom.torch.lazy.tensor.tensor import XlaTensor

DIRECT: dict[str, Callable[..., Work]] = {}
"""What c10d.py does for methods here that are called often, as each bucket of gradients does: torch's way there by its
dispatcher takes some ten times as long as to begin the collective."""


def make(options: Any, backend_options: Any) -> ProcessGroup:
    """What `init_process_group` and `new_group` call."""
    register_tensors()
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    return XlaProcessGroup(options.store, options.group_rank, members, options.timeout)


def _all_of_host(given: Sequence[Any]) -> bool:
    return all(each.device.type == "cpu" for each in argument_tensors(given))


def _are_plain(tensors: Any) -> bool:
    """Whether these are a list of the device's tensors, and neither a log, a profiler nor a mode sees operators."""
    profiles = torch._C._autograd._profiler_enabled()  # type: ignore[attr-defined]
    is_watched = log.on or profiles or torch._C._len_torch_dispatch_stack()
    return not is_watched and type(tensors) is list and all(type(each) is XlaTensor for each in tensors)


class XlaProcessGroup(ProcessGroup):
    """Processes with a device each. Its collectives are torch's operators `c10d`, which tensors are dispatched on."""

    def __init__(self, store: Any, rank: int, members: Sequence[int], timeout: timedelta):
        """`members` are the numbers, among all processes, of those of the group."""
        super().__init__(rank, len(members))  # type: ignore[call-arg]
        self.gloo: Any = ProcessGroupGloo(PrefixStore("gloo/", store), rank, len(members), timeout=timeout)
        own: Any = PrefixStore("xloom/", store)
        self._barriers = Barriers(self.gloo, TorchStore(own.clone()), members)
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self.gloo)
        self._name = self._description = ""
        whole = torch.distributed.distributed_c10d.GroupMember.WORLD
        if whole is None:
            topology = join(PrefixStore("xloom/", store), rank, len(members))
        elif isinstance(whole, XlaProcessGroup):
            topology = whole.process_topology
        else:
            raise DistributedError(
                "a group of backend xla within one of another backend",
                hint="torch.distributed.init_process_group('cpu:gloo,xla:xla')",
            )
        self.process_topology = topology
        if topology.connected is None:
            own: Any = PrefixStore("xloom/", store)
            self.board = WaitingBoard(TorchStore(own.clone()), rank, seconds()) if whole is None else whole.board
            engine = ThroughHost(self.gloo, members, self.board)
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

    # -- collectives: torch's method dispatches them (c10d.py). It keeps Python's lock, which Gloo's threads want
    # while they keep Gloo's: tensors of the host go to Gloo past it.

    def allreduce(self, *given: Any) -> Work:  # type: ignore[override]
        """Each tensor becomes what those of all members are when folded."""
        if len(given) == 2 and type(given[1]) is AllreduceOptions and _are_plain(given[0]):
            return DIRECT["allreduce"](self.group, *given)
        return self.gloo.allreduce(*given) if _all_of_host(given) else super().allreduce(*given)

    def allreduce_coalesced(self, *given: Any) -> Work:  # type: ignore[override]
        """The same."""
        return self.gloo.allreduce_coalesced(*given) if _all_of_host(given) else super().allreduce_coalesced(*given)

    def reduce(self, *given: Any) -> Work:  # type: ignore[override]
        """The same, for one member; the others' tensors stay."""
        return self.gloo.reduce(*given) if _all_of_host(given) else super().reduce(*given)

    def broadcast(self, *given: Any) -> Work:  # type: ignore[override]
        """Each tensor becomes that of one member."""
        return self.gloo.broadcast(*given) if _all_of_host(given) else super().broadcast(*given)

    def allgather(self, *given: Any) -> Work:  # type: ignore[override]
        """All members' tensors."""
        return self.gloo.allgather(*given) if _all_of_host(given) else super().allgather(*given)

    def allgather_coalesced(self, *given: Any) -> Work:  # type: ignore[override]
        """The same, with a list for each member."""
        return self.gloo.allgather_coalesced(*given) if _all_of_host(given) else super().allgather_coalesced(*given)

    def all_gather_single(self, *given: Any) -> Work:  # type: ignore[override]
        """One behind the other."""
        return self.gloo._allgather_base(*given) if _all_of_host(given) else super().all_gather_single(*given)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, *options: Any) -> Work:  # type: ignore[override]
        """The same for several."""
        if not _all_of_host((inputs,)):
            return super().all_gather_single_coalesced(outputs, inputs, *options)
        lists = [list(parts) for parts in zip(*(output.chunk(self.size()) for output in outputs), strict=True)]
        return self.gloo.allgather_coalesced(lists, inputs, *options)

    def gather(self, *given: Any) -> Work:  # type: ignore[override]
        """All members' tensors, for one of them."""
        return self.gloo.gather(*given) if _all_of_host(given) else super().gather(*given)

    def reduce_scatter(self, *given: Any) -> Work:  # type: ignore[override]
        """The part of this member, folded."""
        return self.gloo.reduce_scatter(*given) if _all_of_host(given) else super().reduce_scatter(*given)

    def reduce_scatter_single(self, *given: Any) -> Work:  # type: ignore[override]
        """The same, of one tensor with all parts."""
        return self.gloo._reduce_scatter_base(*given) if _all_of_host(given) else super().reduce_scatter_single(*given)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, *options: Any) -> Work:  # type: ignore[override]
        """The same for several."""
        if not _all_of_host((inputs,)):
            return super().reduce_scatter_single_coalesced(outputs, inputs, *options)
        pairs = zip(outputs, inputs, strict=True)
        return _Several([self.gloo._reduce_scatter_base(*pair, *options) for pair in pairs])

    def scatter(self, *given: Any) -> Work:  # type: ignore[override]
        """The part of this member, of what one of them has."""
        return self.gloo.scatter(*given) if _all_of_host(given) else super().scatter(*given)

    def alltoall(self, *given: Any) -> Work:  # type: ignore[override]
        """A tensor to each member, one from each; they may differ in length."""
        return self.gloo.alltoall(*given) if _all_of_host(given) else super().alltoall(*given)

    def all_to_all_single(self, *given: Any) -> Work:  # type: ignore[override]
        """The same of rows of one tensor; without sizes, as many for each."""
        return self.gloo.alltoall_base(*given) if _all_of_host(given) else super().all_to_all_single(*given)

    def _start_coalescing(self, device: torch.device) -> None:
        """Several that are waited for as one. Those of the device are not waited for anyway."""
        if device.type != "xla":
            super()._start_coalescing(device)  # type: ignore[misc]

    def _end_coalescing(self, device: torch.device) -> Work:
        """What there is to wait for."""
        return _Several(()) if device.type == "xla" else super()._end_coalescing(device)  # type: ignore[misc]

    # -- between two, through the host

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work:  # type: ignore[override]
        """Sends a copy of the host's, row by row however it lies."""
        check_peer(dstRank, self.rank(), self.size())
        return self.gloo.send([each.detach().cpu().contiguous() for each in tensors], dstRank, tag)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work:  # type: ignore[override]
        """Receives it, and waits for it where it goes on to the device."""
        check_peer(srcRank, self.rank(), self.size())
        return self._received(tensors, lambda hosts: self.gloo.recv(hosts, srcRank, tag))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:  # type: ignore[override]
        """The same, from whoever sends first."""
        return self._received(tensors, lambda hosts: self.gloo.recv_anysource(hosts, tag))

    def _received(self, tensors: Sequence[Tensor], receive: Callable[[list[Tensor]], Work]) -> Work:
        if not any(isinstance(each, XlaTensor) for each in tensors):
            return receive(list(tensors))
        hosts = [torch.empty(each.shape, dtype=each.dtype, device="cpu") for each in tensors]
        return _Receiving(receive(hosts), hosts, tensors)

    # -- all together

    def barrier(self, opts: Any = None) -> Work:  # type: ignore[override]
        """Waits for what this process has started, then for the others."""
        device_module.synchronize()
        return self._barriers.begin(opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:  # type: ignore[override]
        """The same, and says who does not come."""
        device_module.synchronize()
        self.gloo.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks)


def group_of(group: ProcessGroup | ScriptObject | str) -> Group:
    """The collectives of a group, as operators name it. Raises DistributedError if it is of another backend."""
    if isinstance(group, ScriptObject):
        group = ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = _resolve_process_group(group)  # type: ignore[arg-type]
    if not isinstance(group, XlaProcessGroup):
        raise DistributedError(
            f"a tensor on xla, and a group of backend {group.name()}",
            hint="torch.distributed.init_process_group('cpu:gloo,xla:xla')",
        )
    return group.group


class _Several(Work):
    """What is done when all of some works are."""

    def __init__(self, works: Sequence[Work]):
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # type: ignore[override]
        """For each."""
        return all([work.wait(timeout) for work in self._works])

    def is_completed(self) -> bool:
        """Whether all are."""
        return all(work.is_completed() for work in self._works)


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
