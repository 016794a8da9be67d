"""What differs between two modules: their structure, and the first value. `xl.diff`, `xloom diff`.

module_diff.py   what was added, removed, changed and moved
matching.py      which instruction of one module is which of the other
fingerprints.py  what two computations of the same values have in common
markup.py        a comparison as text in colour, and as a page of HTML side by side
sides.py         who computes values: the interpreter, native code, backends of PJRT
cuts.py          parts of a module, which give other values of it
bounded.py       which values may be roundings of one
search.py        the first instruction whose value differs
found.py         what was found, and the files that reproduce it
"""

from xloom.difference.found import FirstDifference
from xloom.difference.module_diff import Change, ModuleDiff, diff
from xloom.difference.search import Program, between, first_difference
from xloom.difference.sides import Interpreter, Native, Pjrt, Side

__all__ = [
    "Change",
    "FirstDifference",
    "Interpreter",
    "ModuleDiff",
    "Native",
    "Pjrt",
    "Program",
    "Side",
    "between",
    "diff",
    "first_difference",
]
