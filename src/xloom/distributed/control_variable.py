"""What MPI is told to do differently once it has begun, by the variables that its tools interface (MPI_T) has."""

from __future__ import annotations

import ctypes

from xloom.distributed import library


def set_control_variable(name: str, value: int) -> bool:
    """Sets an integer variable of this process's MPI; False if that MPI has none of the name, or keeps it."""
    mpi = library.library()
    index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    if mpi.MPI_T_init_thread(ctypes.c_int(0), ctypes.byref(ctypes.c_int())):
        return False
    try:
        if mpi.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)):
            return False
        if mpi.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)):
            return False
        is_set = not mpi.MPI_T_cvar_write(handle, ctypes.byref(ctypes.c_int(value)))
        mpi.MPI_T_cvar_handle_free(ctypes.byref(handle))
        return is_set
    finally:
        mpi.MPI_T_finalize()
