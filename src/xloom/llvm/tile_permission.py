"""Linux lets a process use AMX's tile registers after it has asked: threads are switched with 8 KiB more.

Source: Linux's documentation of x86's dynamic features (arch/x86/xstate).
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18
"""Linux's numbers of the system call, of what it is to do, and of the state that is asked for."""
TILES_REQUEST = (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)
"""What is given to `syscall`, which says 0 where tiles may be used from then on."""


@lru_cache(maxsize=1)
def may_use_tiles() -> bool:
    """Asks for them; False where the kernel or the processor has none."""
    return sys.platform == "linux" and ctypes.CDLL(None).syscall(*TILES_REQUEST) == 0
