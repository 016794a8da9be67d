"""Does `xl.reduce` find what is small in large modules? `make judge-reduction`.

programs.py   random modules of many instructions, and programs of JAX
faults.py     what is planted: each a predicate of modules, and where it is in one
"""
