"""Modules that nobody looks into: what was compiled before runs without their being read."""

import copy
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.calls import registry
from xloom.compilation_cache import cache
from xloom.cpu import kept_programs
from xloom.hlo import lazy_module
from xloom.hlo.module import Module
from xloom.pjrt import Client
from xloom.pjrt.options import CompileOptions
from xloom.stablehlo import convert, from_stablehlo

pytest.importorskip("jaxlib")

TEXT = """module @program {
  func.func @main(%a: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<3xf32>)
      -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.add %a, %b : tensor<3xf32>
    %1 = stablehlo.multiply %a, %b : tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>
  }
}
"""
CALL = """module @caller {
  func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @"unread?"(%a) {api_version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""
COLUMNS = """module @columns {
  func.func @main(%a: tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) -> (tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
    %0 = stablehlo.iota dim = 1 : tensor<2x3xf32>
    %1 = stablehlo.add %a, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
"""
DYNAMIC = """module @dynamic {
  func.func @main(%a: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>> {
    %0 = stablehlo.set_dimension_size %a, %n, dim = 0
      : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
    return %0 : tensor<?xf32, #stablehlo.bounds<4>>
  }
}
"""
SUMMED = """module @summed attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 0 : i32})
      -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}, tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc("summed.py":7:0)
    return %0, %1 : tensor<4xf32>, tensor<f32>
  }
}
"""
A, B = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    monkeypatch.setattr(cache, "is_current", lambda: True)
    forget()
    yield
    forget()


def forget() -> None:
    """As in a new process."""
    cache.flush()
    kept_programs.linked.clear()
    kept_programs.keys.clear()
    convert.declarations.clear()


@pytest.fixture
def nobody_reads(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start() -> None:
        def refuse(module: Module) -> None:
            raise AssertionError(f"{vars(module)['declaration'].name} was read")

        monkeypatch.setattr(lazy_module, "_ensure_read", refuse)

    return start


def test_becomes_an_ordinary_module():
    first, second = from_stablehlo(TEXT), from_stablehlo(TEXT)
    assert lazy_module.identity_of(first) == lazy_module.identity_of(second) is not None
    assert first.to_text() == second.to_text()
    for module in (first, second):
        assert "_read" not in vars(module) and lazy_module.identity_of(module) is None
        assert all(c.module is module for c in module.computations)
        xl.verify(module)


def test_the_declaration_has_what_callers_see():
    module = from_stablehlo(TEXT)
    declaration = lazy_module.declaration_of(module)
    xl.verify(declaration)
    assert declaration.name == module.name
    assert declaration.config == module.config
    assert declaration.parameter_shapes == module.parameter_shapes and declaration.result_shape == module.result_shape
    assert [p.name for p in declaration.entry.parameters] == [p.name for p in module.entry.parameters]


def test_setting_an_attribute_reads_first():
    module = from_stablehlo(TEXT)
    module.name = "other"
    assert lazy_module.identity_of(module) is None and module.to_text().startswith("HloModule other")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies(copied: Any):
    module = from_stablehlo(TEXT)
    other = copied(module)
    assert "_read" not in vars(module) and type(other) is Module and str(other) == str(module)
    assert other.config is not module.config or copied is copy.copy


def test_threads_read_it_once():
    for _ in range(20):
        from_stablehlo(TEXT).to_text()
        module, entries = from_stablehlo(TEXT), list[Any]()

        def look(module: Module = module, entries: list[Any] = entries) -> None:
            entries.append(module.entry)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(entries) == 4 and len(set(entries)) == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_compiled_before(is_new: bool, nobody_reads: Any):
    xl.compile(from_stablehlo(TEXT))
    if is_new:
        forget()
    nobody_reads()
    run = xl.compile(from_stablehlo(TEXT))
    given = A.copy()
    total, product = run(given, B, donated=[0])
    np.testing.assert_array_equal(total, A + B)
    np.testing.assert_array_equal(product, A * B)
    assert total is given


def test_an_edited_module_is_another_program():
    xl.compile(from_stablehlo(TEXT))
    module = from_stablehlo(TEXT)
    (add,) = [i for i in module.instructions if i.opcode == "add"]
    add.opcode = "subtract"
    np.testing.assert_array_equal(xl.compile(module)(A, B)[0], A - B)
    np.testing.assert_array_equal(xl.compile(from_stablehlo(TEXT))(A, B)[0], A + B)


def test_calls_are_what_is_registered_now():
    for factor in (2, 3):

        @xl.custom_call("unread?")
        def call(out: np.ndarray, a: np.ndarray, factor: int = factor) -> None:
            out[...] = factor * a

        try:
            np.testing.assert_array_equal(xl.compile(from_stablehlo(CALL))(A), factor * A)
        finally:
            registry.remove("unread?")


def test_dynamic_sizes_stay_dynamic():
    for _ in range(3):
        for compile_one in (xl.compile, Client.cpu().compile):
            compile_one(from_stablehlo(DYNAMIC))
        result = xl.compile(from_stablehlo(DYNAMIC))(np.arange(4, dtype=np.float32), np.int32(2))
        np.testing.assert_array_equal(result, [0, 1])
        forget()


def test_pjrt_does_not_read_what_it_knows(nobody_reads: Any):
    options = CompileOptions(use_spmd_partitioning=True)
    first = Client.cpu().compile(from_stablehlo(TEXT), options)
    forget()
    nobody_reads()
    client = Client.cpu()
    again = client.compile(from_stablehlo(TEXT), options)
    for name in ("name", "is_cheap", "parameters", "outputs", "output_kinds", "donated", "fingerprint"):
        assert getattr(again.executable, name) == getattr(first.executable, name)
    results = again.execute([client.buffer_from_host(A), client.buffer_from_host(B)])
    np.testing.assert_array_equal(results[0].to_host(), A + B)


@pytest.mark.parametrize("count", [1, 2])
def test_pjrt_does_not_read_what_it_knows_in_parts(count: int, nobody_reads: Any):
    options = CompileOptions(num_partitions=count, use_spmd_partitioning=True)
    first = Client.cpu(2).compile(from_stablehlo(SUMMED), options)
    Client.cpu(2).compile(from_stablehlo(SUMMED), CompileOptions(num_partitions=3 - count, use_spmd_partitioning=True))
    forget()
    nobody_reads()
    client = Client.cpu(2)
    again = client.compile(from_stablehlo(SUMMED), options)
    for name in ("name", "is_cheap", "parameters", "outputs", "output_kinds", "donated", "fingerprint"):
        assert getattr(again.executable, name) == getattr(first.executable, name)
    if count > 1:
        assert again.executable.exchanges == first.executable.exchanges
        assert "all-reduce" in again.executable.exchanges.declared
    n = 4 // count
    parts = [np.arange(k, k + n, dtype=np.float32) for k in range(0, 4, n)]
    given = [[client.buffer_from_host(part, device)] for part, device in zip(parts, again.devices, strict=True)]
    for part, (double, total) in zip(parts, again.execute_sharded(given), strict=True):
        np.testing.assert_array_equal(double.to_host(), 2 * part)
        assert total.to_host() == 12


def test_a_program_that_is_known_in_parts_can_be_read(nobody_reads: Any):
    options = CompileOptions(num_partitions=2, use_spmd_partitioning=True)
    first, second = (Client.cpu(2).compile(from_stablehlo(SUMMED), options).executable for _ in range(2))
    assert "_read" in vars(second.module) and second.module.to_text() == first.module.to_text()


def test_what_native_code_is_cheap_for_is_not_for_others():
    assert Client.cpu().compile(from_stablehlo(TEXT)).executable.is_cheap
    for _ in range(2):
        assert not Client.interpreter().compile(from_stablehlo(TEXT)).executable.is_cheap


def test_a_program_on_columns_is_not_the_one_on_rows_that_serves_it():
    client, x = Client.cpu(), np.zeros((2, 3), np.float32)
    for _ in range(2):
        (result,) = client.compile(from_stablehlo(COLUMNS)).execute([client.buffer_from_host(x)])
        np.testing.assert_array_equal(result.to_host(), [[0, 1, 2]] * 2)
        np.testing.assert_array_equal(xl.compile(from_stablehlo(COLUMNS))(x), [[0, 1, 2]] * 2)


def test_pjrt_looks_again_where_the_options_differ():
    client = Client.cpu(2)
    client.compile(from_stablehlo(TEXT))
    assert (
        client.compile(from_stablehlo(TEXT), CompileOptions(num_replicas=2)).executable.module.config.replica_count == 2
    )


OF_JAX = """
import sys
from xloom.hlo import lazy_module
reads = []
read = lazy_module._ensure_read
lazy_module._ensure_read = lambda module: (reads.append("_read" in vars(module)), read(module))
import jax, jax.numpy as jnp
assert jax.jit(lambda x: (x != 0) * (1 / x))(jnp.zeros(3)).sum() == 0
compiler = {"xloom.passes", "xloom.codegen.fusion", "xloom.stablehlo.translate", "xloom.hlo.verify.module"}
print(any(reads), bool(compiler & sys.modules.keys()))
"""


def test_jax_has_nothing_read_that_an_earlier_process_compiled_and_loads_no_compiler(tmp_path: Path):
    environment = {key: value for key, value in os.environ.items() if key != "XLOOM_CHECK"}
    environment |= {"JAX_PLATFORMS": "xloom", "XLOOM_CACHE_DIR": str(tmp_path)}
    for is_first in ("True", "False"):
        command = [sys.executable, "-c", OF_JAX]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.stdout.split() == [is_first, is_first], done.stderr


def test_a_change_when_it_is_read_makes_another_program():
    def subtract(module: Module) -> None:
        for instruction in module.instructions:
            if instruction.opcode == "add":
                instruction.opcode = "subtract"

    for _ in range(2):
        changed = lazy_module.changed_when_read(from_stablehlo(TEXT), "subtracts", subtract)
        assert lazy_module.identity_of(changed) is not None
        np.testing.assert_array_equal(xl.compile(changed)(A, B)[0], A - B)
        np.testing.assert_array_equal(xl.compile(from_stablehlo(TEXT))(A, B)[0], A + B)
        assert all(c.module is changed for c in changed.computations)
        forget()
    module = from_stablehlo(TEXT)
    assert len(module.entry.parameters) == 2  # read
    assert lazy_module.changed_when_read(module, "subtracts", subtract) is module
    np.testing.assert_array_equal(xl.compile(module)(A, B)[0], A - B)
