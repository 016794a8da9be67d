"""Running a compiled program: arguments and results, memory, threads, and the devices of one run."""
