"""The threads that an exported program brings, as machine code: see cpu/runtime/threads."""

from __future__ import annotations

from xloom.cpu.runtime.threads.host_ir import host_ir, threads_ir
from xloom.cpu.runtime.threads.pool import SPIN_NS
from xloom.cpu.runtime.threads.pool_ir import pool_ir
from xloom.cpu.runtime.threads.tasks_ir import tasks_ir
from xloom.llvm.jit import object_code
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target

PARALLEL_FOR = "xloom_pool_parallel_for"
"""Loops come to it by way of `xloom_parallel_for` in program.c, which knows whether the caller has a pool."""


def pool_code(threads: int, target: Target) -> bytes:
    """The object file of a pool of at most so many threads."""
    return object_code(host_ir() + pool_ir(threads, threads, SPIN_NS, True, PARALLEL_FOR), PassPipeline.VECTORS, target)


def tasks_code(threads: int, target: Target) -> bytes:
    """The object file of a queue of the tasks that typed handlers schedule, for at most so many threads."""
    return object_code(threads_ir() + tasks_ir(threads), PassPipeline.VECTORS, target)
