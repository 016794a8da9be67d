"""The machine that code is made for: which instructions it may have, and the sizes that fit its registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import llvmlite.binding as llvm

from xloom.environment import TARGET
from xloom.errors import XloomError
from xloom.llvm.processor_features import features_of
from xloom.llvm.processor_levels import LEVELS, TILES
from xloom.llvm.tile_permission import may_use_tiles

X86_64 = (
    "x86-64", "nehalem", "westmere", "sandybridge", "ivybridge", "haswell",
    "broadwell", "skylake", "skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server",
    "tigerlake", "rocketlake", "alderlake", "sapphirerapids", "emeraldrapids", "graniterapids", "znver1", "znver2",
    "znver3", "znver4", "znver5",
)  # fmt: skip
"""Processors, by LLVM's names. LLVM ends the process over a name that it does not know."""
_CHOICES = ("avx", "avx512f", "avx512bw", "avx512vnni", "avx512bf16", "avx512vbmi", "avx512vbmi2")
"""Features on which code depends."""
_ASKED_FOR = frozenset({
    "cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "fxsr", "hreset", "invpcid", "kl", "mwaitx",
    "pconfig", "pku", "prefetchi", "prfchw", "ptwrite", "rdpid", "rdpru", "rdrnd", "rdseed", "rtm", "serialize",
    "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl", "xsave", "xsavec", "xsaveopt",
    "xsaves",
})  # fmt: skip
"""Features of which LLVM makes no use by itself: only programs that name their instructions have these."""
AARCH64 = ("aarch64", "cortex-a72", "cortex-a76", "neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1", "apple-m4")
"""The same of 64-bit Arm; `aarch64` is what all of them can do."""
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
"""NVIDIA's, by the names that ptxas has too."""


class VectorRegisters(NamedTuple):
    """The widest ones that code uses."""

    nbytes: int
    count: int


class Caches(NamedTuple):
    """Bytes of data in the caches that a thread sees, to which blocks of work are cut, and how the first one is made.

    By default those of a core of a server (AMD Zen 4), on which the shares of them that kernels take were measured.
    They are part of a target and not asked of the host, so that equal targets make equal code.
    """

    first: int = 32 << 10
    second: int = 1 << 20
    last: int = 32 << 20
    """That several cores share."""
    ways: int = 8
    """Lines that the first one holds of addresses that differ by multiples of `period`."""

    @property
    def period(self) -> int:
        """Bytes after which addresses have the same few places in the first one."""
        return self.first // self.ways


_SERVER = Caches()
_OLDER = Caches(second=1 << 19)
"""Of x86-64 without AVX-512: AMD Zen 1 to 3. What a thread finds in the last cache depends on its neighbours."""


@dataclass(frozen=True)
class Target:
    """A processor: what LLVM and our own choices of code have to know of it. Equal targets make equal code."""

    name: str
    """What `--target` calls it."""
    triple: str
    """LLVM's architecture, vendor, system."""
    cpu: str
    """LLVM's name of the processor."""
    features: frozenset[str]
    """What it can do, by LLVM's names; none of other architectures than x86-64, where nothing depends on them."""
    feature_text: str = ""
    """Features in which it differs from what LLVM knows of `cpu`, as LLVM wants them."""
    flushes_denormals: bool = False
    """Programs take denormal floats for 0, as XLA's do on the CPU: their entry functions have it done, no kernel."""

    def __hash__(self) -> int:
        return hash((self.triple, self.cpu, self.feature_text, self.caches))

    @cached_property
    def registers(self) -> VectorRegisters:
        """Bytes of a vector, and how many there are. AVX-512 without instructions on bytes counts as AVX2."""
        if self.features >= {"avx512f", "avx512bw"}:
            return VectorRegisters(64, 32)
        if "avx" in self.features:
            return VectorRegisters(32, 16)
        return VectorRegisters(16, 16 if self.is_x86 else 32)

    @cached_property
    def caches(self) -> Caches:
        """What the caches of such processors hold."""
        return _OLDER if self.is_x86 and self.registers.nbytes < 64 else _SERVER

    @property
    def is_x86(self) -> bool:
        """True for x86-64, whose own instructions some kernels name."""
        return self.triple.startswith("x86_64")

    @property
    def is_arm(self) -> bool:
        """True for 64-bit Arm."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def is_gpu(self) -> bool:
        """True for those whose code is PTX: kernels that many threads run, and no entry function."""
        return self.triple.startswith("nvptx")

    @property
    def has_pair_products(self) -> bool:
        """Sums of two products of 16-bit integers at once."""
        return self.is_x86

    @property
    def adds_pair_products(self) -> bool:
        """The same, added to what a vector of 64 bytes has, by one instruction."""
        return self.registers.nbytes == 64 and "avx512vnni" in self.features

    @property
    def has_narrowing(self) -> bool:
        """True when vectors of f32 are rounded to bf16 at once, as long as none of them is subnormal."""
        return self.registers.nbytes == 64 and "avx512bf16" in self.features

    @property
    def has_bfloat_products(self) -> bool:
        """Sums of two products of bf16 at once, in vectors of 64 bytes, and as fast as two products of f32.

        Intel's processors that have f16 too (Sapphire, Emerald and Granite Rapids) take four times as long for one.
        """
        return self.registers.nbytes == 64 and "avx512bf16" in self.features and "avx512fp16" not in self.features

    @property
    def has_tiles(self) -> bool:
        """AMX's products of tiles of bf16 and of bytes, in registers of 16 rows of 64 bytes."""
        return self.registers.nbytes == 64 and self.features.issuperset(TILES)

    @property
    def has_scaling(self) -> bool:
        """Products with a power of 2 whose exponent is given."""
        return self.registers.nbytes == 64

    def packs_lanes(self, bits: int = 32) -> bool:
        """True when one instruction moves the lanes of a mask to the front: that of AVX-512, in vectors of 64 bytes."""
        return self.registers.nbytes == 64 and (bits >= 32 or "avx512vbmi2" in self.features)

    def moves_lanes(self, bits: int) -> bool:
        """True when one instruction brings lanes of so many bits in any order."""
        return self.packs_lanes() and (bits > 8 or "avx512vbmi" in self.features)

    @property
    def key(self) -> bytes:
        """What machine code depends on besides its IR: LLVM's version, the processor and its features."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"{version} {self.triple} {self.cpu} {self.feature_text} {tuple(self.caches)}".encode()

    @property
    def program_key(self) -> bytes:
        """What whole programs depend on besides their modules."""
        return self.key + (b" flushes" if self.flushes_denormals else b"")

    @property
    def runs_here(self) -> bool:
        """True when this machine has all that its code may use."""
        host = host_target()
        return self == host or (self.triple == host.triple and not self.lacking)

    @property
    def lacking(self) -> frozenset[str]:
        """What its code may use that this machine has not."""
        return self.features - host_target().features - _ASKED_FOR


@lru_cache(maxsize=1)
def host_target() -> Target:
    """This machine, with all that it can do and this process may."""
    features = llvm.get_host_cpu_features()
    if any(name.startswith("amx") and has for name, has in features.items()) and not may_use_tiles():
        features.update({name: False for name in features if name.startswith("amx")})
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    return Target("host", triple, cpu, frozenset(name for name, has in features.items() if has), features.flatten())


@lru_cache(maxsize=16)
def target_named(name: str) -> Target:
    """A level, a processor or a GPU: see `LEVELS`, `X86_64`, `AARCH64`, `GPUS`, or "host".

    Raises XloomError for a name of none.
    """
    if name == "host":
        return host_target()
    if name in LEVELS or name in X86_64:
        triple = host_target().triple if host_target().is_x86 else "x86_64-unknown-linux-gnu"
        if level := LEVELS.get(name):
            return Target(name, triple, level.cpu, level.features, level.more)
        asked = llvm.get_host_cpu_features() if host_target().is_x86 else _CHOICES
        return Target(name, triple, name, features_of(name, triple, asked))
    if name in AARCH64:
        triple = "aarch64-unknown-linux-gnu" if host_target().is_x86 else host_target().triple
        return Target(name, triple, "generic" if name == "aarch64" else name, frozenset())
    if name in GPUS:
        return Target(name, "nvptx64-nvidia-cuda", name, frozenset())
    names = ", ".join((*LEVELS, *X86_64, *AARCH64, *GPUS))
    raise XloomError(f"no target is called {name!r}", hint=f"host, or one of {names}")


@lru_cache(maxsize=1)
def host_level() -> Target:
    """The best level that this machine reaches, or else this machine: equal levels make equal code."""
    levels = (target_named(name) for name in LEVELS if host_target().is_x86)
    return next((level for level in levels if level.runs_here), host_target())


@lru_cache(maxsize=1)
def process_target() -> Target:
    """What code that runs in this process is for: $XLOOM_TARGET, or the level of the host.

    Raises XloomError for one whose code the host cannot run.
    """
    name = TARGET.text
    if not name:
        return host_level()
    try:
        target = target_named(name)
    except XloomError as error:
        raise XloomError(f"{TARGET} is {name!r}", hint=error.hint) from None
    if not target.runs_here:
        lacking = sorted(target.lacking) or [target.triple]
        raise XloomError(
            f"{TARGET} is {name!r}, but the host lacks {', '.join(lacking)}",
            hint=f"unset {TARGET}; xloom opt --emit asm --target {name} shows code for other machines",
        )
    return target
