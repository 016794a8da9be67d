"""LLVM as a library: types, scalar arithmetic, math functions, loops, modules as text, object code and the JIT."""
