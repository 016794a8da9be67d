"""The cases of a benchmark, each in a process of its own, with a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from tempfile import TemporaryDirectory

from benchmarks.child import ChildError, run_child
from benchmarks.progress import progress_bar

_TIMEOUT = 300.0

Say = Callable[[str], None]


def one_by_one(module: str, cases: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], list[float], Say]]:
    """Of each case the `figures` that `python -m MODULE --one CASE...` prints, and what prints a line beside the bar.

    Each begins with nothing cached. Of a case that fails, the bar says why.
    """
    with progress_bar() as progress, TemporaryDirectory() as cache:
        task = progress.add_task("", total=len(cases))

        def say(line: str) -> None:
            progress.console.print(line, markup=False, highlight=False)

        for number, case in enumerate(cases):
            name = " ".join(case)
            progress.update(task, description=name)
            try:
                figures = run_child([module, "--one", *case], f"{cache}/{number}", _TIMEOUT)["figures"]
            except ChildError as error:
                say(f"{name}: {error}")
            else:
                yield case, figures, say
            progress.advance(task)
