"""What one run of a kernel does not show: it runs again on the same operands, in child processes; outputs are compared.

A kernel whose result changes with what lies around its buffers reads there. An element that has what its output started
with, whatever that was, was not written. What no output depends on is found where guard pages touch the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from xloom.calls.sanitizer.guarded import GuardedArray, GuardedCall
from xloom.calls.sanitizer.isolation import run_in_child
from xloom.calls.sanitizer.poison import poisoned
from xloom.errors import CustomCallError
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction

_LOOKED_AT = 16
"""Runs of an instruction that are made again; those of a long loop would take long."""
_LEAST_SECONDS = 2.0
_KEPT = 256
_runs: dict[Instruction, int] = {}

Outcome = Sequence[np.ndarray] | str
"""The outputs, or how the kernel failed."""
# a low and a high value of a kind: a maximum or minimum shows one of them
_VALUES = {
    Kind.PRED: (0x00, 0x01),
    Kind.UNSIGNED: (0x00, 0xFF),
    Kind.SIGNED: (0x80, 0x7B),
    Kind.FLOAT: (0xFA, 0x7B),
    Kind.COMPLEX: (0xFA, 0x7B),
}


class Reruns:
    """Runs of `work`, which makes the call, for comparison with the one that was made, which took `seconds`."""

    def __init__(self, call: GuardedCall, used: Sequence[np.ndarray], work: Callable[[], None], seconds: float):
        self._call = call
        self._used = [any(g.array is u for u in used) for g in call.results]
        self._work = work
        self._seconds = seconds_again(seconds)
        self._first = call.outputs()
        self._damage: list[str] = []

    def stray_accesses(self) -> list[str]:
        """What it read outside its buffers, as far as its outputs tell: the nearest such element; or wrote there what
        was there before."""
        for number in range(2):
            zones = [(guarded, *guarded.region.zones) for guarded in self._call.arrays]
            outcome = self._outcome(zones, number)
            if self._damage:
                return self._damage
            if self._same(outcome, self._first):
                continue
            usual = self._outcome()
            if not self._same(usual, self._outcome()):
                return []  # it does not give the same twice
            return self._nearest(usual, number)
        return []

    def unwritten(self) -> dict[str, np.ndarray]:
        """The numbers of elements that keep what they start with, by the output's name."""
        outcome = self._outcome(flipped=True)
        if isinstance(outcome, str):
            return {}
        return {
            g.name: poisoned(data, g.dtype, flipped=True) for g, data in zip(self._call.results, outcome, strict=True)
        }

    def _nearest(self, usual: Outcome, number: int) -> list[str]:
        for guarded in self._call.arrays:
            width = guarded.dtype.numpy.itemsize
            for side, size in enumerate(guarded.region.zones):

                def differs(reach: int, guarded: GuardedArray = guarded, side: int = side) -> bool:
                    zone = (guarded, 0, reach) if side else (guarded, reach, 0)
                    return not self._same(self._outcome([zone], number), usual)

                if not differs(size):
                    continue
                near, far, most = 0, 1, -(-size // width)  # in elements: no difference, a difference
                while far < most and not differs(far * width):
                    near, far = far, min(most, 2 * far)
                while far - near > 1:
                    middle = (near + far) // 2
                    near, far = (near, middle) if differs(min(size, middle * width)) else (middle, far)
                offset = guarded.region.nbytes + (far - 1) * width if side else -far * width
                return [f"read {guarded.element(offset)}: what lies there changes the outputs"]
        return []

    def _outcome(
        self, zones: Sequence[tuple[GuardedArray, int, int]] = (), number: int = 0, *, flipped: bool = False
    ) -> Outcome:
        """With other values in so many bytes of the red zones before and behind arrays."""
        call = self._call
        call.set_outputs()
        if flipped:
            call.flip_poison()
        for guarded, before, behind in zones:
            guarded.region.fill_zones(_value(guarded.dtype, number), before, behind)
        try:
            run_in_child(lambda: silently(self._work), self._seconds, "it", "")
            self._damage = call.damage()
            return call.outputs()
        except CustomCallError as error:
            return error.message
        finally:
            for guarded, _, _ in zones:
                guarded.region.fill_zones(0, 0, 0)
            call.set_outputs(self._first)

    def _same(self, one: Outcome, other: Outcome) -> bool:
        if isinstance(one, str) or isinstance(other, str):
            return isinstance(one, str) and one == other
        return all(np.array_equal(a, b) for a, b, used in zip(one, other, self._used, strict=True) if used)


def seconds_again(seconds: float) -> float:
    """How long another run may take, when the first has taken so many seconds."""
    return max(_LEAST_SECONDS, 4 * seconds)


def silently(work: Callable[[], None]) -> None:
    """Does it in a process that says nothing from now on."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    work()


def may_run_again(instruction: Instruction) -> bool:
    """True for the first runs of an instruction that does no more than compute."""
    if instruction["custom_call_has_side_effect"]:
        return False
    if len(_runs) >= _KEPT:
        _runs.clear()
    _runs[instruction] = _runs.get(instruction, 0) + 1
    return _runs[instruction] <= _LOOKED_AT


def _value(dtype: DType, number: int) -> int:
    return _VALUES[dtype.kind][number]
