"""Kernels of which one serves several parts of a program: they see nothing that these differ in."""

import numpy as np

import xloom as xl
from xloom.codegen import thresholds
from xloom.cpu.loops import nontemporal_stores
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

SORTED = """sort({}), dimensions={{0}}, to_apply=less"""
LESS = "less { a = f64[] parameter(0) b = f64[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }"


def program(body: str, **sizes: int) -> xl.Module:
    return xl.parse(f"HloModule m\n{LESS}\nENTRY e {{ {body} }}".replace("[n]", f"[{sizes.get('n', 4096)}]"))


def units(module: xl.Module) -> int:
    *_, made = lowered(prepared(module), process_target())
    return len(made.modules)


def test_what_the_operand_of_a_logarithm_is_does_not_hold_for_another_array():
    """log(1 + x) of exp(-|y|), which is in memory, has cheaper code than of numbers that may be large."""
    module = program(f"""x = f64[n] parameter(0) y = f64[n] parameter(1)
        a = f64[n] abs(x) m = f64[n] negate(a) e = f64[n] exponential(m)
        s = f64[n] {SORTED.format("e")} l = f64[n] log-plus-one(e) ra = f64[n] add(l, s)
        t = f64[n] {SORTED.format("y")} k = f64[n] log-plus-one(y) rb = f64[n] add(k, t)
        ROOT r = (f64[n], f64[n]) tuple(ra, rb)""")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=4096), rng.uniform(0, 1000, 4096)
    for mine, other in zip(xl.compile(module)(x, y), xl.evaluate(module, x, y), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-14)


def test_the_same_operators_of_other_arrays_share_a_kernel():
    twice = """x = f64[n] parameter(0) y = f64[n] parameter(1) s = f64[n] {} t = f64[n] {}
        p = f64[n] log-plus-one(s) q = f64[n] log-plus-one(t) ROOT r = (f64[n], f64[n]) tuple(p, q)"""
    module = program(twice.format(SORTED.format("x"), SORTED.format("y")))
    other = program(twice.format(SORTED.format("x"), SORTED.format("y")).replace("log-plus-one(t)", "log(t)"))
    assert units(other) == units(module) + 1


def test_a_result_of_the_program_and_what_it_reads_again_are_stored_by_kernels_of_their_own(monkeypatch):
    """Large results go around the caches."""
    monkeypatch.setattr(thresholds, "RETURNED", 1 << 12)
    monkeypatch.setattr(nontemporal_stores, "LESS", (1 << 12) / process_target().caches.last)
    # two negations of arrays in memory, of which a sort may read one
    body = """x = f64[n] parameter(0) y = f64[n] parameter(1) s = f64[n] {} t = f64[n] {}
        p = f64[n] negate(s) q = f64[n] negate(t) {} ROOT r = (f64[n], f64[n], f64[n], f64[n], f64[n]) tuple({})"""
    sorts = SORTED.format("x"), SORTED.format("y")
    returned = program(body.format(*sorts, f"u = f64[n] {SORTED.format('s')}", "s, t, p, q, u"))
    read = program(body.format(*sorts, f"u = f64[n] {SORTED.format('q')}", "s, t, p, q, u"))
    assert units(read) == units(returned) + 1
