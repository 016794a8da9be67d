"""The page: data, scripts and styles in one HTML file that asks for nothing else."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

_ROOM = Path(__file__).parent
SCRIPTS = (
    "vendored/dagre/dagre.min.js",
    "page/elements.js",
    "page/program.js",
    "page/regions.js",
    "page/layout.js",
    "page/drawing.js",
    "page/graph_view.js",
    "page/virtual_list.js",
    "page/search.js",
    "page/list_view.js",
    "page/inspector.js",
    "page/passes_view.js",
    "page/memory_view.js",
    "page/profile_view.js",
    "page/app.js",
)
"""In the order in which they need each other."""
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


class Page:
    """A program's page. Notebooks show it; `save` writes it to a file; `html` is its text."""

    def __init__(self, title: str, data: dict[str, Any]) -> None:
        self.title = title
        self.data = data

    @cached_property
    def html(self) -> str:
        """The whole file."""
        scripts = "".join(f"<script>\n{_text(name)}\n</script>\n" for name in SCRIPTS)
        parts = {
            "TITLE": html.escape(self.title),
            "POLICY": _POLICY,
            "STYLE": _text("page/style.css"),
            "DATA": _packed(self.data),
            "SCRIPTS": scripts,
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _text("page/page.html"))

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file, and returns its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{html.escape(self.title)}" style="width:100%;height:720px;border:0" '
            f'sandbox="allow-scripts" srcdoc="{html.escape(self.html)}"></iframe>'
        )


def _text(name: str) -> str:
    return (_ROOM / name).read_text(encoding="utf-8")


def _packed(data: dict[str, Any]) -> str:
    """JSON, compressed, in characters that mean nothing to HTML."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")
