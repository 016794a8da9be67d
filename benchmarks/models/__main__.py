"""`python -m benchmarks.models`."""

from benchmarks.models.cli import main

main()
