"""MPI's functions and handles in LLVM IR."""

from __future__ import annotations

from xloom.distributed.communicator import BYTE

COMMUNICATOR = "xloom_mpi_communicator"
"""The symbol whose address is MPI's handle of the communicator."""
MPI_BYTE, COMM = f"inttoptr (i64 {BYTE} to ptr)", f"@{COMMUNICATOR}"
"""The type of what is sent, and among whom."""
MPI_DECLARATIONS = f"""
@{COMMUNICATOR} = external global i8
declare i32 @MPI_Isend(ptr, i32, ptr, i32, i32, ptr, ptr)
declare i32 @MPI_Irecv(ptr, i32, ptr, i32, i32, ptr, ptr)
declare i32 @MPI_Test(ptr, ptr, ptr)
declare i32 @MPI_Cancel(ptr)
declare i32 @MPI_Improbe(i32, i32, ptr, ptr, ptr, ptr)
declare i32 @MPI_Mrecv(ptr, i32, ptr, ptr, ptr)
declare i32 @MPI_Request_free(ptr)
"""
