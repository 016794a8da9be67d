"""Programs on GPUs, through the driver of `cuda/driver`, NVIDIA's or a simulated one.

device.py        a GPU: its context, streams and what is on the way
events.py        points of a stream's work, and what waits for them
memory.py        device memory, in the order of a stream
pinned.py        the host's memory that a GPU reads and writes by itself
arrays.py        an array in device memory
transfers.py     arrays from host to device, back, and between devices
images.py        kernels as machine code, made once
modules.py       kernels that are loaded on a device
tape.py          a program's launches and copies as rows of numbers
tape_runner.py   the native function that does such rows
graphs.py        the launches of a program that runs again on the same arrays
conditional_graphs.py  such a program with loops and branches that the device decides
executable.py    a program, and its runs
collectives.py   what the devices of a program copy from each other
meeting.py       where the threads of these meet
custom_calls.py  code outside of programs, which gives a stream work of its own
device_view.py   an array as such code sees it
guarded_call.py  the sanitizer of such calls
"""
