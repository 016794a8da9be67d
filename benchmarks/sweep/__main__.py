"""python -m benchmarks.sweep."""

from benchmarks.sweep.cli import main

main()
