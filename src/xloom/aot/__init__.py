"""Programs compiled ahead of time, to be called from C without Python: `xloom export`, `xl.export`.

exported.py     a program as an object file or a shared library, with its header
programs.py     modules, files, functions of JAX and programs of torch.export, as a module with names
interface.py    the arguments and results by name, as C and Python see them
entry.py        the native code, whose custom calls are the linker's symbols
threads.py      the pool of threads that an exported program brings
header.py       the C header
tables.py       what the C code of the program has to know of it
program.c       the functions of the header
weights.py      the constants, in the program or in a file that is mapped
linking.py      the C compiler and the linker
loaded.py       an exported program, called from Python
"""

from xloom.aot.exported import Exported, export
from xloom.aot.loaded import LoadedExport, load_exported

__all__ = ["Exported", "LoadedExport", "export", "load_exported"]
