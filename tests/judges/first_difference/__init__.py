"""Is a planted value difference found at its instruction? `make judge-first-difference`.

planted.py   programs with one instruction that is wrong, in a backend, in native code, or by a pass
"""
