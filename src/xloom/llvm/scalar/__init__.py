"""Scalar arithmetic as LLVM IR: what each elementwise opcode computes, one family per file.

A value in registers is an `ir.Value`, or a `Complex` pair of them; `types` says of which LLVM type.
"""
