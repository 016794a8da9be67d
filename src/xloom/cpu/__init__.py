"""The CPU compiler: HLO to native code through LLVM."""
