"""Kernels that the package brings compiled."""

from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from xloom.cli.main import cli
from xloom.compilation_cache import shipped
from xloom.cpu.kernel_modules import deduplication
from xloom.cpu.library import products
from xloom.cpu.library import programs as library
from xloom.cpu.library.shipping import ship
from xloom.cpu.machine_code import serialized
from xloom.llvm import jit
from xloom.llvm.target import process_target, target_named

PRODUCT = """
HloModule product
ENTRY e {
  a = f32[ROWS,200] parameter(0)
  b = f32[200,300] parameter(1)
  ROOT c = f32[ROWS,300] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
SORT = "HloModule s\nless { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }\n"
SORT += "ENTRY e { x = s32[5000] parameter(0)\n ROOT y = s32[5000] sort(x), dimensions={0}, to_apply=less }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the package's files are meanwhile, with nothing cached."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "kernels")
    monkeypatch.setenv("XLOOM_CACHE", "0")
    shipped.shipped.cache_clear()
    yield tmp_path / "kernels"
    shipped.shipped.cache_clear()


def of_rows(rows):
    return PRODUCT.replace("ROWS", str(rows))


def no_emission(monkeypatch):
    monkeypatch.setattr(deduplication, "_for_sizes", lambda *_: pytest.fail("a kernel was emitted that is there"))


def test_a_shipped_kernel_serves_other_shapes(folder, monkeypatch):
    path = ship([of_rows(150)], process_target())
    assert path.parent == folder
    no_emission(monkeypatch)
    a, b = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((170, 200), (200, 300)))
    np.testing.assert_allclose(xl.compile(xl.parse(of_rows(170)))(a, b), a @ b, rtol=1e-3, atol=1e-4)


SERVED = [(85, 102, 18), (348, 98, 512), (121, 64, 128), (256, 127, 168), (64, 159, 32)]


def test_sizes_that_nobody_listed_are_served(folder, monkeypatch):
    numbers, types = Random(0), ("f32", "f32", "f32")
    drawn = [products._sizes(numbers, 16, 512) for _ in range(24)]
    assert not {tuple(sizes) for sizes in drawn} & set(SERVED)
    ship([products._product(types, sizes, 1, 0) for sizes in drawn], process_target())
    no_emission(monkeypatch)
    for rows, depth, columns in SERVED:
        a, b = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((rows, depth), (depth, columns)))
        product = xl.compile(xl.parse(products._product(types, (rows, depth, columns), 1, 0)))
        np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-3, atol=1e-4)


def test_a_shipped_routine_is_not_compiled_again(folder, monkeypatch):
    ship([SORT], process_target())
    made = []
    anew = jit.made_anew
    monkeypatch.setattr(jit, "made_anew", lambda text, *rest: made.append(text) or anew(text, *rest))
    x = np.random.default_rng(0).permutation(5000).astype(np.int32)
    np.testing.assert_array_equal(xl.compile(xl.parse(SORT))(x), np.arange(5000))
    assert all("xloom_main" in text for text in made)


def test_code_of_single_operations_is_for_any_number_of_elements(folder, monkeypatch):
    text = "HloModule m\nENTRY e { a = f32[COUNT] parameter(0)\n ROOT r = f32[COUNT] tanh(a) }"
    ship([text.replace("COUNT", str(n)) for n in (1 << 17, 90_000)], process_target())
    made = []
    anew = jit.made_anew
    monkeypatch.setattr(jit, "made_anew", lambda code, *rest: made.append(code) or anew(code, *rest))
    for n in (1 << 18, 123_456, 100_001):
        x = np.random.default_rng(0).standard_normal(n, np.float32)
        np.testing.assert_allclose(xl.compile(xl.parse(text.replace("COUNT", str(n))))(x), np.tanh(x), rtol=1e-5)
    assert all("xloom_main" in code for code in made)


def test_kernels_of_other_sources_are_not_used(folder, monkeypatch):
    ship([of_rows(150)], process_target())
    monkeypatch.setattr(shipped, "source_digest", lambda: "of another version")
    shipped.shipped.cache_clear()
    assert shipped.shipped(process_target().name) is None


@pytest.mark.parametrize("data", [b"", b"xloom", b"not a file of kernels" * 9])
def test_what_is_no_file_of_kernels_is_not_used(folder, data):
    folder.mkdir()
    shipped.file_of("x86-64-v3").write_bytes(data)
    assert shipped.shipped("x86-64-v3") is None


def test_kernels_for_processors_that_are_not_here(folder, monkeypatch):
    target = target_named("x86-64-v3")
    ship([of_rows(150)], target)
    no_emission(monkeypatch)
    made, _ = serialized(xl.parse(of_rows(170)), target)
    assert len(made.objects) > 1 and shipped.shipped("x86-64-v4") is None


def test_every_entry_is_found_and_nothing_else(folder):
    keys = {shipped.key_of(b"%d" % k): b"data %d" % k * 50 for k in range(100)}
    entries = shipped.ShippedEntries(shipped.packed(keys))
    assert {key: entries.get(key) for key in keys} == keys
    assert entries.key_of(b"7") in keys and entries.get(entries.key_of(b"100")) is None
    assert shipped.ShippedEntries(shipped.packed({})).get(entries.key_of(b"7")) is None


def test_the_command_writes_files_for_targets(folder, monkeypatch):
    monkeypatch.setattr(library, "programs", lambda: iter([of_rows(100)]))
    ran = CliRunner().invoke(cli, ["library", "--ship", "--target", "x86-64-v3", "--target", "x86-64-v4"])
    assert ran.exit_code == 0 and "x86-64-v3: 0.0 MiB" in ran.output
    assert sorted(path.name for path in folder.iterdir()) == ["x86-64-v3.kernels", "x86-64-v4.kernels"]
    ran = CliRunner().invoke(cli, ["library", "--target", "x86-64-v3"])
    assert ran.exit_code == 2 and "--target goes with --ship" in ran.output


def test_a_file_of_the_same_sources_is_not_made_again(folder):
    path = ship([of_rows(150)], process_target())
    made = path.stat().st_mtime_ns
    shipped.shipped.cache_clear()
    done = CliRunner().invoke(cli, ["library", "--ship"], catch_exceptions=False)
    assert done.exit_code == 0 and "up to date" in done.output
    assert path.stat().st_mtime_ns == made
