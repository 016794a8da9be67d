"""Numbers by which code is chosen say what they are: each has a docstring or a comment, its own or its group's.

What each decides was measured: see benchmarks/CONSTANTS.md, and benchmarks/tuned_constants.py, where each has its place.
Of GPUs none was: benchmarks/gpu_constants.py says how they can be.
"""

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gpu_constants import CODES, DEFINED, ESTIMATED
from benchmarks.tuned_constants import NOT_MEASURED, NOT_TUNED, TUNED

SOURCE = Path(__file__).parent.parent / "src" / "xloom"
ROOMS = ("codegen", "cpu", "cuda", "llvm")
NUMBERS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)


def is_number(value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    plain = all(isinstance(node, NUMBERS) for node in nodes) and bool(constants)
    return plain and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in constants)


def numbers(body: list[ast.stmt]) -> Iterator[tuple[int, ast.Assign]]:
    """The assignments of numbers, with their places among the statements."""
    for k, node in enumerate(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
            name = ast.unparse(node.targets[0]).strip("(")
            if name.split(",")[0].lstrip("_").isupper() and is_number(node.value):
                yield k, node


def unexplained(text: str) -> list[str]:
    """The lines of constants that nothing is said of."""
    lines, body = text.splitlines(), ast.parse(text).body
    found = []
    for k, node in numbers(body):
        last = k  # of the constants right below one another
        while last + 1 < len(body) and isinstance(body[last + 1], ast.Assign):
            if body[last + 1].lineno != (body[last].end_lineno or 0) + 1:
                break
            last += 1
        following = body[last + 1] if last + 1 < len(body) else None
        said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        above = lines[node.lineno - 2].startswith("#") if node.lineno > 1 else False
        if not (said or above or "  #" in lines[node.lineno - 1]):
            found.append(lines[node.lineno - 1])
    return found


def constants() -> Iterator[str]:
    """All of them, by module below xloom and name."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            for _, node in numbers(ast.parse(path.read_text()).body):
                names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
                yield from (f"{module}.{name}" for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_every_number_is_explained(room):
    found = {}
    for path in sorted((SOURCE / room).rglob("*.py")):
        if lines := unexplained(path.read_text()):
            found[path.relative_to(SOURCE).as_posix()] = lines
    assert not found


def test_that_it_finds_one():
    assert unexplained('A = 1\n"""What."""\nB = 2\n') == ["B = 2"]
    assert unexplained('A = 1\nB = 2\n"""Both."""\n') == []
    assert unexplained('A, B = 1 << 3, 2.0\n\nC = "text"\n') == ["A, B = 1 << 3, 2.0"]
    assert unexplained("# why\nA = 1\nB = 2  # too\n") == []


def test_every_number_is_measured_or_says_why_not():
    """A new one goes into one of the tables of benchmarks/tuned_constants.py; of GPUs, of benchmarks/gpu_constants.py."""
    tables = NOT_MEASURED, NOT_TUNED, ESTIMATED, DEFINED
    apart = [name for table in tables for names in table.values() for name in names]
    places = Counter([*(row.full for row in TUNED), *apart])
    assert {name: n for name, n in places.items() if n > 1} == {}
    assert sorted(name for name in set(constants()) - set(places) if not name.startswith(CODES)) == []
    for name in places:  # some are no plain numbers
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(f"xloom.{module}"), constant), name


def test_the_table_names_programs_that_there_are():
    from benchmarks.constant_programs import OWN
    from benchmarks.programs import PROGRAMS

    named = {program for row in TUNED for program in row.programs.split()}
    assert named <= {*PROGRAMS, *OWN}
    assert set(OWN) <= named
    assert all(row.programs for row in TUNED)


def test_a_variant_is_compiled_with_the_other_value():
    import xloom as xl
    from benchmarks.constants import deciding
    from benchmarks.tuned_constants import Tuned

    module = xl.parse("""HloModule m
        ENTRY e {
          x = f32[65536] parameter(0)
          ROOT y = f32[65536] tanh(x)
        }""")
    row = Tuned("cpu.loops.phases", "TASK_COST", "")
    assert deciding(row, module, [40_000, 80_000]) == [80_000]
    assert deciding(Tuned("cpu.kernels.scan", "_TASK", ""), module, [1, 2]) == []
    assert importlib.import_module("xloom.cpu.loops.phases").TASK_COST == 40_000


def test_constants_of_gpus_name_benchmarks_that_there_are():
    import re

    from tests.judges.gpu.benchmarks import programs

    named = {name for reason in ESTIMATED for name in re.findall(r"`([^`]*)`", reason)}
    assert named <= {benchmark.name for benchmark in programs(is_small=False)}
