"""The loop IR: loop nests over scalar expressions with affine addresses, before they are LLVM IR."""
