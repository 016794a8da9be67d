"""Runs a program that is killed once it has printed a line like that: `killed.py PATTERN PROGRAM ARGUMENTS...`

Who reads its lines and kills it then would come too late on a machine with other work: the program has gone on.
"""

import builtins
import os
import re
import runpy
import signal
import sys

pattern, *sys.argv = sys.argv[1:]
own_print = print


def print_and_die(*values, **options):
    own_print(*values, **options)
    if re.match(pattern, str(values[0])):
        os.kill(os.getpid(), signal.SIGKILL)


builtins.print = print_and_die
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
