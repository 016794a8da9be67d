"""MPI's own collectives, one after another, called by native code: what they take without any language around them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from xloom.distributed import library
from xloom.distributed.communicator import COMM_WORLD
from xloom.llvm import jit

_FLOAT, _SUM = "inttoptr (i64 528 to ptr)", "inttoptr (i64 33 to ptr)"  # of the standard ABI
_WORLD = f"inttoptr (i64 {COMM_WORLD} to ptr)"
_WHOLE, _PART = f"i32 %n, ptr {_FLOAT}", f"i32 %part, ptr {_FLOAT}"
_CALLS = {
    "psum": f"@MPI_Allreduce(ptr %x, ptr %y, {_WHOLE}, ptr {_SUM}, ptr {_WORLD})",
    "all-gather": f"@MPI_Allgather(ptr %x, {_PART}, ptr %y, {_PART}, ptr {_WORLD})",
    "reduce-scatter": f"@MPI_Reduce_scatter_block(ptr %x, ptr %y, {_PART}, ptr {_SUM}, ptr {_WORLD})",
    "all-to-all": f"@MPI_Alltoall(ptr %x, {_PART}, ptr %y, {_PART}, ptr {_WORLD})",
    "permute": f"@MPI_Sendrecv(ptr %x, {_WHOLE}, i32 %next, i32 0, ptr %y, {_WHOLE}, i32 %previous, i32 0, "
    f"ptr {_WORLD}, ptr null)",
}
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int] * 4, ctypes.c_int64)


def written(n: int) -> np.ndarray:
    """So many zeros in memory of their own: pages that nobody has written to are one, which caches hold, for all."""
    return np.full(n, 0, np.float32)


def barrier() -> None:
    """Waits until all processes have come."""
    assert not library.library().MPI_Barrier(ctypes.c_void_p(COMM_WORLD))


def _types(call: str) -> str:
    """The declaration of the function that is called."""
    name, arguments = call.split("(", 1)
    return f"declare i32 {name}({', '.join(argument.split()[0] for argument in arguments.split(', '))})"


_RESIZES = ("all_gather", "reduce_scatter")


def _loop(name: str, call: str) -> str:
    # what a call gives, the next one takes, if that has as many bytes
    taken, given = ("%first", "%second") if name in _RESIZES else ("%y", "%x")
    return f"""
{_types(call)}
define i32 @{name}(ptr %first, ptr %second, i32 %n, i32 %part, i32 %next, i32 %previous, i64 %calls) {{
entry:
  br label %call
call:
  %k = phi i64 [ 0, %entry ], [ %k.next, %call ]
  %x = phi ptr [ %first, %entry ], [ {taken}, %call ]
  %y = phi ptr [ %second, %entry ], [ {given}, %call ]
  %error = call i32 {call}
  %k.next = add i64 %k, 1
  %are.left = icmp ult i64 %k.next, %calls
  %is.well = icmp eq i32 %error, 0
  %goes.on = and i1 %are.left, %is.well
  br i1 %goes.on, label %call, label %end
end:
  ret i32 %error
}}
"""


def collectives(process: int, count: int) -> Callable[[str, int, int], Callable[[], Any]]:
    """What makes a call that runs a collective so many times, by its name and the bytes of its larger side."""
    names = {name: name.replace("-", "_") for name in _CALLS}
    code = jit.process_code("".join(_loop(names[k], call) for k, call in _CALLS.items()), jit.PassPipeline.VECTORS)
    mpi = library.library()
    functions = {call[1:].split("(")[0] for call in _CALLS.values()}
    imports = {name: ctypes.cast(getattr(mpi, name), ctypes.c_void_p).value or 0 for name in functions}
    compiled = jit.Library([code], list(names.values()), imports)

    def make(name: str, size: int, calls: int) -> Callable[[], Any]:
        n = max(size // 4, count)
        x, y = written(n), written(n)
        function = compiled.function(names[name], _FUNCTION)
        numbers = (n, n // count, (process + 1) % count, (process - 1) % count, calls)

        def run() -> None:
            assert not function(x.ctypes.data, y.ctypes.data, *numbers)

        return run

    return make
