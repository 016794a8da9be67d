"""What the kernels of linear systems share: vectors of numbers, and substitution."""
