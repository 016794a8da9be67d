"""torch's suites as files for one side: copies in which the device that they were adapted to is `xla` or `cpu`.

Vendors of devices publish torch's suites adapted to their device, which is a word of their sources: `npu` in those that
are known here. Their package becomes a stand-in, whose parts that we do not have say so when they are used.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

VENDOR = "npu"


def rewritten(text: str, side: str) -> str:
    """A suite's source for a side."""
    return re.sub(rf"\b(is_)?{VENDOR}\b", rf"\g<1>{side}", text)


def prepare(checkout: Path, folder: Path, side: str) -> None:
    """Writes the folder of suites for a side, unless it is there."""
    target = folder / side
    if target.exists():
        return
    partial = folder / f"{side}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for source in sorted(checkout.rglob("*.py")):
        copy = partial / source.relative_to(checkout)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(rewritten(source.read_text(), side))
    partial.rename(target)
