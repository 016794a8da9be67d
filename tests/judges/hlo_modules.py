"""The HLO modules in XLA's own C++ tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_RAW = re.compile(r'R"(\w*)\((.*?)\)\1"', re.S)
_MODULE = re.compile(r"^\s*(?:HloModule|ENTRY)\b", re.M)


def extract(checkout: Path) -> Iterator[tuple[str, str]]:
    """A name and the text of every raw string that holds a module, out of a checkout of openxla/xla."""
    for path in sorted(checkout.rglob("*.cc")):
        source = path.read_text(errors="surrogateescape")
        if "HloModule" not in source and "ENTRY" not in source:
            continue
        for number, match in enumerate(_RAW.finditer(source)):
            text = match[2]
            if _MODULE.search(text) and not ("// CHECK" in text and "HloModule" not in text):
                yield f"{path.relative_to(checkout)}#{number}", text.strip("\n") + "\n"
