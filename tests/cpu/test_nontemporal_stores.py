"""Stores around the caches, of arrays so large that it pays; here of small ones."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.codegen import thresholds
from xloom.cpu.loops import nontemporal_stores
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm import jit
from xloom.llvm.target import process_target

PROGRAMS = {
    "flat": "p = f32[70001] parameter(0) ROOT r = f32[70001] negate(p)",
    "two results": "p = f32[300,500] parameter(0) n = f32[300,500] negate(p) e = f32[300,500] abs(p) "
    "ROOT r = (f32[300,500], f32[300,500]) tuple(n, e)",
    "whole pieces": "p = f32[65536] parameter(0) n = f32[65536] negate(p) c = bf16[65536] convert(n) "
    "ROOT r = (f32[65536], bf16[65536]) tuple(n, c)",
    "short runs": "p = f32[40,60,32] parameter(0) ROOT r = f32[60,40,32] transpose(p), dimensions={1,0,2}",
    "runs that begin within a line": "p = f32[40,60,33] parameter(0) ROOT r = f32[60,40,33] transpose(p), "
    "dimensions={1,0,2}",
    "across": "p = f32[512,300] parameter(0) ROOT r = f32[300,512] transpose(p), dimensions={1,0}",
    "across and narrow": "p = f32[512,300] parameter(0) t = f32[300,512] transpose(p), dimensions={1,0} "
    "n = f32[300,512] negate(t) c = bf16[300,512] convert(t) ROOT r = (f32[300,512], bf16[300,512]) tuple(n, c)",
    "across to lines that are not whole": "p = f32[300,500] parameter(0) ROOT r = f32[500,300] transpose(p), "
    "dimensions={1,0}",
    "narrow": "p = f32[70001] parameter(0) ROOT r = bf16[70001] convert(p)",
    "predicates": "p = f32[70001] parameter(0) z = f32[] constant(0) b = f32[70001] broadcast(z), dimensions={} "
    "ROOT r = pred[70001] compare(p, b), direction=GT",
    "complex": "p = f32[70001] parameter(0) n = f32[70001] negate(p) ROOT r = c64[70001] complex(p, n)",
    "several conditions": "p = f32[300,512] parameter(0) z = f32[] constant(7) "
    "ROOT r = f32[300,1024] pad(p, z), padding=0_0x200_312",
    "rows": "p = f32[100,1024] parameter(0) z = f32[] constant(0) s = f32[100] reduce(p, z), dimensions={1}, "
    "to_apply=add b = f32[100,1024] broadcast(s), dimensions={0} ROOT r = f32[100,1024] divide(p, b)",
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(thresholds, "RETURNED", 1 << 16)
    for name in ("FOOTPRINT", "LESS"):
        monkeypatch.setattr(nontemporal_stores, name, (1 << 16) / process_target().caches.last)


def _module(name):
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }"
    return xl.parse(f"HloModule streaming_{name.replace(' ', '_')}\n{add}\nENTRY e {{ {PROGRAMS[name]} }}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_elements_arrive(name):
    module = _module(name)
    argument = np.random.default_rng(0).standard_normal(module.entry.parameters[0].shape.dims).astype(np.float32)
    got, expected = xl.compile(module)(argument), xl.evaluate(module, argument)
    for x, y in zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]:
        assert x.dtype == y.dtype
        wide = np.complex64 if x.dtype.kind == "c" else np.float32
        np.testing.assert_allclose(np.asarray(x).astype(wide), np.asarray(y).astype(wide), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_where_lines_are_whole(name):
    _, _, program = lowered(prepared(_module(name)), process_target())
    text = program.main + "".join(m.text for m in program.modules.values())
    assert ("!nontemporal" in text) == ("within" not in name and "not whole" not in name)
    assert ("fence seq_cst" in text) == ("!nontemporal" in text)


def _nests(module):
    return "".join(m.text for m in lowered(prepared(module), process_target())[-1].modules.values())


def test_what_takes_long_to_compute_is_stored_as_it_is_computed():
    module = xl.parse("ENTRY e { p = f32[70001] parameter(0) ROOT r = f32[70001] tanh(p) }")
    assert "!nontemporal" not in _nests(module)


@pytest.mark.parametrize("is_read", [False, True])
def test_what_the_program_reads_again_is_streamed_later(monkeypatch, is_read):
    monkeypatch.setattr(nontemporal_stores, "FOOTPRINT", 64)
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }"
    read = "z = f32[] constant(0) s = f32[64] reduce(n, z), dimensions={1}, to_apply=add"
    module = xl.parse(
        f"{add} ENTRY e {{ p = f32[64,1024] parameter(0) n = f32[64,1024] negate(p) {read if is_read else ''} "
        f"ROOT r = (f32[64,1024]{', f32[64]' if is_read else ''}) tuple(n{', s' if is_read else ''}) }}"
    )
    assert ("!nontemporal" in _nests(module)) != is_read


def test_memory_that_does_not_begin_with_a_line():
    _, _, program = lowered(prepared(_module("narrow")), process_target())
    objects = [jit.process_code(text) for text in (program.main, *(u.text for u in program.modules.values()))]
    library = jit.Library(objects, [m.phases[0].symbol for m in program.modules.values()])
    (kernel_module,) = program.modules.values()
    task = library.function(kernel_module.phases[0].symbol, jit.TASK)
    values = np.random.default_rng(0).standard_normal(70001).astype(np.float32)
    room = np.zeros(70001 + 64, ml_dtypes.bfloat16)
    at = (-room.ctypes.data % 64) // 2 + 3
    result = room[at : at + 70001]
    pointers = np.array([values.ctypes.data, result.ctypes.data], np.uintp)
    task(pointers.ctypes.data, 5, 70001 - 7)
    np.testing.assert_array_equal(result[5:-7], values[5:-7].astype(ml_dtypes.bfloat16))
    assert not room[: at + 5].any()
    assert not room[at + 70001 - 7 :].any()
