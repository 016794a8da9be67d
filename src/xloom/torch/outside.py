"""Running torch's own operators from within a dispatch, as they run outside of one."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

_INCLUDED = torch._C._dispatch_tls_local_include_set()
_EXCLUDED = torch._C._dispatch_tls_local_exclude_set()


def outside_dispatch() -> AbstractContextManager[None]:
    """Takes back what a dispatch to Python turns off in its thread: without that x * x.conj() is x * x on the host."""
    return torch._C._ForceDispatchKeyGuard(_INCLUDED, _EXCLUDED)
