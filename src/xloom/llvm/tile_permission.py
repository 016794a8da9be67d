"""Linux lets a process use AMX's tile registers after it has asked: threads are switched with 8 KiB more.

Source: Linux's documentation of x86's dynamic features (arch/x86/xstate).
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18
"""Linux's numbers of the system call, of what it is to do, and of the state that is asked for."""


@lru_cache(maxsize=1)
def may_use_tiles() -> bool:
    """Asks for them; False where the kernel or the processor has none."""
    if sys.platform != "linux":
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA) == 0
