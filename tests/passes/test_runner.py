from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from xloom.errors import PassError
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.passes import Compare, Pass, run_passes
from xloom.passes.hooks import difference

TEXT = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  dead = f32[4] sine(x)
  ROOT r = f32[4] negate(x)
}"""


@dataclass(frozen=True)
class Wrong(Pass):
    """Turns negate into abs: valid, but another value."""

    name = "wrong"

    def run(self, module: Module) -> bool:
        module.entry.root.opcode = "abs"
        return True


@dataclass(frozen=True)
class Broken(Pass):
    """Leaves a shape that does not fit."""

    name = "broken"

    def run(self, module: Module) -> bool:
        from xloom.hlo.dtype import s32

        module.entry.root.shape = s32[7]
        return True


@dataclass
class Watch:
    seen: list[str] = field(default_factory=list)

    def start(self, module: Module) -> None:
        self.seen.append("start")

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        self.seen.append(f"{number} {pass_}")


def test_records_what_each_pass_did() -> None:
    module = parse(TEXT)
    runs = run_passes(module, "cse,dce")
    assert [(r.pass_.name, r.changed, r.instructions) for r in runs] == [("cse", False, 3), ("dce", True, 2)]
    assert all(r.seconds >= 0 for r in runs)


def test_hooks_see_only_changes() -> None:
    watch = Watch()
    run_passes(parse(TEXT), "cse,dce,dce", hooks=[watch])
    assert watch.seen == ["start", "2 dce"]


def test_dump(tmp_path: Path) -> None:
    run_passes(parse(TEXT), "cse,dce", dump=tmp_path / "new" / "directory")
    files = sorted(p.name for p in (tmp_path / "new" / "directory").iterdir())
    assert files == ["00-input.hlo", "02-dce.hlo"]
    assert "sine" not in (tmp_path / "new" / "directory" / "02-dce.hlo").read_text()


def test_compare_catches_a_wrong_value() -> None:
    with pytest.raises(PassError, match=r"pass 2 \(wrong\) changed the result: result\[0\] was"):
        run_passes(parse(TEXT), [*[p.pass_ for p in run_passes(parse(TEXT), "dce")], Wrong()], compare=True)
    run_passes(parse(TEXT), [Wrong()])  # it is a valid module


def test_compare_passes_what_is_equal() -> None:
    run_passes(parse(TEXT), "dce,cse,algebraic-simplification", compare=Compare(seed=3, samples=4))


def test_verify_blames_the_pass() -> None:
    pytest.importorskip("xloom.hlo.verify.module")
    with pytest.raises(PassError, match=r"pass 1 \(broken\) left an invalid module"):
        run_passes(parse(TEXT), [Broken()])
    run_passes(parse(TEXT), [Broken()], verify=False)


def test_differences() -> None:
    nan = np.array([np.nan, 1.0], np.float32)
    assert difference(nan, nan.copy()) == ""
    assert difference(np.float32(0.0), np.float32(-0.0)).startswith("result was 0.0, is -0.0")
    assert "result[1][0] was" in difference((nan, np.array([1])), (nan, np.array([2])))
    assert "float32(2,), is float64(2,)" in difference(nan, nan.astype(np.float64))
    assert difference(np.float32(1.0), np.float32(1.0 + 1e-6), rtol=1e-5) == ""
    assert difference(np.complex64(1 + 1j), np.complex64(1 + 2j))


def test_scheduled_module_stays_in_order() -> None:
    module = parse(
        """HloModule m, is_scheduled=true

callee {
  a = f32[4] parameter(0)
  b = f32[4] negate(a)
  ROOT c = f32[4] add(b, a)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] call(x), to_apply=callee
  z = f32[4] abs(x)
  ROOT r = f32[4] add(y, z)
}"""
    )
    run_passes(module, "call-inlining,dce", compare=True)
    seen = set()
    for instruction in module.entry:
        assert seen.issuperset(instruction.operands)
        seen.add(instruction)
    assert [i.opcode for i in module.entry] == ["parameter", "abs", "negate", "add", "add"]
