"""Products of matrices, from which dot and convolution are made.

axes.py         the problem as strided axes, whatever the dimension numbers were
target.py       the vector registers of the host
arithmetic.py   how elements are loaded, multiplied, summed and stored
tile.py         a block of the result in registers
operands.py     which arrays a product reads and writes, and conversions before and after it
made.py         an operand of which functions make lines as they are needed
packing.py      an operand rearranged for the tile
blocked.py      large products: blocks of one operand packed, which fit the caches, and a few rows of the other
direct.py       small products: operands read where they lie
pairs.py        narrow numbers, two places of the depth at once
multiply.py     the choice between these strategies
scaled.py       operands with a scale a block, for scaled-dot
ragged.py       groups of run-time sizes, for ragged-dot
vector.py       a matrix times a vector, at the speed of memory
"""
