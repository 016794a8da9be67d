"""Makes `xla` a backend of torch.distributed's, and `xla://` a way for processes to find each other."""

from __future__ import annotations

from typing import Any

from torch import distributed
from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous


def register() -> None:
    """Registers both, once, where this build of torch has torch.distributed."""
    if not distributed.is_available():
        return
    from xloom.torch.lazy.distributed import bucket_copies as bucket_copies
    from xloom.torch.lazy.distributed import c10d as c10d
    from xloom.torch.lazy.distributed import (
        device_mesh,
        fully_sharded,
        fully_sharded_state,
        process_group,
        staging,
        unused_parameters,
    )
    from xloom.torch.lazy.distributed import fully_sharded_copies as fully_sharded_copies
    from xloom.torch.lazy.distributed import functional as functional  # they have operators

    device_mesh.register()
    fully_sharded.register()
    fully_sharded_state.register()
    staging.register()
    unused_parameters.register()

    distributed.Backend.register_backend("xla", process_group.make, extended_api=True, devices=["xla"])
    register_rendezvous_handler("xla", _from_environment)


def _from_environment(url: str, **options: Any) -> Any:
    """As torch_xla's scripts ask for it: what torchrun's environment says."""
    return rendezvous(url.replace("xla:", "env:", 1), **options)
