"""Shapes and layouts out of HLO text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DTYPES, DType
from xloom.hlo.shape import (
    COMBINE,
    MOST_DEPTH,
    UNBOUNDED,
    Layout,
    Shape,
    array_shape,
    buffer_shape,
    default_layout,
    tuple_shape,
)
from xloom.hlo.text.lexer import Cursor

# the form that nearly every shape has: f32[2,3]{1,0}
PLAIN = re.compile(r"([a-z][a-z0-9]*)\[([0-9,]*)\](?:\{([0-9,]+)\})?")
_STARTS = re.compile(r"\(|([a-z][a-z0-9]*)\s*\[|b\s*\(")
_LAYOUT = re.compile(r"\{\s*[-\d:]")
_DIMS = re.compile(r"\s*(<=\s*(-?\d+)|\?|-?\d+)\s*(,|(?=\]))")


@lru_cache(maxsize=65536)
def _plain(name: str, dims: str, layout: str | None) -> Shape | None:
    dtype = DTYPES.get(name)
    if dtype is None or dtype is dt.tuple_ or dtype is dt.buffer:
        return None
    sizes = dims.split(",") if dims else []
    order = layout.split(",") if layout else None
    if any(not s or len(s) > 19 for s in sizes) or (order is not None and any(not s for s in order)):
        return None
    values = tuple(map(int, sizes))
    if any(v >= 2**63 for v in values) or (order is not None and len(order) != len(values)):
        return None
    if not dtype.is_array:
        return Shape(dtype) if not values and order is None else None
    return array_shape(dtype, values, (), Layout(tuple(map(int, order))) if order else None)


def starts_shape(cursor: Cursor) -> bool:
    """True when a shape comes next."""
    cursor.skip()
    found = _STARTS.match(cursor.text, cursor.pos)
    return bool(found) and (found[1] is None or found[1] in DTYPES)  # type: ignore[index]


def parse_shape(cursor: Cursor, depth: int = 0, *, default: bool = True) -> Shape:
    """The shape at the cursor; `default` gives arrays without a layout the dense row-major one."""
    found = PLAIN.match(cursor.text, cursor.pos) or cursor.skip() or PLAIN.match(cursor.text, cursor.pos)
    if found and default:
        after = cursor.text[found.end() : found.end() + 1]
        # "{" or ":" after it may begin an annotated layout, and is left to the full form
        shape = _plain(found[1], found[2], found[3]) if after not in ("{", " ") or found[3] else None
        if shape is None and after == " " and not _LAYOUT.match(cursor.text, found.end() + 1):
            shape = _plain(found[1], found[2], found[3])
        if shape is None and after == "{" and not _LAYOUT.match(cursor.text, found.end()):
            shape = _plain(found[1], found[2], found[3])
        if shape is not None:
            cursor.pos = found.end()
            return shape
    if depth > MOST_DEPTH:
        cursor.error("tuple shape nested too deeply")
    if cursor.eat("("):
        elements: list[Shape] = []
        if not cursor.eat(")"):
            while True:
                elements.append(parse_shape(cursor, depth + 1, default=default))
                if not cursor.eat(","):
                    break
            cursor.expect(")", "or ',' in a tuple shape")
        return tuple_shape(elements)
    start = cursor.pos
    name = cursor.ident("a shape such as f32[2,3]")
    if name == "b" and cursor.eat("("):
        element = parse_shape(cursor, depth + 1, default=default)
        cursor.expect(")", "at the end of a buffer shape")
        if not element.is_array:
            cursor.error("a buffer holds an array", start)
        return buffer_shape(element)
    dtype = DTYPES.get(name)
    if dtype is None or dtype in (dt.tuple_, dt.buffer):
        from xloom.errors import near

        cursor.error(f"unknown element type {name!r}", start, hint=near(name, DTYPES))
    dims, dynamic = _dimensions(cursor)
    layout = None
    if _LAYOUT.match(cursor.text, cursor.pos) or (cursor.peek("{") and _LAYOUT.match(cursor.text, cursor.pos)):
        at = cursor.pos
        layout = parse_layout(cursor)
        if len(layout.minor_to_major) != len(dims):
            cursor.error(f"layout of {len(layout.minor_to_major)} dimensions on a shape of {len(dims)}", at)
        if layout.physical_shape is not None:
            cursor.error("a physical shape is for sparse arrays only", at)
    if not dtype.is_array:
        if dims:
            cursor.error(f"{name} has no dimensions", start)
        return Shape(dtype)
    if layout is None and (default or not dims):
        layout = default_layout(len(dims))
    return Shape(dtype, tuple(dims), tuple(dynamic), layout)


def _dimensions(cursor: Cursor) -> tuple[list[int], list[bool]]:
    cursor.expect("[", "after an element type")
    dims: list[int] = []
    dynamic: list[bool] = []
    while not cursor.eat("]"):
        at = cursor.pos
        if cursor.eat("?"):
            dims.append(UNBOUNDED)
            dynamic.append(True)
        else:
            dynamic.append(cursor.eat("<="))
            size = cursor.integer("a dimension size")
            if not 0 <= size < 2**63:
                cursor.error(f"invalid dimension size {size}", at)
            dims.append(size)
        if cursor.eat(","):
            if cursor.peek("]"):
                cursor.error("expected a dimension size after ','")
        elif not cursor.peek("]"):
            cursor.error(f"expected ',' or ']' in dimensions, found {cursor.found()}")
    return dims, dynamic


def parse_layout(cursor: Cursor) -> Layout:
    """A layout: `{1,0:T(8,128)E(4)S(1)}`."""
    cursor.expect("{", "at the start of a layout")
    order: list[int] = []
    if not cursor.peek(":") and not cursor.peek("}"):
        while True:
            order.append(cursor.integer("a dimension number"))
            if not cursor.eat(","):
                break
    fields: dict[str, Any] = {}
    if cursor.eat(":"):
        if cursor.eat("D("):  # per-dimension level types, all dense in every layout that XLA still has
            while not cursor.eat(")"):
                cursor.require(re.compile(r"[DCSH][+]?~?,?"), "a level type (D, C, S or H)")
        if cursor.eat("T"):
            tiles = []
            while cursor.peek("("):
                tiles.append(tuple(cursor.items("(", ")", lambda: _tile_dim(cursor), "a tile")))
            fields["tiles"] = tuple(tiles)
        if cursor.eat("L"):
            fields["tail_padding_alignment"] = _in_parens(cursor)
        if cursor.eat("#"):
            fields["index_type"] = _unsigned(cursor)
        if cursor.eat("*"):
            fields["pointer_type"] = _unsigned(cursor)
        if cursor.eat("E"):
            fields["element_size_in_bits"] = _in_parens(cursor)
        if cursor.peek("S("):
            cursor.eat("S")
            fields["memory_space"] = _in_parens(cursor)
        if cursor.eat("SC"):
            splits = []
            while cursor.eat("("):
                dimension = cursor.integer()
                splits.append((dimension, tuple(cursor.items(":", ")", cursor.integer, "split indices"))))
            fields["split_configs"] = tuple(splits)
        if cursor.eat("P"):
            cursor.expect("(", "before a physical shape")
            fields["physical_shape"] = parse_shape(cursor, 1)
            cursor.expect(")", "after a physical shape")
        if cursor.eat("M"):
            fields["metadata_prefix_bytes"] = _in_parens(cursor)
    cursor.expect("}", "at the end of a layout")
    return Layout(tuple(order), **fields)


def _tile_dim(cursor: Cursor) -> int:
    return COMBINE if cursor.eat("*") else cursor.integer("a tile size or *")


def _in_parens(cursor: Cursor) -> int:
    cursor.expect("(", "in a layout")
    value = cursor.integer()
    cursor.expect(")", "in a layout")
    return value


def _unsigned(cursor: Cursor) -> DType:
    cursor.expect("(", "in a layout")
    at = cursor.pos
    found = DTYPES.get(cursor.ident("an unsigned integer type"))
    if found is None or found.kind is not dt.Kind.UNSIGNED:
        cursor.error("expected an unsigned integer type", at)
    cursor.expect(")", "in a layout")
    return found
