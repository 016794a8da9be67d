"""Small results are in memory that malloc keeps from one call to the next."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import xloom as xl

names = [f"n{k}" for k in range(200)]
text = " ".join(f"{n} = f32[4096] add(p, p{k})" for k, n in enumerate(names))
others = " ".join(f"p{k} = f32[4096] parameter({k + 1})" for k in range(200))
kinds = ", ".join(["f32[4096]"] * 200)
run = xl.compile(xl.parse(f"ENTRY e {{ p = f32[4096] parameter(0) {others} {text} "
                          f"ROOT t = ({kinds}) tuple({', '.join(names)}) }}"))
arguments = [np.zeros(4096, np.float32) for _ in range(201)]
for _ in range(5):
    run(*arguments)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    run(*arguments)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other ways")
def test_pages_of_results_are_used_again():
    # a process of its own: once it has freed a large array, malloc keeps its heap anyway
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert int(done.stdout) < 2000  # of the 16,000 pages that 20 calls write
