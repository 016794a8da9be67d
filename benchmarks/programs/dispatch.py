"""Programs that do nothing, so that what is left is the call."""

from benchmarks.programs.arguments import normal, scalar
from benchmarks.programs.registry import program


@program("empty", scalar(1.0))
def empty(x):
    """One number in, one out."""
    return x + 1.0


@program("hundred-arguments", [normal(8)] * 100)
def hundred_arguments(xs):
    """Many small arrays in, one out."""
    return sum(xs)


@program("hundred-results", normal(8))
def hundred_results(x):
    """One small array in, many out."""
    return [x + float(k) for k in range(100)]
