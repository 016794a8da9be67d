"""Numbers by which code is chosen say what they are: each has a docstring or a comment, its own or its group's."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "xloom"
NUMBERS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)


def is_number(value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    plain = all(isinstance(node, NUMBERS) for node in nodes) and bool(constants)
    return plain and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in constants)


def unexplained(text: str) -> list[str]:
    """The lines of constants that nothing is said of."""
    lines, body = text.splitlines(), ast.parse(text).body
    found = []
    for k, node in enumerate(body):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], (ast.Name, ast.Tuple)):
            continue
        name = ast.unparse(node.targets[0]).strip("(")
        if not name.split(",")[0].lstrip("_").isupper() or not is_number(node.value):
            continue
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


@pytest.mark.parametrize("room", ["codegen", "cpu", "llvm"])
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
