"""`python -m benchmarks.workloads`."""

from benchmarks.workloads.cli import main

main()
