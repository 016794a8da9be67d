"""A program as one HTML file: `xloom show`, and `xl.show(module)` in notebooks.

program_page.py  `show`: from a module, or the modules of a dump, to a page
graph.py         instructions as rows of columns, each written once however many states it is in
states.py        the program before and after each pass, as the rows that came and went
memory.py        the schedule, and the arrays with when they are alive
profile.py       the time of kernels, beside the machine's limits
dump.py          the modules of a folder of dumps
page.py          data, scripts and styles put together
page/            the scripts and styles, without a build step
vendored/        the library that lays graphs out
"""

from xloom.viewer.page import Page
from xloom.viewer.program_page import show

__all__ = ["Page", "show"]
