"""A comparison of modules as text in colour, and as a page of HTML side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.difference.module_diff import Change, ModuleDiff

_COLOURS = {"removed": "red", "added": "green", "changed": "yellow", "moved": "cyan"}
_SIGNS = {"removed": "-", "added": "+", "changed": "~", "moved": ">"}


class _Row(NamedTuple):
    """A line of the page: the kind of difference, both instructions, and what is not the same."""

    kind: str
    before: Instruction | None
    after: Instruction | None
    what: str


def text(found: ModuleDiff) -> Text:
    """The differences, computation by computation, and how many there are."""
    out = Text()
    for line in found.header:
        out.append(f"~ {line}\n", "yellow")
    for before, after, rows in _computations(found):
        different = [row for row in rows if row.kind]
        if different:
            out.append(f"{_title(before, after)}\n", "bold")
        for row in different:
            colour, sign = _COLOURS[row.kind], _SIGNS[row.kind]
            if row.before is not None and (row.kind in ("removed", "changed")):
                out.append(f"  {'-' if row.kind == 'changed' else sign} {_line(row.before)}\n", "red")
            if row.after is not None:
                out.append(f"  {'+' if row.kind == 'changed' else sign} {_line(row.after)}\n", _colour_after(row.kind))
            if row.what:
                out.append(f"    {row.what}\n", colour)
    out.append(f"{_counts(found)}\n", "bold")
    return out


def _colour_after(kind: str) -> str:
    return _COLOURS["added" if kind == "changed" else kind]


def _counts(found: ModuleDiff) -> str:
    if found.same:
        return "the modules are the same"
    lists = {"added": found.added, "removed": found.removed, "changed": found.changed, "moved": found.moved}
    return ", ".join(f"{len(each)} {name}" for name, each in lists.items() if each) or "the headers differ"


def _title(before: Computation | None, after: Computation | None) -> str:
    names = dict.fromkeys(c.name for c in (before, after) if c is not None)
    kind = "computation" if before is not None and after is not None else "computation, in one alone,"
    return f"{kind} {' -> '.join(names)}"


def _line(instruction: Instruction) -> str:
    return ("ROOT " if instruction.is_root else "") + instruction.to_text(print_metadata=False)


def _computations(found: ModuleDiff) -> Iterator[tuple[Computation | None, Computation | None, list[_Row]]]:
    pairs = found.matching.computations
    back = {b: a for a, b in pairs.items()}
    changed = {c.after: c for c in found.changed}
    moved = {c.after: c for c in found.moved}
    for after in found.after.computations:
        before = back.get(after)
        yield before, after, list(_rows(found, before, after, changed, moved))
    for before in found.before.computations:
        if before not in pairs:
            yield before, None, list(_rows(found, before, None, changed, moved))


def _rows(
    found: ModuleDiff,
    before: Computation | None,
    after: Computation | None,
    changed: Mapping[Instruction, Change],
    moved: Mapping[Instruction, Change],
) -> Iterator[_Row]:
    pairs, back = found.matching.instructions, found.matching.back
    left = list(before) if before is not None else []
    right = list(after) if after is not None else []
    blocks = difflib.SequenceMatcher(None, [pairs.get(i, i) for i in left], right, autojunk=False)
    for tag, i, j, k, n in blocks.get_opcodes():
        if tag == "equal":
            for x, y in zip(left[i:j], right[k:n], strict=True):
                yield _row(x, y, changed, moved)
            continue
        for x in left[i:j]:
            if x not in pairs:
                yield _Row("removed", x, None, "")
        for y in right[k:n]:
            yield _row(back[y], y, changed, moved) if y in back else _Row("added", None, y, "")


def _row(
    x: Instruction, y: Instruction, changed: Mapping[Instruction, Change], moved: Mapping[Instruction, Change]
) -> _Row:
    what = [w for found in (moved, changed) if y in found for w in found[y].what]
    kind = "changed" if y in changed else "moved" if y in moved else ""
    return _Row(kind, x, y, "; ".join(what))


_STYLE = """
:root { color-scheme: light dark; --removed: #ffd7d5; --added: #ccffd8; --changed: #fff3bf; --moved: #cff4fc; }
@media (prefers-color-scheme: dark) {
  :root { --removed: #5c1a1a; --added: #12401f; --changed: #4d4000; --moved: #073b46; }
}
body { font: 13px/1.4 ui-monospace, monospace; margin: 1em; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
td { padding: 1px 6px; vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; }
td + td { border-left: 1px solid #8886; }
.removed td:first-child, .changed td:first-child { background: var(--removed); }
.added td:last-child, .changed td:last-child { background: var(--added); }
.moved td { background: var(--moved); }
.what td { background: var(--changed); }
.here td { outline: 2px solid #0969da; outline-offset: -2px; }
"""
_SCRIPT = """
const rows = [...document.querySelectorAll("tr[data-different]")];
let at = -1;
addEventListener("keydown", event => {
  const step = {n: 1, j: 1, p: -1, k: -1}[event.key];
  if (!step || !rows.length || event.ctrlKey || event.metaKey || event.altKey) return;
  rows[at]?.classList.remove("here");
  at = (at + step + rows.length) % rows.length;
  rows[at].classList.add("here");
  rows[at].scrollIntoView({block: "center"});
});
"""


def html(found: ModuleDiff) -> str:
    """A page with both modules side by side, that needs nothing but itself; `n` and `p` go through the differences."""
    out = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        f"<title>{escape(found.before.name)} and {escape(found.after.name)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(_counts(found))}</h1><p>n: next difference, p: the one before</p>",
        *(f"<p>{escape(line)}</p>" for line in found.header),
    ]
    for before, after, rows in _computations(found):
        out.append(f"<h2>{escape(_title(before, after))}</h2><table>")
        for row in rows:
            cells = "".join(f"<td>{escape(_line(i)) if i is not None else ''}</td>" for i in (row.before, row.after))
            mark = f' class="{row.kind}" data-different' if row.kind else ""
            out.append(f"<tr{mark}>{cells}</tr>")
            if row.what:
                out.append(f'<tr class="what"><td colspan="2">{escape(row.what)}</td></tr>')
        out.append("</table>")
    return "\n".join([*out, f"<script>{_SCRIPT}</script></html>\n"])
