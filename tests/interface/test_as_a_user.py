# pyright: strict
"""The public interface as a user's strictly typed program meets it: runs, and has no type that is unknown."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import xloom as xl
from xloom import calls, difference, passes, pjrt, reduction
from xloom.sim import Simulator, operator

AXPY = """HloModule axpy
ENTRY main {
  a = f32[] parameter(0)
  x = f32[4] parameter(1)
  wide = f32[4] broadcast(a), dimensions={}
  ROOT y = f32[4] multiply(wide, x)
}"""
X = np.arange(4, dtype=np.float32)


def test_modules_are_graphs(tmp_path: Path) -> None:
    module = xl.parse(AXPY)
    root: xl.Instruction = module.entry.root
    assert root.shape == xl.f32[4] and root.shape.dtype is xl.DTYPES["f32"]
    assert [operand.name for operand in root.operands] == ["wide", "x"]
    assert root.operands[0]["dimensions"] == () and root.operands[0].users == (root,)
    assert [computation.name for computation in module.computations] == ["main"]
    assert module.parameter_shapes[1].dims == (4,) and module.result_shape.layout == xl.Layout((0,))
    assert str(xl.from_proto(module.to_proto())) == str(module) == module.to_text()
    (tmp_path / "axpy.hlo").write_text(AXPY)
    loaded = xl.load(tmp_path / "axpy.hlo")
    xl.verify(loaded)
    assert loaded.entry.name == xl.load_bytes(AXPY.encode()).clone("").entry.name


def test_modules_are_built() -> None:
    b = xl.Builder("sums")
    add = b.computation("add")
    lhs, rhs = add.parameter(xl.f32[()]), add.parameter(xl.f32[()])
    x = b.parameter(xl.f32[2, 3])
    zero: xl.Instruction = b.constant(0.0)
    reduced = b.reduce(x, zero, dimensions=(1,), to_apply=add.finish(add.add(lhs, rhs)))
    module = b.build(b.tuple(reduced, b.custom_call("user.negate", [x], xl.f32[2, 3])))
    assert module.result_shape == xl.tuple_shape([xl.f32[2], xl.f32[2, 3]])
    assert xl.literal([1, 2], xl.s32).value.tolist() == [1, 2]

    @xl.custom_call("user.negate")
    def negate(out: Any, x: Any) -> None:
        out[:] = -x

    try:
        executable = xl.compile(module)
        sums, negated = executable(np.ones((2, 3), np.float32))
        assert sums.tolist() == [3, 3] and negated[0, 0] == -1
        assert calls.is_registered("user.negate") and calls.lookup("user.negate").platform == "Host"
        assert "user.negate" in [registration.name for registration in calls.registered()]
    finally:
        calls.remove("user.negate")
    assert ["%custom-call" in error.where for error in calls.unregistered(module)] == [True]
    assert negate.__name__ == "negate" and xl.include_dir()


def test_programs_run() -> None:
    module = xl.parse(AXPY)
    assert xl.compile(module)(np.float32(2), X).tolist() == xl.evaluate(module, 2.0, X).tolist() == [0, 2, 4, 6]
    client = pjrt.Client.cpu(devices=2)
    program: pjrt.LoadedExecutable = client.compile(module)
    buffers = [client.buffer_from_host(np.float32(2)), client.buffer_from_host(X)]
    (result,) = program.execute(buffers)
    array = result.block_until_ready().to_host()
    assert array.dtype == np.float32 and array[3] == 6
    assert [device.id for device in client.devices] == [0, 1]


def test_passes_rewrite() -> None:
    module = xl.parse(AXPY)
    runs: list[passes.PassRun] = xl.run_passes(module, "algebraic-simplification,dce")
    assert [run.pass_.name for run in runs] == ["algebraic-simplification", "dce"] and not runs[1].changed
    pipeline = passes.parse_pipeline("cse,dce")
    assert passes.pipeline_text(pipeline) == "cse,dce"


def test_modules_are_compared_and_reduced() -> None:
    module, other = xl.parse(AXPY), xl.parse(AXPY.replace("multiply", "add"))
    found: difference.ModuleDiff = xl.diff(module, other)
    assert not found.same and [change.what for change in found.changed]
    small = xl.reduce(module, lambda each: any(i.opcode == "broadcast" for i in each.instructions))
    assert small.entry.root.opcode == "broadcast"
    with pytest.raises(reduction.NotFailingError):
        xl.reduce(module, lambda each: False)
    assert xl.testing.first_difference(module, [np.float32(2), X]) is None


def test_programs_are_shown_and_exported(tmp_path: Path) -> None:
    module = xl.parse(AXPY)
    page = xl.show(module, compiled=False)
    assert page.save(tmp_path / "axpy.html").stat().st_size > 1000
    exported = xl.export(module)
    assert [array.dims for array in exported.interface.arguments] == [(), (4,)] and "axpy_run" in exported.header()
    saved = exported.save(tmp_path / "libaxpy.so")
    assert xl.load_exported(saved.program)(np.float32(2), X)[1] == 2


class Doubler(Simulator):
    """A backend of a user's."""

    platform: ClassVar[str] = "doubler"

    @operator("multiply")
    def multiply(self, instruction: xl.Instruction, lhs: Any, rhs: Any) -> Any:
        return 2 * lhs * rhs

    def cost(self, instruction: xl.Instruction) -> Mapping[str, int]:
        return {"vector": instruction.shape.size}


def test_backends_are_written() -> None:
    client = pjrt.Client.sim(Doubler)
    program = client.compile(xl.parse(AXPY))
    (result,) = program.execute([client.buffer_from_host(np.float32(1)), client.buffer_from_host(X)])
    assert result.to_host().tolist() == [0, 2, 4, 6]


def test_errors_say_where() -> None:
    with pytest.raises(xl.ParseError) as caught:
        xl.parse("ENTRY main { ROOT x = f32[2] parametre(0) }")
    span: xl.Span | None = caught.value.span
    assert span is not None and span.line == 1
    error: xl.XloomError = caught.value
    assert error.message and isinstance(error.hint, str) and isinstance(error.where, str)
    for kind in (xl.ShapeError, xl.VerifyError, xl.PassError, xl.EvaluationError, xl.CustomCallError):
        assert issubclass(kind, xl.XloomError)


def test_frameworks_have_doors() -> None:
    pytest.importorskip("jax")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from xloom.jax import UsePasses, install_as_cpu, register_backend, use_passes

    assert callable(install_as_cpu) and callable(register_backend)
    with use_passes("dce") as used:
        assert isinstance(used, UsePasses) and not used.runs


def test_torch_has_a_door() -> None:
    torch = pytest.importorskip("torch")
    import xloom.torch as xt

    def doubled(x: Any) -> Any:
        return x + x

    module: xl.Module = xt.hlo(doubled, torch.ones(3))
    assert module.result_shape.elements[0].dtype is xl.f32
    assert isinstance(xt.metrics_report(), str)
    assert xt.recompiles.__doc__ and xt.step.__doc__
