"""Scalar arithmetic as LLVM IR: what each elementwise opcode computes, a family a file.

A value in registers is an `ir.Value`, or a `Complex` pair of them; `types` says of which LLVM type.
"""
