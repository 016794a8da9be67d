"""Each place of the code base that makes an error of ours, with its message: read from the source, not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import xloom

SOURCE = Path(xloom.__file__).parent
_ASIDE = {"where", "span", "hint"}
_MAKERS = {
    "error": ("hlo/text/", "ParseError", True),
    "invalid": ("pjrt/", "PjrtError", True),
    "instruction_error": ("hlo/verify/", "VerifyError", True),
    "require": ("hlo/verify/", "ShapeError", False),
}
"""Functions that make an error of a message: the folder that has them, the kind, and whether they say more."""


@dataclass(frozen=True)
class Made:
    """An error that is made; its `message` has {} for what is known at run time only."""

    kind: str
    file: str
    line: int
    message: str
    says_more: bool
    """Whether where it is, or what to do, comes with it."""


@cache
def error_kinds() -> dict[str, str]:
    """The names of XloomError and all classes below it, each with its docstring."""
    bases: dict[str, set[str]] = {}
    documented: dict[str, str] = {}
    for tree in _trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(_name(base) for base in node.bases)
                documented[node.name] = ast.get_docstring(node) or ""
    kinds = {"XloomError"}
    while more := {name for name, its in bases.items() if its & kinds} - kinds:
        kinds |= more
    return {kind: documented[kind] for kind in sorted(kinds)}


def made() -> Iterator[Made]:
    """All that are made, by file and line."""
    kinds = error_kinds()
    for path, tree in sorted(_trees().items()):
        assigned = _assigned(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in kinds:
                yield _made(node, _name(node.func), path, assigned)
            elif isinstance(node, ast.Call) and _name(node.func) in _MAKERS:
                folder, kind, says_more = _MAKERS[_name(node.func)]
                if path.relative_to(SOURCE).as_posix().startswith(folder):
                    yield replace(_made(node, kind, path, assigned), says_more=says_more)


def _made(node: ast.Call, kind: str, path: Path, assigned: dict[str, list[tuple[int, ast.expr]]]) -> Made:
    texts = [_text(argument, node.lineno, assigned) for argument in node.args]
    text = next((text for text in texts if text.strip("{}")), "{}" if "{}" in texts else "")
    keywords = {keyword.arg for keyword in node.keywords}
    says_more = bool(keywords & _ASIDE) or None in keywords
    return Made(kind, path.relative_to(SOURCE).as_posix(), node.lineno, text, says_more)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _assigned(tree: ast.Module) -> dict[str, list[tuple[int, ast.expr]]]:
    """What is assigned to each name, by line."""
    found: dict[str, list[tuple[int, ast.expr]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append((node.lineno, node.value))
    return found


def _text(node: ast.expr, line: int, assigned: dict[str, list[tuple[int, ast.expr]]]) -> str:
    """The literal part of a message; of a name, what the line before `line` that assigns it says."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, line, assigned) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, line, assigned) + _text(node.right, line, assigned)
    if isinstance(node, ast.IfExp):
        return _text(node.body, line, assigned)
    if isinstance(node, ast.Name):
        before = [(at, value) for at, value in assigned.get(node.id, []) if at < line and value is not node]
        if before:
            at, value = max(before, key=lambda each: each[0])
            return _text(value, at, assigned)
    return "{}"
