"""PTX: what is in it, and what ptxas makes of it. Nothing of it runs here."""

import pytest

import xloom as xl
from xloom.cuda.lower import lowered
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, sass_of, tool
from xloom.errors import LoweringError
from xloom.llvm.target import target_named

TARGETS = ("sm_80", "sm_90a", "sm_100", "sm_120")
ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
KERNELS = {
    # name: program, words of its PTX, registers at most, bytes of shared memory
    "map": (
        "ENTRY e { x = f32[8192] parameter(0) y = f32[8192] parameter(1) t = f32[8192] tanh(x) "
        "ROOT z = f32[8192] add(t, y) }",
        ("ld.global.nc.v4", "st.global.v4"), 32, 0,
    ),
    "narrow map": (
        "ENTRY e { x = bf16[16384] parameter(0) ROOT z = bf16[16384] multiply(x, x) }",
        ("ld.global.nc.v4", "st.global.v4"), 32, 0,
    ),
    "rows by warps": (
        f"{ADD}ENTRY e {{ x = f32[64,300] parameter(0) i = f32[] constant(0) "
        "ROOT r = f32[64] reduce(x, i), dimensions={1}, to_apply=add }",
        ("shfl.sync.down",), 32, 0,
    ),
    "rows by blocks": (
        f"{ADD}ENTRY e {{ x = f32[200,5000] parameter(0) i = f32[] constant(0) "
        "ROOT r = f32[200] reduce(x, i), dimensions={1}, to_apply=add }",
        ("shfl.sync.down", "barrier.sync|bar.sync"), 32, 32,
    ),
    "columns": (
        f"{ADD}ENTRY e {{ x = f32[300,4096] parameter(0) i = f32[] constant(0) "
        "ROOT r = f32[4096] reduce(x, i), dimensions={0}, to_apply=add }",
        ("st.shared", "barrier.sync|bar.sync"), 32, 1024,
    ),
    "transpose": (
        "ENTRY e { x = f32[640,320] parameter(0) ROOT t = f32[320,640] transpose(x), dimensions={1,0} }",
        ("st.shared", "ld.shared"), 40, 4224,
    ),
    "product": (
        f"ENTRY e {{ x = f32[128,256] parameter(0) y = f32[256,128] parameter(1) ROOT d = f32[128,128] dot(x, y), {DOT} }}",
        ("ld.shared.v4", "fma.rn.f32"), 96, 4352,
    ),
    "bf16 product": (
        f"ENTRY e {{ x = bf16[256,256] parameter(0) y = bf16[256,256] parameter(1) ROOT d = f32[256,256] dot(x, y), {DOT} }}",
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ld.global.nc.v4"), 128, 20480,
    ),
    "tf32 product": (
        f"ENTRY e {{ x = f32[256,256] parameter(0) y = f32[256,256] parameter(1) ROOT d = f32[256,256] dot(x, y), {DOT}, "
        "algorithm=dot_tf32_tf32_f32 }",
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",), 144, 36864,
    ),
    "large bf16 product": (
        f"ENTRY e {{ x = bf16[2048,512] parameter(0) y = bf16[512,2048] parameter(1) "
        f"ROOT d = bf16[2048,2048] dot(x, y), {DOT} }}",
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ld.global.nc.v4", "st.global.b32"), 255, 40960,
    ),
    "rows in stages": (
        f"{ADD}ENTRY e {{ x = f32[64,1000] parameter(0) zero = f32[] constant(0) p = f32[64,1000] exponential(x) "
        "s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add c = f32[64,1000] broadcast(s), dimensions={0} "
        "ROOT q = f32[64,1000] divide(p, c) }",
        ("st.shared", "shfl.sync.down"), 40, 48,
    ),
}  # fmt: skip
with_ptxas = pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")


def kernels(name, target="sm_80"):
    program = lowered(xl.parse(KERNELS[name][0]), target_named(target))
    return [launch.kernel for launch in program.launches]


@pytest.mark.parametrize("name", KERNELS)
def test_what_ptx_has(name):
    (kernel, *_) = kernels(name)
    text = ptx_of(kernel, target_named("sm_80"))
    for word in KERNELS[name][1]:
        assert any(part in text for part in word.split("|")), word
    assert ".local" not in text


@pytest.mark.sampled
@with_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_what_ptxas_makes_of_it(name, target):
    _, _, most_registers, shared_bytes = KERNELS[name]
    machine = target_named(target)
    (kernel, *_) = kernels(name, target)
    made = assembled(ptx_of(kernel, machine), machine)
    assert made.spilled_bytes == made.stack_bytes == 0
    assert made.registers <= most_registers
    assert made.shared_bytes == shared_bytes


@with_ptxas
@pytest.mark.skipif(tool("nvdisasm") is None, reason="nvdisasm comes with the extra `cuda`")
def test_tensor_cores_are_in_the_machine_code():
    (kernel,) = kernels("bf16 product")
    target = target_named("sm_80")
    assert "HMMA.16816.F32.BF16" in sass_of(assembled(ptx_of(kernel, target), target).cubin)


@with_ptxas
def test_what_is_no_ptx_is_refused():
    with pytest.raises(LoweringError, match="ptxas"):
        assembled(".version 7.0\n.target sm_80\nnonsense", target_named("sm_80"))


def test_a_processor_is_no_gpu():
    with pytest.raises(LoweringError, match="is no GPU"):
        lowered(xl.parse(KERNELS["map"][0]), target_named("x86-64-v3"))
