"""A GPU's kernels against the interpreter's values, and their speed, in less than ten minutes.

    python -m tests.judges.gpu --build [--target sm_90a]      on any machine: programs, values, machine code
    python -m tests.judges.gpu [--on gpu|emulator]            on the one with the GPU: nothing is compiled there

sources.py      the programs: samples of opcodes, kernels, random ones, JAX's and PyTorch's
recorded.py     a program with arguments and with what it may return, as a file
images.py       machine code, by the kernel that it is of
build.py        records them, and assembles their kernels
machine.py      what the machine has and lacks
correctness.py  runs what is recorded
benchmarks.py   bandwidth, products, attention, dispatch
speed.py        those in a process of their own
doors.py        JAX and PyTorch on the GPU, if they are there
"""
