"""This process as one of several, each of which has a device."""

from __future__ import annotations

import atexit

from torch._C._distributed_c10d import Store

from xloom.pjrt import Client
from xloom.pjrt.process_topology import ProcessTopology
from xloom.torch.lazy.distributed.torch_store import TorchStore
from xloom.torch.lazy.runtime import device_client, execution

_PLATFORM = "xla"
_joined: list[ProcessTopology] = []


def join(store: Store, process: int, count: int) -> ProcessTopology:
    """Joins the others, once; what the device has recorded or holds stays as it is."""
    if _joined:
        return _joined[0]
    from xloom.pjrt.join import join as join_processes

    execution.flush()
    topology = join_processes(TorchStore(store), _PLATFORM, process, count, 1)
    client = Client.cpu(1, topology)
    device_client.use(client)
    atexit.register(client.close)  # the others wait for what was started here
    _joined.append(topology)
    return topology
