"""A custom call in C and in Python: A[i] = B[i % 128] + C[i].

The program is built with the builder; each kernel's result is compared with the same program in plain HLO.
"""

import sys
from pathlib import Path

import numpy as np

import xloom as xl
from xloom.calls import load_source


def with_custom_call() -> xl.Module:
    b = xl.Builder("do_it")
    p0 = b.parameter(xl.f32[128])
    p1 = b.parameter(xl.f32[2048])
    b.custom_call("do_custom_call", [p0, p1], xl.f32[2048])
    return b.build()


def in_plain_hlo() -> xl.Module:
    b = xl.Builder("plain")
    p0 = b.parameter(xl.f32[128])
    p1 = b.parameter(xl.f32[2048])
    rows = b.broadcast(p0, shape=xl.f32[16, 128], dimensions=(1,))
    return b.build(b.add(b.reshape(rows, shape=xl.f32[2048]), p1))


def do_custom_call(out, b, c):
    out[:] = np.resize(b, 2048) + c


def main() -> int:
    generator = np.random.default_rng(0)
    b = generator.standard_normal(128).astype(np.float32)
    c = generator.standard_normal(2048).astype(np.float32)
    module = with_custom_call()
    print(module)
    expected = xl.evaluate(in_plain_hlo(), b, c)
    equal = True
    for language in ("C", "Python"):
        if language == "C":
            load_source(Path(__file__).with_name("do_custom_call.c"))
        else:
            xl.custom_call("do_custom_call")(do_custom_call)
        same = np.array_equal(xl.evaluate(module, b, c), expected)
        print(f"kernel in {language}: {'equal to' if same else 'DIFFERENT FROM'} plain HLO")
        equal = equal and same
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
