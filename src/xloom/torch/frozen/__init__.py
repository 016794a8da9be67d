"""Inference with weights that stay as they are: what is computed of them alone is computed once.

preparation.py      a graph's module, its channels last and its batch norms part of the weights, in two
scale_folding.py    channels of a convolution's result that are scaled: its weights are
filter_panels.py    filters in the order in which kernels read them
products_of_weights.py
                    which products have weights on their right, and others in their place
weight_tiles.py     weights in the tiles that a processor multiplies
weight_panels.py    weights of f32 in the panels that products read
division.py         a module in two: what is computed of weights alone, and the rest
kept_values.py      the values of the first part, until a weight changes
memory_sample.py    writes to weights that torch does not count
"""
