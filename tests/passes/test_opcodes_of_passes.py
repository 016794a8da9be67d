"""Passes that say which opcodes they look for: they change no module that has none of these, and are not asked."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes
from xloom.hlo.text.parser import parse
from xloom.passes import PASSES, Pass, run_passes
from xloom.passes.base import pin_roots

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.hlo"))


def made(name: str) -> Pass | None:
    try:
        return PASSES[name]()
    except TypeError:  # an option without a default
        return None


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_module_without_them_stays(path: Path) -> None:
    text = path.read_text(encoding="utf-8").partition("// ---- expect\n")[0]
    present = {i.opcode for i in parse(text).instructions}
    for name, cls in PASSES.items():
        one = made(name) if cls.opcodes is not None and present.isdisjoint(cls.opcodes) else None
        if one is not None:
            module = parse(text)
            pin_roots(module)
            before = module.to_text()
            assert not one.run(module) and module.to_text() == before, name


def test_a_pass_is_asked_once_another_has_made_what_it_looks_for() -> None:
    asked = []

    @dataclass(frozen=True)
    class Negations(Pass):
        name = "test-negations"
        opcodes = ("negate",)

        def run(self, module):
            asked.append(module.entry.root.opcode)
            return False

    @dataclass(frozen=True)
    class Negated(Pass):
        name = "test-negated"

        def run(self, module):
            module.entry.root.opcode = "negate"
            return True

    module = parse("HloModule m\nENTRY e { a = f32[4] parameter(0)\n ROOT r = f32[4] abs(a) }")
    runs = run_passes(module, [Negations(), Negated(), Negations()])
    assert [run.changed for run in runs] == [False, True, False] and asked == ["negate"]
