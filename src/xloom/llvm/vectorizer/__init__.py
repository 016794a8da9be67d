"""Scalar loops to loops over vectors, before LLVM reads them: its own passes for that take most of a compilation.

What is plain here is most of what programs consist of: innermost loops of one block over elements side by side. A
module with another kind of loop is left to LLVM as a whole.
"""
