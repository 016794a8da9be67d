"""Code for other processors than the host: the same values where it runs, and only instructions that they have."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import xloom as xl
from tests.cpu.aarch64_emulator import emulated
from xloom.cpu.compile import compile
from xloom.cpu.printers import asm_text
from xloom.errors import LoweringError, XloomError
from xloom.llvm.processor_features import features_of
from xloom.llvm.processor_levels import LEVELS
from xloom.llvm.target import AARCH64, X86_64, Target, VectorRegisters, host_level, host_target, target_named

LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }"
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = f32[] add(a, b) }"
PROGRAMS = {
    "loops": "ENTRY e { x = f32[999] parameter(0) a = f32[999] exponential(x) ROOT r = f32[999] log-plus-one(a) }",
    "fold": SUM + "ENTRY e { x = f32[33,77] parameter(0) z = f32[] constant(0)"
    " ROOT r = f32[33] reduce(x, z), dimensions={1}, to_apply=sum }",
    "dot": "ENTRY e { x = f32[40,50] parameter(0) y = f32[50,70] parameter(1)"
    " ROOT r = f32[40,70] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "narrow dot": "ENTRY e { x = bf16[40,64] parameter(0) y = bf16[64,70] parameter(1)"
    " ROOT r = f32[40,70] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "convolution": "ENTRY e { x = f32[2,9,9,16] parameter(0) w = f32[3,3,16,20] parameter(1)"
    " ROOT r = f32[2,9,9,20] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }",
    "sort": LESS + "ENTRY e { x = f32[3000] parameter(0) ROOT r = f32[3000] sort(x), dimensions={0}, to_apply=less }",
    "transpose": "ENTRY e { x = f32[130,70] parameter(0) ROOT r = f32[70,130] transpose(x), dimensions={1,0} }",
    "convert": "ENTRY e { x = f32[999] parameter(0) h = f16[999] convert(x) b = bf16[999] convert(h)"
    " ROOT r = f32[999] convert(b) }",
    "fft": "ENTRY e { x = c64[12,60] parameter(0) ROOT r = c64[12,60] fft(x), fft_type=FFT, fft_length={60} }",
    "cholesky": "ENTRY e { x = f32[90,90] parameter(0) t = f32[90,90] transpose(x), dimensions={1,0}"
    " p = f32[90,90] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} i = f32[90,90] iota(),"
    " iota_dimension=0 j = f32[90,90] iota(), iota_dimension=1 d = pred[90,90] compare(i, j), direction=EQ"
    " e = f32[90,90] convert(d) s = f32[90,90] add(p, e) ROOT r = f32[90,90] cholesky(s), lower=true }",
    "loop": "c { s = (s32[], f32[600]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)"
    " ROOT l = pred[] compare(i, n), direction=LT } "
    "b { s = (s32[], f32[600]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(1)"
    " j = s32[] add(i, n) x = f32[600] get-tuple-element(s), index=1 y = f32[600] sine(x)"
    " ROOT t = (s32[], f32[600]) tuple(j, y) } "
    "ENTRY e { x = f32[600] parameter(0) z = s32[] constant(0) t = (s32[], f32[600]) tuple(z, x)"
    " w = (s32[], f32[600]) while(t), condition=c, body=b ROOT r = f32[600] get-tuple-element(w), index=1 }",
}


def module(name: str) -> xl.Module:
    return xl.parse("HloModule m " + PROGRAMS[name])


HALVES = np.array([0, 1, 0x3FF, 0x400, 0x3C01, 0x7BFF, 0x7C00], np.uint16).view(np.float16)
"""Zero, the least one, on both sides of the least normal one, one after 1, the greatest one, infinity."""


def test_f16_without_instructions():
    if not target_named("x86-64-v2").runs_here:
        pytest.skip("the host cannot do that much")
    text = "HloModule m ENTRY e { x = f32[N] parameter(0) h = f16[N] convert(x) w = f32[N] convert(h)"
    text += " ROOT r = (f16[N], f32[N]) tuple(h, w) }"
    x = HALVES.astype(np.float32)
    near = np.concatenate([x, (x[1:] + x[:-1]) / 2, x[1:] * 0.9999, x * 1.0001, [65519, 65520, 1e-8, 3e38, np.nan]])
    x = np.concatenate([near, -near]).astype(np.float32)
    half, wide = compile(xl.parse(text.replace("[N]", f"[{len(x)}]")), target_named("x86-64-v2"))(x)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(half, expected)
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, level):
    target = target_named(level)
    if not target.runs_here:
        pytest.skip("the host cannot do that much")
    generator = np.random.default_rng(0)
    program = module(name)
    arguments = [generator.normal(size=p.shape.dims).astype(p.shape.dtype.numpy) for p in program.entry.parameters]
    mine, other = compile(program, target)(*arguments), xl.evaluate(program, *arguments)
    kind = np.complex128 if np.iscomplexobj(other) else np.float64
    np.testing.assert_allclose(np.asarray(mine, kind), np.asarray(other, kind), 1e-4, 1e-4)


@pytest.mark.parametrize("target", ["aarch64", "apple-m1"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_in_an_emulated_processor(name, target):
    generator = np.random.default_rng(0)
    program = module(name)
    arguments = [generator.normal(size=p.shape.dims).astype(p.shape.dtype.numpy) for p in program.entry.parameters]
    [mine], other = emulated(program, target_named(target), arguments), xl.evaluate(program, *arguments)
    kind = np.complex128 if np.iscomplexobj(other) else np.float64
    np.testing.assert_allclose(np.asarray(mine, kind), np.asarray(other, kind), 1e-4, 1e-4)


# how instructions on the widest vectors are named, and those that there must not be; in loops LLVM likes half of v4's
WIDEST = {
    "x86-64-v2": ("xmm", "ymm|zmm|vaddps"),
    "x86-64-v3": ("ymm", "zmm"),
    "x86-64-v4": ("zmm", "vpdpwssd|vdpbf16ps|vpermb"),
    "sapphirerapids": ("zmm", "ld1|fmla"),
    "aarch64": (r"fmla\s+v\d+.4s", r"%xmm|%ymm|%zmm|\bz\d+\.s"),
    "neoverse-n1": (r"fmla\s+v\d+.4s", r"%xmm|%ymm|%zmm|\bz\d+\.s"),
}


@pytest.mark.parametrize("name", WIDEST)
def test_instructions(name):
    has, lacks = WIDEST[name]
    texts = {program: asm_text(module(program), target_named(name)) for program in PROGRAMS}
    for program in ("dot", "convolution"):
        assert re.search(has, texts[program]), program
    assert not [program for program, text in texts.items() if re.search(lacks, text)]


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("nehalem", VectorRegisters(16, 16)),
        ("haswell", VectorRegisters(32, 16)),
        ("znver3", VectorRegisters(32, 16)),
        ("skylake-avx512", VectorRegisters(64, 32)),
        ("neoverse-v2", VectorRegisters(16, 32)),
    ],
)
def test_registers(name, registers):
    assert target_named(name).registers == registers


def test_what_a_processor_can_do():
    skylake, icelake, zen = map(target_named, ("skylake-avx512", "icelake-server", "znver4"))
    sapphire, level = map(target_named, ("sapphirerapids", "x86-64-v4-fp16"))
    assert (skylake.adds_pair_products, icelake.adds_pair_products) == (False, True)
    assert (icelake.has_bfloat_products, zen.has_bfloat_products) == (False, True)
    assert not sapphire.has_bfloat_products and not level.has_bfloat_products  # they have them, but slow ones
    assert skylake.packs_lanes(32) and not skylake.packs_lanes(16) and icelake.packs_lanes(16)
    assert target_named("x86-64-v3").features < skylake.features < icelake.features


@pytest.mark.parametrize(
    ("level", "processor"),
    [
        ("v4-amx", "sapphirerapids"),
        ("v4-fp16", "sapphirerapids"),
        ("v4-bf16", "znver4"),
        ("v4-vbmi2", "icelake-server"),
        ("v4-vnni", "cascadelake"),
        ("v4", "skylake-avx512"),
        ("v3", "haswell"),
        ("v2", "nehalem"),
    ],
)
def test_a_level_is_what_processors_have_in_common(level, processor):
    level = LEVELS[f"x86-64-{level}"]
    triple = "x86_64-unknown-linux-gnu"
    assert features_of(processor, triple, level.features) == level.features
    # what is fast is a matter of taste
    more = {name.lstrip("+") for name in level.more.split(",") if name.startswith("+") and "fast" not in name}
    assert features_of(level.cpu, triple, level.features) | more == level.features


def test_levels_get_less_and_code_is_for_the_best_that_runs_here():
    assert all(a.features > b.features for a, b in pairwise(LEVELS.values()))
    if host_target().is_x86:
        names = list(LEVELS)
        assert host_level().runs_here and host_level().name in names
        assert not any(target_named(name).runs_here for name in names[: names.index(host_level().name)])


def test_loops_take_the_registers_that_a_level_has():
    text = asm_text(module("loops"), target_named("x86-64-v4-bf16"))
    assert "zmm" in text


def test_what_no_code_uses_need_not_be_there():
    host = host_target()
    assert not Target("new", host.triple, "new", frozenset({*host.features, "sgx", "uintr"})).lacking
    assert Target("new", host.triple, "new", frozenset({*host.features, "avx99"})).lacking == {"avx99"}


def test_every_name_is_one_of_llvms():
    program = "from xloom.llvm import jit, target\nfor n in (*target.LEVELS, *target.X86_64, *target.AARCH64):\n"
    program += "    jit.target_machine.__wrapped__(target.target_named(n))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_code_for_other_machines_is_not_run():
    other = target_named("neoverse-n1" if host_target().is_x86 else "x86-64-v3")
    with pytest.raises(LoweringError, match=f"code for {other.name} does not run on this machine"):
        compile(module("loops"), other)


def test_an_unknown_name_is_refused():
    with pytest.raises(XloomError, match="no target is called 'pentium'") as error:
        target_named("pentium")
    assert error.value.hint and all(name in error.value.hint for name in (*LEVELS, *X86_64, *AARCH64))


LOOP = "define void @f(ptr %p) { %x = load <16 x float>, ptr %p %y = fadd <16 x float> %x, %x "
LOOP += "store <16 x float> %y, ptr %p ret void }"
OF_PROCESS = f"""
import json
import xloom as xl
from xloom.llvm import jit
from xloom.llvm.target import process_target
target = process_target()
xl.compile(xl.parse("HloModule m {PROGRAMS["loops"]}"))
print(json.dumps([target.registers.nbytes, jit.assembly("{LOOP}", jit.PassPipeline.LOOPS, target)]))
"""


def run(target: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XLOOM_TARGET": target, "XLOOM_CACHE": "0"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_the_target_of_the_process():
    ran = run("x86-64-v3", OF_PROCESS)
    if "but the host lacks" in ran.stderr:
        pytest.skip("the host cannot do that much")
    assert not ran.returncode, ran.stderr
    nbytes, assembly = json.loads(ran.stdout)
    assert nbytes == 32
    assert "zmm" not in assembly and "ymm" in assembly


@pytest.mark.parametrize(
    ("name", "message"), [("x86-64-v9", "XLOOM_TARGET is 'x86-64-v9'"), ("apple-m1", "but the host lacks aarch64")]
)
def test_a_wrong_target_of_the_process(name, message):
    if name.startswith("apple") and not host_target().is_x86:
        pytest.skip("the host may be one")
    ran = run(name, "import xloom as xl\nxl.compile(xl.parse('HloModule m ENTRY e { ROOT x = f32[] parameter(0) }'))")
    assert ran.returncode and message in ran.stderr


@pytest.mark.parametrize(
    ("name", "adds"),
    [("x86-64-v2", "pmaddwd"), ("x86-64-v3", "vpmaddwd"), ("x86-64-v4", "vpmaddwd"), ("x86-64-v4-vnni", "vpdpwssd")],
)
def test_products_of_bytes_are_summed_in_pairs(name, adds):
    module = xl.parse("""HloModule m
        ENTRY e {
          x = s8[256,512] parameter(0)
          y = s8[512,256] parameter(1)
          ROOT z = s32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }""")
    text = asm_text(module, target_named(name))
    assert adds in text and "pmulld" not in text


@pytest.mark.parametrize("rows", [63, 64])
def test_small_products_of_bf16_are_in_pairs_where_many_rows_meet_them(rows):
    module = xl.parse(f"""HloModule m
        ENTRY e {{
          x = bf16[4,{rows},64] parameter(0)
          y = bf16[4,64,32] parameter(1)
          ROOT z = f32[4,{rows},32] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
        }}""")
    assert ("vdpbf16ps" in asm_text(module, target_named("znver4"))) == (rows == 64)


def test_rows_of_bf16_that_many_columns_meet_are_widened_once():
    program = xl.parse("""HloModule m
        ENTRY e {
          x = bf16[529,77] parameter(0)
          y = bf16[77,530] parameter(1)
          ROOT z = f32[529,530] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }""")
    target = target_named("x86-64-v3")
    if not target.runs_here:
        pytest.skip("the host cannot do that much")
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=p.shape.dims).astype(p.shape.dtype.numpy) for p in program.entry.parameters)
    executable = compile(program, target)
    assert executable.memory.temporary_bytes >= x.size * 4
    np.testing.assert_allclose(executable(x, y), x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_indices_are_gathered_by_vectors():
    program = xl.parse("""HloModule m
        ENTRY e {
          x = f32[4096] parameter(0)
          i = s32[4096,1] parameter(1)
          ROOT g = f32[4096] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1}
        }""")
    assert "vgatherdps" in asm_text(program, target_named("x86-64-v3"))
