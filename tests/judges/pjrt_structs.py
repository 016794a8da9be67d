"""Writes the table of PJRT's C structures from XLA's headers.

    python -m tests.judges.pjrt_structs --from <checkout of openxla/xla> > src/xloom/pjrt/capi/structs.py

Without a C compiler: the headers declare one field a line, of few types.
"""

import argparse
import re
import sys
import textwrap
from pathlib import Path

EXTENSIONS = ("layouts", "ffi", "memory_descriptions", "shardings", "custom_partitioner", "profiler")
TRANSFERS = "xla/pjrt/extensions/cross_host_transfers/pjrt_c_api_cross_host_transfers_extension.h"
PROFILER = "xla/backends/profiler/plugin/profiler_c_api.h"
VERSION = (0, 112)
NEWER = {  # fields of later versions: of the API, and of the transfers
    *("peak_allocated_bytes", "peak_allocated_bytes_is_set"),
    *("allow_cancel_notifier", "num_tasks", "task_ids", "incarnation_ids"),
}
CODES = {
    "size_t": "Z",
    "int64_t": "q",
    "uint64_t": "Q",
    "intptr_t": "q",
    "uintptr_t": "Q",
    "int": "i",
    "int32_t": "i",
    "bool": "?",
    "float": "f",
}
POINTERS = ("Callback", "Deleter", "Destructor", "Notifier", "Visitor", "PJRT_CallbackError")
"""Ends of the names of functions' types."""
UNMARKED = {"PJRT_Executable_OutputMemoryKinds_Args": {"num_outputs"}}  # results that no comment tells of
ENUMS = {
    "PJRT_Error_Code": "ERROR_CODES",
    "PJRT_Buffer_Type": "BUFFER_TYPES",
    "PJRT_HostBufferSemantics": "HOST_BUFFER_SEMANTICS",
    "PJRT_NamedValue_Type": "NAMED_VALUE_TYPES",
    "PJRT_Extension_Type": "EXTENSION_TYPES",
}
PREFIX = r"PJRT_\w*?_(k|Code_|Type_)(?=\w)"
HEAD = '''"""The structures of PJRT's C API {major}.{minor}: made from XLA's headers by tests/judges/pjrt_structs.py.

One line a structure: `name:type` a field. Types are `P` a pointer, `Z` size_t, `q` and `Q` 64-bit integers, `i` int or
an enumeration, `?` bool, `f` float, and the names of embedded structures. A result of the call ends in `>`.
"""

MAJOR, MINOR = {major}, {minor}
'''


def without_comments(text: str) -> str:
    """The declarations; those that a comment calls a result are marked by an `>` before the semicolon."""
    text = re.sub(r";([ \t]*// out\b)", r">;\1", text)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def structures(text: str, enums: set[str]) -> dict[str, str]:
    found = {}
    for match in re.finditer(r"struct (\w+) \{(.*?)\n\}[^;]*;", text, re.S):
        name, body = match.groups()
        body = re.sub(r"union \{(.*?)\}", lambda m: _widest(m.group(1)), body, flags=re.S)
        fields = []
        for declaration in body.split(";"):
            declaration = " ".join(declaration.split()).replace("PJRT_NO_DISCARD ", "")
            if not declaration:
                continue
            if slot := re.fullmatch(r"_PJRT_API_STRUCT_FIELD\( ?(\w+) ?\)", declaration):
                fields.append(f"{slot[1]}:P")
                continue
            if function := re.search(r"\(\*(\w+)\)", declaration):
                fields.append(f"{function[1]}:P")
                continue
            kind, field = declaration.rsplit(" ", 1)
            field, is_result = field.rstrip(">"), field.endswith(">")
            is_result |= field in UNMARKED.get(name, ())
            if field not in NEWER:
                fields.append(f"{field}:{_code(kind, enums)}{'>' * is_result}")
        found[name] = " ".join(fields)
    return found


def _widest(body: str) -> str:
    """What stands for a union: each of these is a pointer or a 64-bit number, or starts as its first member."""
    return "int64_t value" if "string_value" in body else body.split(";")[0]


def _code(kind: str, enums: set[str]) -> str:
    kind = kind.replace("const ", "").replace("struct ", "").strip()
    if "*" in kind or kind.endswith(POINTERS):
        return "P"
    if kind in enums:
        return "i"
    return CODES.get(kind, kind)


def enumerations(text: str) -> dict[str, list[str]]:
    found = {}
    for body, name in re.findall(r"typedef enum \w*\s*\{(.*?)\}\s*(\w+);", text, re.S):
        found[name] = [row.split("=")[0].strip() for row in body.split(",") if row.strip()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="source", type=Path, required=True)
    source = parser.parse_args().source
    extensions = [f"xla/pjrt/c/pjrt_c_api_{e}_extension.h" for e in EXTENSIONS]
    names = ["xla/pjrt/c/pjrt_c_api.h", *extensions, TRANSFERS, PROFILER]
    text = without_comments("\n".join((source / name).read_text() for name in names))
    enums = enumerations(text)
    out = [HEAD.format(major=VERSION[0], minor=VERSION[1])]
    for name, constant in ENUMS.items():
        words = " ".join(re.sub(PREFIX, "", row, count=1) for row in enums[name])
        rows = "\n".join(textwrap.wrap(words, 110, initial_indent="    ", subsequent_indent="    "))
        out.append(f'{constant} = """\n{rows}\n"""\n')
    table = structures(text, {*enums, "PJRT_FFI_Handler_TraitsBits"})
    out.append("STRUCTS = {")
    for name, fields in table.items():
        out.append(f'    "{name}": """')
        out += textwrap.wrap(fields, 110, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False)
        out.append('    """,')
    out.append("}")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
