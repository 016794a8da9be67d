"""Products of matrices, from which dot and convolution are made.

axes.py             the problem as strided axes, whatever the dimension numbers were
arithmetic.py       how elements are loaded, multiplied, summed and stored
tile.py             a block of the result in registers
operands.py         which arrays a product reads and writes, and conversions before and after it
fused_operands.py   an operand that is computed line by line as it is needed
packing.py          an operand rearranged into panels for the tile
blocked_product.py  large products: blocks of one operand packed, which fit the caches, and a few rows of the other
direct.py           small products: operands read where they lie
vector.py           a matrix times few vectors: the choice between the next three
dots.py             sums along a depth that is adjacent in both
strips.py           a vector or very few: multiples of adjacent rows, added to strips of results
rank_updates.py     several vectors: rows of the matrix wait in registers for one result after the other
matrix_rows.py      what these three have in common
packed_pairs.py     narrow numbers, two elements of the depth at once
multiply.py         the choice between these strategies
depth_slices.py     long sums of small results, which threads share
grain.py            how many items are worth a thread
dot.py              dot and its variants
scaled.py           operands with a scale per block, for scaled-dot
ragged.py           groups of run-time sizes, for ragged-dot
"""
