"""The variables of the environment that xloom reads: this is where each is declared, and read through."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """A variable of the environment. As text it is its name."""

    name: str
    meaning: str
    default: str
    """What holds without it, in words."""

    def __str__(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        """What it says now, without blanks around it; empty when it is not set."""
        return os.environ.get(self.name, "").strip()


NUM_THREADS = Variable("XLOOM_NUM_THREADS", "threads of a program; results do not depend on it", "one per processor")
TARGET = Variable("XLOOM_TARGET", "the processor that code is for: host, x86-64-v3, ...", "the host's level of x86-64")
CACHE = Variable("XLOOM_CACHE", "0: compile every program anew, and keep nothing", "1")
CACHE_DIR = Variable("XLOOM_CACHE_DIR", "the folder that machine code is kept in", "xloom in the user's cache folder")
CHECK = Variable(
    "XLOOM_CHECK",
    "what is checked as programs are compiled and run: passes, nan, ..., as docs/checks.md says",
    "nothing",
)
TRACE = Variable("XLOOM_TRACE", "a file for the trace of the whole process, for ui.perfetto.dev", "no trace")
LOG = Variable(
    "XLOOM_LOG",
    "pjrt, torch, recompiles: calls of PJRT, PyTorch's operators, why programs are compiled again, on standard error",
    "no log",
)
SANITIZE = Variable("XLOOM_SANITIZE", "1: custom calls run in the sanitizer; isolate: in a child process", "0")
SANITIZE_SECONDS = Variable("XLOOM_SANITIZE_SECONDS", "how long a call may take in the sanitizer", "60")
AS_CPU = Variable("XLOOM_AS_CPU", "1: JAX's platform cpu is xloom", "0")
DENORMALS = Variable(
    "XLOOM_DENORMALS",
    "flush: denormal floats are 0 to programs of JAX; keep: they are numbers",
    "keep; flush as JAX's CPU",
)
NUM_DEVICES = Variable("XLOOM_NUM_DEVICES", "devices of a PJRT client", "1")
MPI = Variable("XLOOM_MPI", "the library of an MPI 5 that is not found by itself", "MPICH's wheel, or the system's")
DISTRIBUTED_TIMEOUT = Variable("XLOOM_DISTRIBUTED_TIMEOUT", "seconds that processes wait for each other", "120")
TORCH_FALLBACK = Variable("XLOOM_TORCH_FALLBACK", "1: operators of PyTorch without a lowering run on the CPU", "0")
VARIABLES = (
    NUM_THREADS,
    TARGET,
    CACHE,
    CACHE_DIR,
    CHECK,
    TRACE,
    LOG,
    SANITIZE,
    SANITIZE_SECONDS,
    AS_CPU,
    DENORMALS,
    NUM_DEVICES,
    MPI,
    DISTRIBUTED_TIMEOUT,
    TORCH_FALLBACK,
)
"""xloom's own."""

XDG_CACHE_HOME = Variable("XDG_CACHE_HOME", "the user's cache folder", "~/.cache")
XLA_FLAGS = Variable("XLA_FLAGS", "--xla_force_host_platform_device_count=8: devices of JAX's CPU", "one device")
CC = Variable("CC", "the compiler of custom calls in C", "cc, gcc or clang")
CXX = Variable("CXX", "the compiler of custom calls in C++", "c++, g++ or clang++")
NVCC = Variable("NVCC", "the compiler of custom calls in CUDA", "nvcc")
LOCAL_RANK = Variable("LOCAL_RANK", "of the processes of a machine, which this is; torchrun sets it", "the rank")
RANK = Variable("RANK", "of all processes, which this is, for torch_xla's names; torchrun sets it", "0")
WORLD_SIZE = Variable("WORLD_SIZE", "how many processes there are, for torch_xla's names; torchrun sets it", "1")
PJRT_DEVICE = Variable("PJRT_DEVICE", "CUDA: PyTorch's device xla is a GPU; torch_xla's scripts set it", "CPU")
OTHERS = (XDG_CACHE_HOME, XLA_FLAGS, CC, CXX, NVCC, LOCAL_RANK, RANK, WORLD_SIZE, PJRT_DEVICE)
"""Of other programs, which xloom reads as they do."""
