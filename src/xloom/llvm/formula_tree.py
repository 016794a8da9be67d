"""Formulas of one kind: what they begin with alike is kept once, and computed once to find the one that serves.

The code that writes a kernel decides by its sizes. So formulas of one kind are the same up to a decision in which they
differ, and make a tree. It is lines of JSON, of which only those on the way to a formula are read: the first line says
how many values a formula has at most; the others are nodes, the second one the root.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xloom.llvm.dimension_formula import STEP, DimensionFormula, run_steps

_ROOT = 1
"""The line that is the root."""


@dataclass
class _Branch:
    """Leads to a node by the first of its steps: mostly a condition, which those of the others exclude."""

    line: int
    """The node's."""
    constants: list[int]
    """That the node's steps have, beside those before them."""
    step: list[int]


@dataclass
class _Node:
    """Steps, and what follows: others by branches, or the end of a formula."""

    steps: list[int]
    branches: list[_Branch]
    constants: list[int]
    """That only results have."""
    results: list[list[int]] | None
    content: Any

    def line(self) -> bytes:
        """As it is kept."""
        branches = [[x.line, x.constants, x.step] for x in self.branches]
        fields = self.steps, branches, self.constants, self.results, self.content
        return json.dumps(fields, separators=(",", ":")).encode()


def _read(line: bytes) -> _Node:
    steps, branches, *end = json.loads(line)
    return _Node(steps, [_Branch(*x) for x in branches], *end)


class FormulaTree:
    """Formulas, each with some content."""

    def __init__(self, data: bytes = b""):
        self._lines = data.splitlines() or [b"0", _Node([], [], [], None, None).line()]

    @property
    def data(self) -> bytes:
        """What to make it of again."""
        return b"\n".join(self._lines)

    def __len__(self) -> int:
        """How many nodes it has."""
        return len(self._lines) - _ROOT

    def find(self, sizes: Sequence[int]) -> tuple[list[list[int]], Any] | None:
        """The results for these sizes of a formula whose conditions they meet, and its content."""
        return self._find(_ROOT, [*sizes, *[0] * int(self._lines[0])], len(sizes), 0)

    def _find(self, line: int, values: list[int], at: int, known: int) -> tuple[list[list[int]], Any] | None:
        """From a node on, where `values` has what is computed up to `at`, and so many constants."""
        node = _read(self._lines[line])
        end = run_steps(node.steps, values, at)
        if end is None:
            return None
        for branch in node.branches:
            _put(values, known, branch.constants)
            first = run_steps(branch.step, values, end)
            if first is not None:
                found = self._find(branch.line, values, first, known + len(branch.constants))
                if found is not None:
                    return found
        if node.results is None:
            return None
        _put(values, known, node.constants)
        return [[values[k] for k in group] for group in node.results], node.content

    def add(self, formula: DimensionFormula, content: Any) -> None:
        """Adds a formula; one with the same steps goes."""
        constants, steps = formula.constants[::-1], formula.steps
        self._lines[0] = b"%d" % max(int(self._lines[0]), formula.computed + len(constants))
        line, node, known = _ROOT, _read(self._lines[_ROOT]), 0
        while steps:
            branch, same = self._branch(node, constants, known, steps)
            if branch is None:
                same = len(steps)
                branch = _Branch(len(self._lines), constants[known : _needed(steps, known)], steps[:STEP])
                node.branches.append(branch)
                self._lines[line] = node.line()
                node = _Node(steps[STEP:], [], [], None, None)
                self._lines.append(b"")
            else:
                child = _read(self._lines[branch.line])
                if same < STEP + len(child.steps):
                    child = self._split(branch, child, same, known)
                    self._lines[line] = node.line()
                node = child
            line, known, steps = branch.line, known + len(branch.constants), steps[same:]
        node.constants, node.results, node.content = constants[known:], formula.results, content
        self._lines[line] = node.line()

    def _branch(self, node: _Node, constants: list[int], known: int, steps: list[int]) -> tuple[_Branch | None, int]:
        """The branch that begins as `steps` do, and how far it does."""
        for branch in node.branches:
            theirs = branch.step + _read(self._lines[branch.line]).steps
            alike = known + _alike(branch.constants, constants[known:])
            same = _alike(theirs, steps) // STEP * STEP
            while same and _needed(theirs[:same], known) > alike:
                same -= STEP
            if same:
                return branch, same
        return None, 0

    def _split(self, branch: _Branch, node: _Node, same: int, known: int) -> _Node:
        """Makes two nodes of one that `branch` leads to: the upper one, of so many numbers of its steps."""
        steps = branch.step + node.steps
        own = _needed(steps[:same], known) - known
        lower = _Branch(len(self._lines), branch.constants[own:], steps[same : same + STEP])
        node.steps = steps[same + STEP :]
        self._lines.append(node.line())
        branch.constants = branch.constants[:own]
        upper = _Node(steps[STEP:same], [lower], [], None, None)
        self._lines[branch.line] = upper.line()
        return upper


def _put(values: list[int], known: int, constants: list[int]) -> None:
    for number, value in enumerate(constants, known + 1):
        values[-number] = value


def _needed(steps: list[int], known: int) -> int:
    """How many constants there must be for steps, beside those that are known."""
    return max([known, *(-x for k, x in enumerate(steps) if k % STEP)])


def _alike(x: Sequence[int], y: Sequence[int]) -> int:
    """How many numbers two sequences begin with alike."""
    return next((k for k, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
