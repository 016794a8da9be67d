"""A CUDA driver without a GPU: the table of `cuda/driver`, filled with functions on the host's memory.

Work that is enqueued waits until the host asks for it, and then runs in an order that a seed draws among all that the
streams' and events' order allows. So what does not wait for what it needs is found. Kernels run on the emulator.

driver.py        the entry points
modules.py       which kernel an image is
memory.py        blocks of device memory, and who may touch them when
streams.py       streams, events, and the order of work
graphs.py        graphs, their conditional nodes, and the order of nodes
"""
