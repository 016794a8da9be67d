"""Where what a side returns is not what it should be, why, and the program that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.judges.explained import Difference, explanation
from tests.judges.reducer import computation_values
from xloom.hlo.module import Module
from xloom.interpreter.bounds import Bounds

_INPUTS = ("parameter", "constant", "broadcast", "iota", "tuple", "get-tuple-element")


@dataclass
class Mismatch:
    """Where one output is not within bounds."""

    message: str
    got: np.ndarray
    want: np.ndarray
    wrong: np.ndarray


def mismatch(mine: list[Bounds], got: list[np.ndarray], instead: list[np.ndarray] | None) -> Mismatch | None:
    """The first output of `got` that is not within bounds."""
    nothing = np.zeros(0)
    if len(mine) != len(got):
        return Mismatch(f"{len(got)} outputs for {len(mine)}", nothing, nothing, nothing)
    for k, (bound, value) in enumerate(zip(mine, got, strict=True)):
        want = bound.runs[0] if instead is None else instead[k]
        if value.dtype != want.dtype or value.shape != want.shape:
            message = f"output {k}: {value.dtype}{list(value.shape)} for {want.dtype}{list(want.shape)}"
            return Mismatch(message, nothing, nothing, nothing)
        wrong = bound.wrong(value, None if instead is None else want)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            runs = ", ".join(str(r[at]) for r in bound.runs[1:])
            share = f"{wrong.sum()} of {wrong.size} elements"
            message = (
                f"output {k} {value.dtype}: {share}, at {list(at)} {value[at]} for {want[at]} (other runs: {runs})"
            )
            return Mismatch(message, value, want, wrong)
    return None


def cause_of(pair: tuple[str, str], module: Module, arguments: Sequence[np.ndarray], found: Mismatch) -> str:
    """Why XLA:CPU is known to be wrong there, if it is."""
    *producers, last = [i for i in module.entry.post_order() if i.opcode not in _INPUTS] or [module.entry.root]
    if pair != ("jaxlib", "interpreter") or not found.got.size:
        return ""
    values = computation_values(module, module.entry, arguments)
    operands = [values[o] for o in last.operands]
    folded = not any(i.opcode == "parameter" for i in module.entry)
    return explanation(Difference(last, operands, producers, folded, found.got, found.want, found.wrong))


def listing(module: Module, arguments: Sequence[np.ndarray]) -> str:
    with np.printoptions(threshold=64, precision=9):
        values = "\n".join(f"// p{k} = {a!s}" for k, a in enumerate(arguments))
    return f"{module.to_text(print_large_constants=True)}\n{values}"
