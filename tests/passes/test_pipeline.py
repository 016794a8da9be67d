import subprocess
import sys
from dataclasses import dataclass

import pytest

from xloom.errors import PassError
from xloom.passes import PASSES, ConstantFolding, Expand, Pass, parse_pipeline, pipeline_text


@dataclass(frozen=True)
class Probe(Pass):
    """A pass with one option of each kind, and a required one."""

    name = "test-probe"
    pattern: str
    rate: float = 0.5
    deep: bool = False
    count: int = 3

    def run(self, module):
        return False


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, Probe.name, Probe)


def test_names_and_options() -> None:
    passes = parse_pipeline(' dce , constant-folding{max_elements=7, max_work=100},expand{target="a, {b}\\""}')
    assert [p.name for p in passes] == ["dce", "constant-folding", "expand"]
    assert passes[1] == ConstantFolding(max_elements=7, max_work=100)
    assert passes[2] == Expand(target='a, {b}"')
    assert parse_pipeline("") == []
    assert parse_pipeline("dce{}") == parse_pipeline("dce")


@pytest.mark.parametrize(
    "text",
    [
        "dce,cse",
        "constant-folding{max_elements=7}",
        "expand{target=Name.1}",
        'expand{target="a b\\\\,{\\"}"}',
        "test-probe{pattern=gelu.hlo,rate=0.25,deep=true,count=-1}",
    ],
)
def test_prints_what_it_reads(text: str) -> None:
    passes = parse_pipeline(text)
    assert pipeline_text(passes) == text
    assert parse_pipeline(pipeline_text(passes)) == passes


def test_defaults_are_not_printed() -> None:
    assert str(ConstantFolding()) == "constant-folding"
    assert str(Probe("x", rate=0.5)) == "test-probe{pattern=x}"


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("dce,cs", 5, "there is no pass 'cs'", "'cse'"),
        ("dce,zzzzzz", 5, "there is no pass 'zzzzzz'", "there are: algebraic-simplification"),
        ("dce,", 5, "the name of a pass", ""),
        ("dce cse", 5, "expected ','", ""),
        ("dce,expand{tarjet=x}", 12, "no option 'tarjet'", "'target'"),
        ("dce{x=1}", 5, "no option 'x'", "it has none"),
        ("expand{target}", 14, "expected '='", ""),
        ("expand{target=}", 15, "a value for option 'target'", ""),
        ("expand{target=x", 16, "expected ',' or '}'", ""),
        ("expand{target=x,target=y}", 17, "stands twice", ""),
        ("constant-folding{max_work=many}", 27, "takes an integer, not 'many'", ""),
        ("test-probe{pattern=x,deep=yes}", 27, "takes true or false, not 'yes'", ""),
        ("test-probe", 1, "needs the option 'pattern'", "test-probe{pattern=...}"),
    ],
)
def test_errors_point(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(PassError) as caught:
        parse_pipeline(text)
    error = caught.value
    assert error.span is not None and error.span.column == column
    assert message in error.message
    assert hint in error.hint
    assert str(error).splitlines()[2].index("^") == column + 1  # two spaces of indentation


def test_every_pass_runs_by_name() -> None:
    assert {"dce", "cse", "expand", "constant-folding", "call-inlining"} <= set(PASSES)
    for name, cls in PASSES.items():
        assert cls.name == name
        assert cls.__doc__


def test_files_of_passes_that_are_not_asked_for_stay_unread():
    """A program that is found in the cache needs few of them, and no simulator, though it is for several devices."""
    code = (
        "import sys, xloom.pjrt.compilation; print(*{'xloom.sim.simulator'} & {*sys.modules}); "
        "from xloom.passes import parse_pipeline; print(*parse_pipeline('dce,constant-folding')); "
        "print('xloom.passes.every_pass' in sys.modules); print(*parse_pipeline('spmd-partitioning'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "dce constant-folding", "False", "spmd-partitioning"]
