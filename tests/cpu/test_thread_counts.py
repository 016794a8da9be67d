"""Results do not depend on the number of threads."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib, sys
import numpy as np
import xloom as xl
from xloom.interpreter.samples import random_arguments

text = '''HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[300,500] parameter(0)
  y = f32[500,300] parameter(1)
  z = f32[] constant(0)
  all = f32[] reduce(x, z), dimensions={0,1}, to_apply=add
  rows = f32[300] reduce(x, z), dimensions={1}, to_apply=add
  columns = f32[500] reduce(x, z), dimensions={0}, to_apply=add
  product = f32[300,300] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sums = f32[300,500] reduce-window(x, z), window={size=300x1 pad=299_0x0_0}, to_apply=add
  ROOT t = tuple(all, rows, columns, product, sums)
}'''
module = xl.parse(text)
digest = hashlib.sha256()
for array in xl.compile(module)(*random_arguments(module)):
    digest.update(array.tobytes())
print(digest.hexdigest())
"""


def digest(threads, tmp_path):
    environment = {**os.environ, "XLOOM_NUM_THREADS": str(threads), "XLOOM_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_sums_and_products_are_the_same_bits(tmp_path):
    assert digest(1, tmp_path) == digest(2, tmp_path) == digest(5, tmp_path)
