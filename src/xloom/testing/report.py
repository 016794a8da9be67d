"""What a check of custom calls found."""

from __future__ import annotations

from dataclasses import dataclass, field

from xloom.errors import XloomError


@dataclass(frozen=True)
class Difference:
    """The first element of a result where kernel and carried HLO differ, in the `run`-th run of the call.

    `part` is the tuple index of the result, `ulps` the distance in units in the last place (0 where that means nothing,
    as for NaN), `count` how many of `size` elements differ. A kernel that fails has an `error` instead.
    """

    run: int
    part: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    kernel: object = None
    expected: object = None
    ulps: float = 0.0
    count: int = 0
    size: int = 0
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"fails in run {self.run}: {self.error}"
        part = f"{{{','.join(map(str, self.part))}}}" if self.part else ""
        off = f", {self.ulps:.4g} ULPs off" if self.ulps else ""
        return (
            f"differs from the HLO that it carries in run {self.run}: result{part}{list(self.index)} is {self.kernel}, "
            f"expected {self.expected}{off}; {self.count} of {self.size} elements differ"
        )


@dataclass
class CallCheck:
    """One custom call of the program, which may run several times: its target, and where it is."""

    target: str
    where: str
    runs: int = 0
    ulps: float = 0.0
    """How far the kernel was off at most, within what is allowed."""
    difference: Difference | None = None

    def __str__(self) -> str:
        runs = f"{self.runs} run{'s' * (self.runs > 1)}"
        said = self.difference or f"agrees with the HLO that it carries in {runs}, to {self.ulps:.4g} ULPs"
        return f"custom call {self.target!r} {said} (at {self.where})"


@dataclass
class Report:
    """The calls that were checked, in the order of their first runs; and the targets of those that have no kernel."""

    platform: str
    calls: list[CallCheck] = field(default_factory=list)
    without_kernel: list[str] = field(default_factory=list)

    @property
    def differing(self) -> list[CallCheck]:
        """Those whose kernel is wrong."""
        return [call for call in self.calls if call.difference is not None]

    def __str__(self) -> str:
        absent = [f"custom call {t!r} has no kernel for {self.platform}" for t in self.without_kernel]
        return "\n".join([*map(str, self.calls), *absent])


class CallDifferenceError(XloomError):
    """Kernels do not compute what their calls carry. Act: see `report`, which has the first differing elements."""

    def __init__(self, report: Report):
        wrong = report.differing
        super().__init__("\n".join(map(str, wrong)))
        self.report = report
