"""What kernels are as PTX and as machine code, for four GPUs that need not be there: a table of facts."""

import re
from typing import NamedTuple

import pytest

import xloom as xl
from tests.cuda.kernel_programs import HUGE, PROGRAMS
from xloom.cuda.lower import lowered
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, sass_of, tool
from xloom.llvm.target import target_named

TARGETS = ("sm_80", "sm_90a", "sm_100", "sm_120")


class Facts(NamedTuple):
    """Of a program's kernels: registers at most, as multiprocessors are filled; of the first one, the rest."""

    registers: int
    shared_bytes: int
    load: int
    """Bytes that a thread loads from global memory at once, or copies."""
    store: int
    words: tuple[str, ...] = ()
    """Instructions, each of which there is."""


BARRIER, SHUFFLES = r"bar(rier)?\.sync", r"shfl\.sync\.down"
BY_WARPS, BY_BLOCKS = (SHUFFLES,), (SHUFFLES, BARRIER)
COLUMNS, ROWS = (r"st\.shared", BARRIER), (r"st\.shared", SHUFFLES, BARRIER)
TURNED = (r"st\.shared", r"ld\.shared", BARRIER)
COPIED = (r"cp\.async\.cg\.shared\.global", r"cp\.async\.wait_group", BARRIER)
ROWS_BY = r"ldmatrix\.sync\.aligned\.m8n8\.x4\.shared"
TURNED_ROWS_BY = r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans\.shared"
BF16 = r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32"
F16 = r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32"
TF32 = r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32"
F64 = r"mma\.sync\.aligned\.m8n8k4\.row\.col\.f64\.f64\.f64\.f64"
U8 = r"mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.u8\.u8\.s32"
S8 = r"mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.s8\.s8\.s32"
ATTENDED = (ROWS_BY, TURNED_ROWS_BY, r"shfl\.sync\.idx")
FACTS = {
    "f32 tanh": Facts(32, 0, 16, 16),
    "f32 add": Facts(32, 0, 16, 16),
    "f32 add of a few": Facts(32, 0, 4, 4),
    "f64 multiply": Facts(32, 0, 16, 16),
    "bf16 multiply": Facts(32, 0, 16, 16),
    "f16 add": Facts(32, 0, 16, 16),
    "s8 add": Facts(40, 0, 16, 16),
    "u64 xor": Facts(32, 0, 16, 16),
    "c64 multiply": Facts(32, 0, 16, 16),
    "f8 add": Facts(40, 0, 16, 16),
    "convert": Facts(32, 0, 8, 16),
    "axpy": Facts(32, 0, 16, 16),
    "bias": Facts(32, 0, 16, 16),
    "pad": Facts(32, 0, 4, 4),
    "concatenate": Facts(32, 0, 16, 16),
    "gather": Facts(32, 0, 16, 16),
    "dynamic slice": Facts(32, 0, 16, 16),
    "iota": Facts(32, 0, 4, 16),
    "lanes": Facts(32, 0, 16, 4, BY_WARPS),
    "warps": Facts(32, 0, 16, 4, BY_WARPS),
    "blocks": Facts(32, 32, 16, 4, BY_BLOCKS),
    "parts": Facts(40, 32, 16, 4, BY_BLOCKS),
    "columns": Facts(32, 1024, 4, 4, COLUMNS),
    "parts of columns": Facts(40, 1024, 4, 4, COLUMNS),
    "maximum": Facts(32, 32, 16, 4, BY_BLOCKS),
    "f64 rows": Facts(32, 64, 16, 8, BY_BLOCKS),
    "bf16 rows": Facts(32, 32, 16, 2, BY_BLOCKS),
    "bf16 columns": Facts(32, 1024, 2, 2, COLUMNS),
    "s32 minimum": Facts(32, 32, 16, 4, BY_BLOCKS),
    "pred and": Facts(32, 16, 16, 1, BY_BLOCKS),
    "argmax": Facts(32, 64, 16, 4, BY_BLOCKS),
    "softmax": Facts(32, 4096, 16, 16, ROWS),
    "short softmax": Facts(32, 432, 16, 16, ROWS),
    "long softmax": Facts(40, 32864, 16, 16, ROWS),
    "bf16 softmax": Facts(40, 4176, 16, 16, ROWS),
    "layer norm": Facts(32, 96, 16, 16, ROWS),
    "few long rows": Facts(40, 32, 16, 4, BY_BLOCKS),
    "f32 transpose": Facts(32, 4224, 4, 4, TURNED),
    "bf16 transpose": Facts(32, 2112, 2, 2, TURNED),
    "f64 transpose": Facts(32, 8448, 8, 8, TURNED),
    "s8 transpose": Facts(40, 4352, 1, 1, TURNED),
    "batched transpose": Facts(32, 4224, 4, 4, TURNED),
    "f32 product": Facts(64, 4352, 4, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "large f32 product": Facts(128, 8448, 4, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "f64 product": Facts(128, 31488, 16, 16, (*COPIED, F64)),
    "s32 product": Facts(64, 4352, 4, 16, (r"ld\.shared\.v4", r"mad\.lo|mul\.lo")),
    "c64 product": Facts(128, 8704, 8, 16),
    "bf16 product": Facts(128, 38912, 16, 8, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "bf16 product, nt": Facts(128, 40960, 16, 8, (*COPIED, ROWS_BY, BF16)),
    "bf16 product, tn": Facts(128, 36864, 16, 8, (*COPIED, TURNED_ROWS_BY, BF16)),
    "large bf16 product": Facts(128, 37888, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "f16 product": Facts(128, 38912, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, F16)),
    "tf32 product": Facts(128, 36864, 16, 8, (*COPIED, TF32)),
    "tf32 product, nt": Facts(128, 36864, 16, 8, (*COPIED, TF32)),
    "attention scores": Facts(96, 40960, 16, 8, (*COPIED, ROWS_BY, BF16)),
    "layer": Facts(128, 38912, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "large layer": Facts(128, 37888, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "f32 layer": Facts(128, 8448, 16, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "layer of long sums": Facts(96, 36864, 16, 8, (*COPIED, TURNED_ROWS_BY, BF16)),
    "attention": Facts(168, 36864, 16, 8, (*COPIED, *ATTENDED, BF16)),
    "attention as JAX masks it": Facts(200, 34832, 16, 8, (*COPIED, *ATTENDED, F16)),
    "deep attention": Facts(192, 34816, 16, 8, (*COPIED, *ATTENDED, BF16)),
    "odd attention": Facts(168, 22528, 16, 8, (*COPIED, *ATTENDED, F16)),
    "s8 product": Facts(96, 40960, 16, 8, (*COPIED, ROWS_BY, S8)),
    "u8 product": Facts(96, 40960, 16, 8, (*COPIED, ROWS_BY, U8)),
    "large s8 product": Facts(128, 40960, 16, 8, (*COPIED, ROWS_BY, S8)),
    "long sums": Facts(96, 36864, 16, 8, (*COPIED, TURNED_ROWS_BY, BF16)),
    "long f32 sums": Facts(64, 4352, 4, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "one row": Facts(32, 1024, 4, 4, COLUMNS),
    "one bf16 row": Facts(32, 1024, 2, 4, COLUMNS),
    "one bf16 column": Facts(32, 32, 16, 2, BY_BLOCKS),
    "convolution": Facts(64, 4352, 4, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "bf16 convolution": Facts(168, 38912, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "bf16 convolution in steps": Facts(128, 38912, 16, 4, (*COPIED, ROWS_BY, TURNED_ROWS_BY, BF16)),
    "gradient of a convolution": Facts(64, 4352, 4, 16, (r"ld\.shared\.v4", r"fma\.rn\.f32", BARRIER)),
    "gradient of a bf16 convolution": Facts(136, 40960, 16, 4, (*COPIED, ROWS_BY, BF16)),
    "gradient of a bf16 convolution in steps": Facts(128, 40960, 16, 4, (*COPIED, ROWS_BY, BF16)),
    "pooling": Facts(32, 0, 4, 4),
    "cumulative sum": Facts(32, 32, 4, 4, (r"shfl\.sync\.up", BARRIER)),
    "cumulative sum of columns": Facts(40, 0, 4, 4),
    "cumulative maximum": Facts(32, 32, 4, 4, (r"shfl\.sync\.up", BARRIER)),
    "cumulative sum of few columns": Facts(32, 0, 4, 4),
    "sort": Facts(40, 2048, 4, 4, (r"st\.shared", r"ld\.shared", BARRIER)),
    "s32 sort": Facts(40, 0, 4, 4),
    "scatter": Facts(32, 0, 4, 0, (r"red\.(relaxed\.\w+\.)?global\.add\.f32|atom\.(relaxed\.\w+\.)?global\.add\.f32",)),
    "bf16 scatter": Facts(32, 0, 4, 0, (r"atom\.(relaxed\.\w+\.)?global\.cas\.b32",)),
    "first of rows": Facts(40, 2048, 4, 4, (r"st\.shared", r"ld\.shared", BARRIER)),
    "unique scatter": Facts(32, 0, 4, 2),
    "transform": Facts(48, 8192, 8, 8, TURNED),
    "f64 transform": Facts(96, 16384, 16, 16, TURNED),
    "transform of real lines": Facts(88, 32768, 8, 8, TURNED),
    "transform of columns": Facts(48, 8192, 8, 8, TURNED),
    "transform of a long line": Facts(56, 8192, 8, 8, TURNED),
    "transform of a prime": Facts(80, 16384, 8, 8, TURNED),
    "triangular system": Facts(48, 12544, 8, 4, TURNED),
    "c64 triangular system": Facts(72, 25088, 8, 8, TURNED),
    "factor": Facts(48, 12544, 8, 4, TURNED),
    "f64 factor": Facts(72, 25088, 8, 8, TURNED),
}
with_ptxas = pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")


def widest(ptx: str, operation: str) -> int:
    """Bytes that a thread moves at once by some of the loads (`ld`) or stores (`st`) of global memory."""
    accesses = re.finditer(rf"\b{operation}\.global(?:\.[a-z]+\w*)*?(?:\.v(\d))?\.[bfus](\d+)\s", ptx)
    found = [0, *(int(access[1] or 1) * int(access[2]) // 8 for access in accesses)]
    if operation == "ld":
        found += [int(size) for size in re.findall(r"cp\.async\.\w+\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", ptx)]
    return max(found)


def test_the_table_has_all_programs():
    assert set(FACTS) == set(PROGRAMS)
    assert sum(len(lowered(xl.parse(PROGRAMS[name]), target_named("sm_80")).kernels) for name in FACTS) >= 60


@pytest.mark.sampled
@pytest.mark.parametrize("name", FACTS)
def test_what_ptx_has(name):
    target, facts = target_named("sm_80"), FACTS[name]
    kernels = list(lowered(xl.parse(PROGRAMS[name]), target).kernels)
    texts = [ptx_of(kernel, target) for kernel in kernels]
    assert (widest(texts[0], "ld"), widest(texts[0], "st")) == (facts.load, facts.store)
    assert kernels[0].shared_bytes + kernels[0].dynamic_shared_bytes == facts.shared_bytes
    for word in facts.words:
        assert re.search(word, texts[0]), word
    assert not any(".local" in text for text in texts)


@pytest.mark.sampled
@with_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FACTS)
def test_what_ptxas_makes_of_it(name, target):
    machine, facts = target_named(target), FACTS[name]
    for kernel in lowered(xl.parse(PROGRAMS[name]), machine).kernels:
        made = assembled(ptx_of(kernel, machine), machine)
        assert made.spilled_bytes == made.stack_bytes == 0
        assert made.registers <= facts.registers
        assert made.shared_bytes <= kernel.shared_bytes
        assert not made.warnings


WARPGROUPS = {
    "large bf16 product": ("m64n128k16.f32.bf16.bf16", 98304, 128),
    "huge layer": ("m64n256k16.f32.bf16.bf16", 196608, 255),
    "huge bf16 product": ("m64n256k16.f32.bf16.bf16", 196608, 255),
    "huge f16 product, tn": ("m64n256k16.f32.f16.f16", 196608, 255),
    "large tf32 product, nt": ("m64n128k8.f32.tf32.tf32", 98304, 128),
}


@with_ptxas
@pytest.mark.parametrize("name", WARPGROUPS)
def test_warpgroups_multiply_what_is_large(name):
    """ptxas says so where it lets products wait for each other; it does not."""
    shape, shared_bytes, registers = WARPGROUPS[name]
    machine = target_named("sm_90a")
    (kernel,) = lowered(xl.parse({**PROGRAMS, **HUGE}[name]), machine).kernels
    ptx = ptx_of(kernel, machine)
    assert f"wgmma.mma_async.sync.aligned.{shape}" in ptx
    assert "fence.proxy.async.shared::cta" in ptx
    made = assembled(ptx, machine)
    assert kernel.dynamic_shared_bytes == shared_bytes
    assert made.registers <= registers
    assert made.spilled_bytes == 0
    assert not made.warnings


@pytest.mark.sampled
@with_ptxas
@pytest.mark.skipif(tool("nvdisasm") is None, reason="nvdisasm comes with the extra `cuda`")
@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("bf16 product", ["HMMA.16816.F32.BF16", "LDGSTS", "LDSM"]),
        ("f16 product", ["HMMA.16816.F32"]),
        ("tf32 product", ["HMMA.1688.F32.TF32"]),
        ("f32 tanh", ["LDG.E.128", "STG.E.128"]),
        ("scatter", ["RED"]),
    ],
)
def test_what_machine_code_has(name, instructions):
    target = target_named("sm_80")
    (kernel,) = lowered(xl.parse(PROGRAMS[name]), target).kernels
    text = sass_of(assembled(ptx_of(kernel, target), target).cubin)
    assert [word for word in instructions if word not in text] == []
