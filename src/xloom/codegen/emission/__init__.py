"""Loop IR to LLVM IR, element by element: what every backend that uses LLVM needs."""
