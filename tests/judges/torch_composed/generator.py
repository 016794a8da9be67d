"""Draws a random torch program: steps are tried on the CPU while it grows, and what the CPU refuses is left out."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tests.judges.torch_composed.operators import GROUPS, KINDS, Group, number
from tests.judges.torch_composed.program import Leaf, Program, Step, run

_FLOATS = ["float64"] * 6 + ["float32"] * 2 + ["bfloat16"]
_OTHERS = ["int64", "int64", "int32", "bool", "bool", "complex128", "complex64", "uint8", "int16"]
_SIZES = [1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16, 17]
_LARGEST = 20_000
_GREATEST = 1e4
_OPERAND = re.compile(r"\{([abcd])(?::(\w))?\}")
_NUMBER = re.compile(r"<(\w+)>")
_SAME_PLACES = re.compile(r"\{a\}\.(add|sub|mul|copy|lerp|addcmul)_\(")
"""Steps that may read exactly what they write."""


def generate(seed: int, writes_overlap: bool = True) -> Program | None:
    """The program of a seed; None where the CPU does not run what was drawn as a whole.

    With `writes_overlap`, views of overlapping elements are written to.
    """
    draw = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _Growing(draw, writes_overlap).program(seed)
        for candidate in (program, _without_gradients(program)):
            try:
                run(candidate, candidate.function(), lambda leaf: leaf)
                return candidate
            except Exception:  # what torch refuses only of the whole: a gradient of what was written over
                continue
    return None


def _without_gradients(program: Program) -> Program:
    leaves = tuple(replace(leaf, differentiable=False) for leaf in program.leaves)
    return replace(program, leaves=leaves, backward=False)


class _Growing:
    def __init__(self, draw: random.Random, writes_overlap: bool):
        self.random = draw
        self.writes_overlap = writes_overlap
        self.with_gradients = draw.random() < 0.5
        self.leaves = self._leaves()
        self.values: list[Any] = [leaf.make() for leaf in self.leaves]
        self.overlapping = [False] * len(self.values)
        self.steps: list[Step] = []

    def _leaves(self) -> tuple[Leaf, ...]:
        r = self.random
        n, m, k = (r.choice(_SIZES) for _ in range(3))
        if r.random() < 0.08:
            n = r.choice([0, 1, 33, 64, 100])
        if r.random() < 0.3:
            m = n
        shapes = [(n, m), (n, m), (m,), (n,), (n, 1), (1, m), (m, n), (n, n), (k, n, m), (2, m), (n, 2), ()]
        main = r.choice(_FLOATS)
        dtypes = [main, main, r.choice(_FLOATS), r.choice(_OTHERS), r.choice(_OTHERS), main]
        out = []
        for index, dtype in enumerate(dtypes[: r.randint(2, 6)]):
            dims = shapes[0] if index < 2 else r.choice(shapes)
            floats = KINDS["g"](getattr(torch, dtype))
            gradient = self.with_gradients and floats and r.random() < 0.5
            out.append(Leaf(dtype, dims, r.getrandbits(31), gradient))
        return tuple(out)

    def program(self, seed: int) -> Program:
        """Grows to a drawn length; the results are some of the last values."""
        r = self.random
        wanted = r.choice([5, 8, 12, 12, 16, 20, 30, 40])
        for _ in range(4 * wanted):
            if len(self.steps) == wanted:
                break
            self._try(r.choices(GROUPS, [g.weight for g in GROUPS])[0])
        made = range(len(self.leaves), len(self.values))
        last = made[-3:] if r.random() < 0.5 else list(made)[-1:]
        results = {*last, *r.sample(made, min(len(made), r.randint(0, 3)))}
        if r.random() < 0.1:
            results.add(r.randrange(len(self.leaves)))
        backward = any(self.values[k].requires_grad for k in results)
        return Program(self.leaves, tuple(self.steps), tuple(sorted(results)), backward, seed)

    def _try(self, group: Group) -> None:
        row = self.random.choice(group.rows)
        kinds = {letter: kind for letter, kind in _OPERAND.findall(row) if kind}
        chosen = [self._operand(kinds[letter], group.writes and letter == "a") for letter in sorted(kinds)]
        if any(k is None for k in chosen):
            return
        operands = tuple(k for k in chosen if k is not None)
        text = _NUMBER.sub(lambda m: number(m[1], self.random), _OPERAND.sub(r"{\1}", row))
        out = None if group.writes else len(self.values)
        step = Step(text if group.writes else "{out} = " + text, operands, out, group.writes)
        if group.writes and not self._may_write(step):
            return
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        scope |= {self._name(k): v for k, v in enumerate(self.values)}
        try:
            exec(step.line(self._name), scope)
        except Exception:  # shapes or types that do not go together
            return
        if out is not None:
            made = scope[self._name(out)]
            if not _is_fine(made) or ("as_strided" in step.text and not self._is_defined(made)):
                return
            self.values.append(made)
            inherited = any(self.overlapping[k] and _shares(self.values[k], made) for k in operands)
            self.overlapping.append(inherited or _overlaps(made))
        self.steps.append(step)

    def _name(self, variable: int) -> str:
        return f"v{variable}"

    def _operand(self, kind: str, written: bool) -> int | None:
        fits = KINDS[kind]
        found = [
            k
            for k, value in enumerate(self.values)
            if fits(value.dtype) and not (written and self.leaves and k < len(self.leaves) and value.requires_grad)
        ]
        if not found:
            return None
        recent = found[-5:]
        return self.random.choice(recent if self.random.random() < 0.6 else found)

    def _is_defined(self, made: torch.Tensor) -> bool:
        """Whether all memory of a view has values of the program: what a kernel leaves beside its result is nothing."""
        known = set().union(*(_bytes(each) for each in self.values if each.numel() and _shares(each, made)))
        return not made.numel() or known.issuperset(_bytes(made))

    def _may_write(self, step: Step) -> bool:
        """False where torch says nothing of the result: an operand lies across the target in memory."""
        target, *others = step.operands
        if self.overlapping[target] and not self.writes_overlap:
            return False
        return all(
            not _meet(self.values[target], self.values[k])
            or (_SAME_PLACES.match(step.text) and _same(self.values, target, k))
            for k in others
        )


def _is_fine(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() > _LARGEST or value.dim() > 5:
        return False
    if not KINDS["g"](value.dtype):
        return True
    sizes = value.detach().abs()
    return bool((sizes <= _GREATEST).all())


def _shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _same(values: Sequence[torch.Tensor], one: int, other: int) -> bool:
    a, b = values[one], values[other]
    same = a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    return same and a.dtype is b.dtype and not _overlaps(a)


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have a byte in common."""
    if not a.numel() or not b.numel() or not _shares(a, b):
        return False
    return not _bytes(a).isdisjoint(_bytes(b))


def _bytes(tensor: torch.Tensor) -> set[int]:
    unit = 4  # in steps that are no wider than any element of which there are views as others
    size = tensor.itemsize
    return {p * size // unit + k for p in _places(tensor) for k in range(max(1, size // unit))}


def _places(tensor: torch.Tensor) -> list[int]:
    """Where in memory the elements lie."""
    where = torch.tensor(tensor.storage_offset())
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        where = where.unsqueeze(-1) + torch.arange(size) * stride
    return where.flatten().tolist()


def _overlaps(tensor: torch.Tensor) -> bool:
    places = _places(tensor)
    return len(set(places)) < len(places)
