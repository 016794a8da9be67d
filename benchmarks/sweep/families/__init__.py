"""All cases of the sweep, a family a file."""

from benchmarks.sweep.case import Case
from benchmarks.sweep.families.conversions import CONVERSIONS
from benchmarks.sweep.families.convolutions import CONVOLUTIONS
from benchmarks.sweep.families.cumulative import CUMULATIVE
from benchmarks.sweep.families.elementwise import ELEMENTWISE
from benchmarks.sweep.families.fourier import FOURIER
from benchmarks.sweep.families.indexing import INDEXING
from benchmarks.sweep.families.integers import INTEGERS
from benchmarks.sweep.families.layout import LAYOUT
from benchmarks.sweep.families.linalg import LINALG
from benchmarks.sweep.families.loops import LOOPS
from benchmarks.sweep.families.networks import NETWORKS
from benchmarks.sweep.families.products import PRODUCTS
from benchmarks.sweep.families.random import RANDOM
from benchmarks.sweep.families.random_loops import RANDOM_LOOPS
from benchmarks.sweep.families.reductions import REDUCTIONS
from benchmarks.sweep.families.science import SCIENCE
from benchmarks.sweep.families.small_systems import SMALL_SYSTEMS
from benchmarks.sweep.families.sorting import SORTING
from benchmarks.sweep.families.special import SPECIAL
from benchmarks.sweep.families.windows import WINDOWS

FAMILIES = (
    ELEMENTWISE,
    INTEGERS,
    CONVERSIONS,
    REDUCTIONS,
    CUMULATIVE,
    LAYOUT,
    INDEXING,
    SORTING,
    LINALG,
    FOURIER,
    PRODUCTS,
    CONVOLUTIONS,
    WINDOWS,
    RANDOM,
    LOOPS,
    RANDOM_LOOPS,
    SMALL_SYSTEMS,
    NETWORKS,
    SCIENCE,
    SPECIAL,
)
CASES: list[Case] = [case for family in FAMILIES for case in family.cases]
