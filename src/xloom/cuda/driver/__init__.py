"""NVIDIA's driver as a table of entry points, whoever fills it: `libcuda`, or `cuda/simulated_driver`.

entry_points.py  what is called, and with which arguments
conditional_node.py  what a graph's node is made of that the device decides about
results.py       what calls return, by name, and the errors made of it
driver.py        a filled table, as the run time uses it
libcuda.py       NVIDIA's, out of the library that its driver brings
"""
