"""Convolution as sums of products over the taps of a window.

emission.py               what is done in which order
geometry.py               where the elements of the three arrays lie that meet
tiling.py                 which axes of the output are a tile's rows and vectors
padding.py                a copy of the input with its padding
strided_compaction.py     a copy of the input without what no window meets
edges.py                  copies of what single tiles meet at the edges of the input, where that is enough
filter_lines.py           a filter in lines of what is summed, for few output features
filter_panels.py          filters that come packed
packed_filter.py          the filter, packed
filter_prefetch.py        lines of a large filter, fetched by the tiles before those that read them
blocks.py                 long sums in pieces, for which the packed filter stays in the second-level cache
tile_loop.py              the loop over tiles of the output
window_pointers.py        the loops over a window's taps
tile_product.py           what a tile multiplies: scalars and vectors of input and filter
depthwise_adjacent.py     groups of one feature, adjacent in memory
depthwise_filter_gradient.py   gradients of their filters, whose windows are images
depthwise.py              groups of one feature in other layouts, or of windows that meet elements often
correlation.py            gradients of filters of few features per group, or of one in other layouts
input_box.py              copies of the input for these, with a feature per lane
zeros.py                  NaN where zeros beside the input meet what is not finite
nan_propagation.py        the function that makes it
nan_propagation_text.py   its LLVM IR
"""
