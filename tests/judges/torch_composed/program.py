"""Torch programs as data: leaves, steps, results; their source text, and a function of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Leaf:
    """A tensor that the program is given: by type and seed, or, in programs cut down, by value."""

    dtype: str
    dims: tuple[int, ...]
    seed: int = 0
    differentiable: bool = False
    value: torch.Tensor | None = None

    def make(self) -> torch.Tensor:
        """The tensor, on the host."""
        if self.value is not None:
            return self.value.clone().requires_grad_(self.differentiable)
        dtype = getattr(torch, self.dtype)
        draw = torch.Generator().manual_seed(self.seed)
        if dtype is torch.bool:
            return torch.rand(self.dims, generator=draw) < 0.5
        if not dtype.is_floating_point and not dtype.is_complex:
            return torch.randint(-4 if dtype.is_signed else 0, 6, self.dims, generator=draw).to(dtype)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(self.dims, generator=draw, dtype=wide).to(dtype).requires_grad_(self.differentiable)


@dataclass(frozen=True)
class Step:
    """A line of the program: `text` with `{out}`, the names of `operands` as {a}, {b}, {c}, and numbers filled in."""

    text: str
    operands: tuple[int, ...]
    out: int | None
    writes: bool = False

    def line(self, named: Callable[[int], str]) -> str:
        """The line in Python."""
        names = {letter: named(k) for letter, k in zip("abcd", self.operands, strict=False)}
        return self.text.format(**names, out="" if self.out is None else named(self.out))


@dataclass(frozen=True)
class Program:
    """Variables are numbered: the leaves, then what each step makes."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...] = ()
    results: tuple[int, ...] = ()
    backward: bool = False
    seed: int = field(default=0, compare=False)

    def named(self, variable: int) -> str:
        """The name of a variable."""
        return f"x{variable}" if variable < len(self.leaves) else f"v{variable - len(self.leaves)}"

    def source(self) -> str:
        """The function `program`."""
        lines = [f"def program({', '.join(map(self.named, range(len(self.leaves))))}):"]
        lines += ["    " + text for step in self.steps for text in step.line(self.named).split("\n")]
        return "\n".join([*lines, f"    return [{', '.join(map(self.named, self.results))}]"])

    def function(self) -> Callable[..., list[torch.Tensor]]:
        """The program as a function."""
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source(), f"<program {self.seed}>", "exec"), scope)
        return scope["program"]

    def text(self) -> str:
        """A script that shows the program: source, leaves."""
        lines = [self.source()]
        for k, leaf in enumerate(self.leaves):
            value = leaf.make().detach()
            grad = ", requires_grad=True" if leaf.differentiable else ""
            shown = f"torch.tensor({value.tolist()}, dtype=torch.{leaf.dtype}{grad})" if value.numel() <= 64 else leaf
            if not value.numel():
                shown = f"torch.zeros({list(leaf.dims)}, dtype=torch.{leaf.dtype}{grad})"
            lines.append(f"{self.named(k)} = {shown}")
        return "\n".join([*lines, "# and its gradients" if self.backward else ""]).rstrip()


@dataclass
class Outcome:
    """What a run gives: results, leaves as they are afterwards, gradients; and which share memory with which."""

    results: list[torch.Tensor]
    leaves: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    shared: list[tuple[int, int]]

    def named(self) -> list[tuple[str, torch.Tensor | None]]:
        """All values with what they are."""
        out: list[tuple[str, torch.Tensor | None]] = [(f"result {k}", v) for k, v in enumerate(self.results)]
        out += [(f"leaf {k} afterwards", v) for k, v in enumerate(self.leaves)]
        return out + [(f"gradient of leaf {k}", v) for k, v in enumerate(self.gradients)]


def run(program: Program, function: Callable[..., Any], place: Callable[[torch.Tensor], torch.Tensor]) -> Outcome:
    """Calls a program's function, by whatever door, on leaves where `place` puts them."""
    own = [place(leaf.make().detach()).requires_grad_(leaf.differentiable) for leaf in program.leaves]
    results = list(function(*own))
    gradients: Sequence[torch.Tensor | None] = []
    if program.backward:
        wanted = [leaf for leaf in own if leaf.requires_grad]
        outputs = [each for each in results if each.requires_grad]
        gradients = torch.autograd.grad(outputs, wanted, [_cotangent(each) for each in outputs], allow_unused=True)
    memories = [each.untyped_storage().data_ptr() if each.numel() else 0 for each in (*own, *results)]
    shared = [(i, j) for j in range(len(memories)) for i in range(j) if memories[i] and memories[i] == memories[j]]
    host = [[None if each is None else on_host(each) for each in part] for part in (results, own, gradients)]
    return Outcome(*host, shared)  # type: ignore[arg-type]


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host."""
    return tensor.detach().cpu().resolve_conj().resolve_neg().clone()


def _cotangent(result: torch.Tensor) -> torch.Tensor:
    ramp = torch.arange(result.numel(), dtype=torch.float32) % 7 / 8 + 0.25
    return ramp.reshape(result.shape).to(result.dtype).to(result.device)
