"""The pictures of docs/notebooks.md: its cells are run, and their pages taken in headless Chromium.

python -m docs.site.notebook_pictures     from the repository's root; needs Chromium and the extra `jax`
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.viewer import chromium
from xloom.difference import markup

DOCS = Path(__file__).parents[1]
_CELL = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
_SIZE = (1500, 700)
_STATE = """(() => { const state = document.getElementById('state'); state.selectedIndex = state.options.length - 1;
  state.dispatchEvent(new Event('change')) })()"""
_PASS = """(() => { document.getElementById('tab-passes').click();
  [...document.querySelectorAll('#passes *')].find((e) => e.textContent.trim() === 'cse').click() })()"""
_PICTURES = (
    ("graph", "page", _STATE),
    ("passes", "page", _PASS),
    ("memory", "page", "document.getElementById('tab-memory').click()"),
    ("profile", "timed", "document.getElementById('tab-profile').click()"),
    ("diff", "found", ""),
)
"""Their names, the values that they show, and what is done first."""


def main() -> None:
    """Writes docs/pictures/notebook-*.png."""
    values: dict[str, Any] = {}
    for cell in _CELL.findall((DOCS / "notebooks.md").read_text("utf-8")):
        exec(compile(cell, "notebooks.md", "exec"), values)
    program = chromium.find()
    assert program is not None, "install Chromium"
    with TemporaryDirectory() as name, chromium.chromium(Path(name), program) as tab:
        tab.resize(*_SIZE)
        for picture, value, first in _PICTURES:
            shown = values[value]
            path = Path(name) / f"{picture}.html"
            path.write_text(shown.html if value != "found" else markup.html(shown), "utf-8")
            if value == "found":
                tab.call("Page.navigate", url=path.as_uri())
                tab.until("document.readyState === 'complete'")
            else:
                tab.open(path)
                tab.value(first)
            tab.picture(DOCS / "pictures" / f"notebook-{picture}.png")


if __name__ == "__main__":
    main()
