"""Delta debugging of modules: the smallest valid module that still fails. `xl.reduce`, `xloom reduce`.

driver.py        halves what is tried until nothing more can go
size.py          what is made smaller
reductions.py    the table of reductions, in the order in which they are tried
base.py          what a reduction is: places of a module, and what is done at them
cleaning.py      what nothing reads is removed after each step
extraction.py    parts of the entry become parameters and outputs
callees.py       a called computation becomes the entry, or a part of it
dead_code.py     what nothing reads goes, or becomes the result
outputs.py       results of the entry
inlining.py      calls, fusions, branches and loops become what they call
substitution.py  a value becomes an operand, another value of its shape, or zeros
parallel_operands.py  of several things that an operator does at once
loop_state.py    elements of a loop's state
windows.py       of one element
dimensions.py    sizes
types.py         of elements
merging.py       computations that can stand for one another
chains.py        results computed from one another instead of beside each other
constants.py     trip counts, and other numbers
attributes.py    what instructions and the header say
kept_state.py    a folder with the smallest module so far, from which to go on
script.py        the user's test: a command
failure.py       tests of ours: a crash, a wrong value; trial_server.py tries them in its forks
"""

from xloom.reduction.driver import NotFailingError, Progress, reduce
from xloom.reduction.failure import Failure, Trial
from xloom.reduction.script import Script

__all__ = ["Failure", "NotFailingError", "Progress", "Script", "Trial", "reduce"]
