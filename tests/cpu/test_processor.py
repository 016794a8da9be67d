"""Code for processors that can do less than the host (XLOOM_CPU): the same values, and no instruction that they lack."""

import json
import os
import subprocess
import sys

import pytest

from xloom.processor import LEVELS

SAMPLE = """
import json
import numpy as np
import xloom as xl
from xloom.llvm import jit
from xloom.llvm.vector_registers import registers

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
}
generator = np.random.default_rng(0)
for name, text in PROGRAMS.items():
    module = xl.parse("HloModule m " + text)
    shapes = [p.shape for p in module.entry.parameters]
    arguments = [generator.normal(size=s.dims).astype(s.dtype.numpy) for s in shapes]
    mine, other = xl.compile(module)(*arguments), xl.evaluate(module, *arguments)
    np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(other, np.float64), 1e-5, 1e-4, err_msg=name)
loop = "define void @f(ptr %p) { %x = load <16 x float>, ptr %p %y = fadd <16 x float> %x, %x " \\
    "store <16 x float> %y, ptr %p ret void }"
print(json.dumps([registers().nbytes, jit.assembly(loop)]))
"""


def run(level: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XLOOM_CPU": level, "XLOOM_CACHE": "0"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_values_without_vectors_of_64_bytes():
    ran = run("x86-64-v3", SAMPLE)
    if "but the host lacks" in ran.stderr:
        pytest.skip("the host cannot do that much")
    assert not ran.returncode, ran.stderr
    found, assembly = json.loads(ran.stdout)
    assert found == 32
    assert "zmm" not in assembly
    assert "ymm" in assembly


def test_an_unknown_processor_is_refused():
    ran = run("x86-64-v9", "import xloom as xl\nfrom xloom.llvm import jit\njit.target_key()")
    assert ran.returncode
    assert all(level in ran.stderr for level in LEVELS)
