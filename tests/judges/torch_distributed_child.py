"""A process that runs distributed tests of torch's on one side, for torch_distributed.py: `FILES IDS OUT SIDE SECONDS`.

It imports the files once and forks as many ranks as a test wants, which run test after test, each in a group of its own;
when one fails, crashes, or takes longer than SECONDS, they all end, and others are forked. A test passes if it does in
all ranks. With no IDS it lists the tests. On the side `xla` a test that leaves the device alone is `unused`.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed._tensor.placement_types
import torch.distributed.tensor
from torch.testing._internal import common_distributed, common_fsdp, common_utils
from torch.testing._internal.distributed._tensor import common_dtensor
from torch_child import VENDOR, StandIns, names_of_later_versions, stand_in_for_parts_of_torch_xla, stand_in_for_vendor
from torch_child import open_to_all_devices as for_one_device

MOST, BY_DEFAULT = 4, 2
"""Ranks that a test may have, and has where torch's classes leave it to the devices that there are."""
_GRACE = 10
"""Seconds for the other ranks, once one has failed."""
_DIE_WITH_PARENT = 1
_LAUNCHED = "_mp_fn"
"""What each process of one of pytorch/xla's scripts calls."""


Modules = dict[str, ModuleType]
"""Files by their names."""


Traces = Callable[[], Any] | None


class Rank(NamedTuple):
    """A process, and what one tells it."""

    process: int
    pipe: Connection


def torch_classes(side: str) -> None:
    """torch's base classes of distributed tests, for the device of a side and its group."""
    backend = "cpu:gloo,xla:xla" if side == "xla" else "gloo"
    torch.accelerator.device_count = lambda: MOST
    torch.accelerator.set_device_index = lambda device, /: None
    module: Any
    for module in (common_dtensor, common_fsdp):
        module.DEVICE_TYPE, module.DEVICE_COUNT = side, BY_DEFAULT
    common_dtensor.NUM_DEVICES = BY_DEFAULT
    common_dtensor.PG_BACKEND = common_fsdp.DISTRIBUTED_BACKEND = backend
    common_dtensor.DTensorTestBase.backend = property(lambda self: backend)  # type: ignore[assignment]
    common_dtensor.DTensorTestMixin.device_type = property(lambda self: side)  # type: ignore[assignment]
    for module in (common_distributed, common_dtensor, common_fsdp):
        module.skip_if_lt_x_gpu = lambda count, **options: lambda function: function
    own = getattr(torch, side)
    own.device_count, own.set_device = lambda: MOST, lambda device: None  # a process has one, whatever its number
    own.manual_seed, own.initial_seed = torch.manual_seed, torch.initial_seed
    for base in (common_distributed.MultiProcessTestCase, common_fsdp.FSDPTest):
        base._spawn_processes = lambda self: None  # type: ignore[method-assign]
    common_distributed.MultiProcessTestCase.run_test = _run  # type: ignore[method-assign]


def _run(self: Any, name: str, pipe: Any) -> None:
    common_utils.set_rng_seed()
    getattr(self, name)()


def vendors_classes() -> None:
    """A vendor's adaptations of them."""
    testing = f"{VENDOR}.testing"
    distributed: Any = import_module(f"{testing}.common_distributed")
    distributed.with_comms = common_dtensor.with_comms
    distributed.TEST_SKIPS, distributed.init_pg = common_distributed.TEST_SKIPS, _init
    dist.is_hccl_available = lambda: True  # type: ignore[attr-defined]
    distributed.skipIfUnsupportMultiNPU = lambda count: lambda function: function
    dtensor: Any = import_module(f"{testing}._internal.common_dtensor")
    dtensor.NPUDTensorTestBase = common_dtensor.DTensorTestBase
    fsdp: Any = import_module(f"{testing}._internal.common_fsdp")
    fsdp.FSDPNPUTest = common_fsdp.FSDPTest


def as_on_a_tpu() -> None:
    """pytorch/xla's scripts do nothing on devices of another kind."""
    import_module("torch_xla.core.xla_model").xla_device_hw = lambda device: "TPU"  # type: ignore[attr-defined]


def _init(backend: str, world_size: int, rank: int, file_name: str) -> None:
    dist.init_process_group(backend, world_size=world_size, rank=rank, init_method=f"file://{file_name}")


def names_of_earlier_versions() -> None:
    """What suites that were adapted a while ago import, where this version has it under another name."""
    placements: Any = torch.distributed._tensor.placement_types
    placements._Partial = placements.Partial
    sys.modules["torch.distributed._tensor.ops"] = import_module("torch.distributed.tensor._ops")


def _key(path: Path) -> str:
    """What a file is called: its place in the folder of its suites."""
    return path.relative_to(Path.cwd()).with_suffix("").as_posix()


def loaded(path: Path) -> ModuleType:
    """The file as a module, which finds what lies beside it."""
    sys.path[:0] = [str(path.parent), str(path.parent.parent)]
    name = _key(path).replace("/", ".")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(module: ModuleType) -> Iterator[str]:
    """The tests in which processes meet, by class and method."""
    if hasattr(module, _LAUNCHED):
        yield _LAUNCHED
    meets = unittest.TestCase if hasattr(module, "torch_xla") else common_distributed.MultiProcessTestCase
    for name, found in list(vars(module).items()):
        if not isinstance(found, type) or found.__module__ != module.__name__:
            continue
        if issubclass(found, meets):
            yield from (f"{name}.{test}" for test in unittest.TestLoader().getTestCaseNames(found))


def free_port() -> int:
    """For ranks that meet by a number."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def size_of(module: ModuleType, name: str) -> int:
    """How many ranks a test has."""
    kind, _, method = name.partition(".")
    os.environ["WORLD_SIZE"] = str(BY_DEFAULT)
    return int(getattr(getattr(module, kind)(method), "world_size", BY_DEFAULT)) if method else BY_DEFAULT


def verdict(run: Callable[[], None]) -> dict[str, str]:
    """How a test ends in this rank."""
    try:
        run()
    except unittest.SkipTest as skipped:
        return {"verdict": "skip", "message": f"Skipped: {skipped}"}
    except SystemExit as ended:
        for skip in common_distributed.TEST_SKIPS.values():
            if skip.exit_code == ended.code:
                return {"verdict": "skip", "message": f"Skipped: {skip.message}"}
        return {"verdict": "fail", "message": f"exit status {ended.code}"} if ended.code else {"verdict": "pass"}
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        return {"verdict": "fail", "message": f"{type(error).__name__}: {lines[0]}\n{traceback.format_exc()[-1500:]}"}
    return {"verdict": "pass"}


def call(module: ModuleType, name: str, rank: int, size: int, file: str, port: int) -> None:
    """Runs one test as one rank."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="localhost")
    os.environ["MASTER_PORT"] = str(port)
    kind, _, method = name.partition(".")
    try:
        if not method:
            getattr(module, kind)(rank)
            return
        case = getattr(module, kind)
        if issubclass(case, common_distributed.MultiProcessTestCase):
            case._run(rank, method, file, None)
        else:
            getattr(case(method), method)()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def serve(modules: Modules, rank: int, size: int, pipe: Connection, traces: Traces, seconds: float) -> None:
    """A rank's life: runs what it is told to."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    while True:
        path, *test = pipe.recv()
        before = traces() if traces else None
        faulthandler.dump_traceback_later(seconds - _GRACE)  # where it hangs, in the log
        since = time.perf_counter()
        found: dict[str, Any] = verdict(partial(call, modules[path], test[0], rank, size, *test[1:]))
        faulthandler.cancel_dump_traceback_later()
        found["seconds"] = round(time.perf_counter() - since, 3)
        if traces and found["verdict"] == "pass" and traces() == before:
            found["verdict"] = "unused"
        sys.stdout.flush()
        pipe.send(found)


def forked(modules: Modules, size: int, traces: Traces, seconds: float) -> list[Rank]:
    """As many ranks."""
    ranks = []
    for rank in range(size):
        ours, theirs = Pipe()
        process = os.fork()
        if not process:
            serve(modules, rank, size, theirs, traces, seconds)
        theirs.close()
        ranks.append(Rank(process, ours))
    return ranks


def end(ranks: list[Rank]) -> None:
    """Ends them all."""
    for rank in ranks:
        os.kill(rank.process, signal.SIGKILL)
        os.waitpid(rank.process, 0)
        rank.pipe.close()
    ranks.clear()


def told(ranks: list[Rank], path: str, name: str, file: str, seconds: float) -> dict[str, Any]:
    """Runs a test in all ranks; the worst of what they say."""
    port = free_port()
    for rank in ranks:
        rank.pipe.send((path, name, file, port))
    order = ["crash", "fail", "skip", "pass", "unused"]
    said: list[dict[str, Any]] = []
    left = {rank.pipe for rank in ranks}
    until = time.monotonic() + seconds
    while left:
        ready = wait(list(left), max(0.0, until - time.monotonic()))
        if not ready:
            late = {"verdict": "crash", "message": f"{len(left)} of {len(ranks)} ranks have no end"}
            said.append(late if all(each["verdict"] != "fail" for each in said) else {"verdict": "fail", **late})
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)
            left.discard(pipe)
            try:
                said.append(pipe.recv())
            except (EOFError, ConnectionError):
                said.append({"verdict": "crash", "message": "a rank has ended"})
            if said[-1]["verdict"] in ("fail", "crash"):
                until = min(until, time.monotonic() + _GRACE)
    return min(said, key=lambda each: order.index(each["verdict"]))


def main() -> None:
    """Runs or lists them."""
    paths, ids, out, side, seconds = sys.argv[1:]
    sys.meta_path.append(StandIns(VENDOR, "url", "torch_xla"))  # type: ignore[arg-type]
    traces = None
    if side == "xla":
        import xloom.torch
        from xloom.torch.metrics import METRICS

        xloom.torch.install_as_torch_xla()
        stand_in_for_parts_of_torch_xla()
        as_on_a_tpu()
        traces = lambda: repr(METRICS)  # noqa: E731
    stand_in_for_vendor(side)
    names_of_later_versions()
    names_of_earlier_versions()
    torch_classes(side)
    vendors_classes()
    for_one_device(side)

    def write(**row: Any) -> None:
        with Path(out).open("a") as file:
            file.write(json.dumps(row) + "\n")

    wanted = json.loads(Path(ids).read_text()) if ids else None
    modules: Modules = {}
    for file in map(Path, paths.split(",")):
        if wanted is None or any(name.startswith(f"{_key(file)}::") for name in wanted):
            try:
                modules[_key(file)] = loaded(file)
            except Exception:
                print(f"{file} does not load", traceback.format_exc(), sep="\n", flush=True)
    if wanted is None:
        for path, module in modules.items():
            for name in names(module):
                write(id=f"{path}::{name}")
        return
    ranks: list[Rank] = []
    for number, each in enumerate(wanted):
        path, _, name = each.partition("::")
        write(id=each, verdict="started")
        if path not in modules:
            write(id=each, verdict="fail", message=f"{path} does not load")
            continue
        size = size_of(modules[path], name)
        if size > MOST:
            write(id=each, verdict="skip", message=f"Skipped: it wants {size} processes")
            continue
        if len(ranks) != size:
            end(ranks)
            ranks = forked(modules, size, traces, float(seconds))
        with tempfile.TemporaryDirectory() as folder:
            found = told(ranks, path, name, f"{folder}/store{number}", float(seconds))
        write(id=each, **found)
        if found["verdict"] in ("fail", "crash"):
            end(ranks)
    end(ranks)


if __name__ == "__main__":
    main()
