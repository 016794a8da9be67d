"""How near kernels come to what the machine can do.

kernel_times.py  the time of each kernel of a program, with the bytes and operations that it needs
limits.py        the machine's bandwidth and arithmetic at best
yardsticks.py    what those are measured by
"""
