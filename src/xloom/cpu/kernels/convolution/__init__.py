"""Convolution as sums of products over the taps of a window.

emission.py     what is done in which order
geometry.py     where the elements of the three arrays lie that meet
padding.py      a copy of the input with its padding
thinning.py     a copy of the input without what no window meets
edges.py        copies of what single tiles meet at the edges of the input, where that is enough
tiles.py        the loop over tiles of the output
walk.py         the loops over a window's taps
products.py     what a tile multiplies: scalars and vectors of input and kernel
adjacent.py     groups of one feature, adjacent in memory
depthwise.py    groups of one feature in other layouts, or of windows that meet elements often
correlation.py  gradients of kernels, of one feature a group or few
lanes.py        copies of the input for these, with a feature a lane
panels.py       the kernel, packed
zeros.py        NaN where zeros beside the input meet what is not finite
spoiling.py     the function that makes it
"""
