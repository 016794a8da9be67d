"""Literals out of HLO text."""

from __future__ import annotations

import re

import numpy as np

from xloom.errors import OutOfMemoryError
from xloom.hlo.dtype import DType
from xloom.hlo.literal import Literal, nan_with_payload, zeros
from xloom.hlo.shape import Shape
from xloom.hlo.text.lexer import NUMBER, Cursor
from xloom.hlo.text.shapes import parse_shape, starts_shape

_SCALAR = re.compile(r"(-?[0-9.][0-9.eE+\-]*|true|false|-?inf|-?nan)(?=\))")
_TOKEN = re.compile(
    r"(?:[ \t\r\n,]+|/\*.*?\*/|//[^\n\r]*)*"
    r"(?:([{}])|(\.\.\.)|(\()|(true\b|false\b|-?inf\b|-?nan(?:\(0x[0-9a-fA-F]+\))?"
    r"|-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))",
    re.S,
)


def parse_literal(cursor: Cursor, shape: Shape) -> Literal:
    """The value of `shape` at the cursor: a scalar, nested braces, `{...}`, or a tuple in parentheses."""
    if shape.is_tuple:
        cursor.expect("(", "at the start of a tuple literal")
        elements = []
        for k, element in enumerate(shape.elements):
            if k:
                cursor.expect(",", "in a tuple literal")
            elements.append(parse_literal(cursor, element))
        cursor.expect(")", f"after {len(shape.elements)} elements of a tuple literal")
        return Literal(shape, None, tuple(elements))
    if not shape.is_array:
        cursor.eat_word("token")
        return Literal(shape)
    found = _SCALAR.match(cursor.text, cursor.pos) if not shape.dims else None
    if found:
        cursor.pos = found.end()
        value = _convert([found[1]], shape.dtype, cursor, [found.start()])
        return Literal(shape, value.reshape(()))
    return _dense(cursor, shape)


def parse_literal_with_shape(cursor: Cursor) -> Literal:
    """A literal that begins with its shape, as the attribute `literal=` holds: `s32[2]{0} {1, 2}`."""
    if cursor.peek("("):
        start = cursor.pos
        cursor.pos += 1
        cursor.skip()
        if cursor.peek("(") or starts_shape(cursor):
            cursor.pos = start
            return _tuple_with_shapes(cursor)
    return parse_literal(cursor, parse_shape(cursor))


def _tuple_with_shapes(cursor: Cursor) -> Literal:
    start = cursor.pos
    shape = parse_shape(cursor) if _is_shape_alone(cursor) else None
    if shape is not None:
        return parse_literal(cursor, shape)
    cursor.pos = start
    from xloom.hlo.shape import tuple_shape

    elements = cursor.items("(", ")", lambda: parse_literal_with_shape(cursor), "a tuple literal")
    return Literal(tuple_shape([e.shape for e in elements]), None, tuple(elements))


def _is_shape_alone(cursor: Cursor) -> bool:
    from xloom.errors import ParseError

    start = cursor.pos
    try:
        parse_shape(cursor)
        return cursor.peek("(")
    except ParseError:
        return False
    finally:
        cursor.pos = start


def _dense(cursor: Cursor, shape: Shape) -> Literal:
    dims, rank, dtype = shape.dims, shape.rank, shape.dtype
    start = cursor.pos
    scalars: list[str] = []
    places: list[int] = []
    seen = [0] * rank
    extent: list[int | None] = [None] * rank  # run-time sizes of dynamic dimensions, as the braces show them
    level, elided = 0, False
    text, match = cursor.text, _TOKEN.match
    while True:
        found = match(text, cursor.pos)
        if found is None:
            while cursor.eat(","):
                cursor.skip()
            cursor.error(f"expected a value of type {dtype.name}, found {cursor.found()}")
        brace, dots, paren, scalar = found.groups()
        at = found.end() - 1 if brace or paren else found.start(4)
        cursor.pos = found.end()
        if brace == "{":
            if level == rank:
                cursor.error(f"more nested braces than {shape} has dimensions", at)
            if level:
                seen[level - 1] += 1
            seen[level] = 0
            level += 1
        elif brace == "}":
            if level == 0:
                cursor.error("unexpected '}'", at)
            level -= 1
            count, dynamic = seen[level], shape.is_dynamic_dimension(level)
            if not elided:
                if extent[level] is None:
                    extent[level] = count
                fits = count <= dims[level] if dynamic else count == dims[level]
                if not fits or count != extent[level]:
                    cursor.error(f"expected {dims[level]} elements in dimension {level} of {shape}, found {count}", at)
        elif dots:
            if level != 1:
                cursor.error("'...' stands for a whole constant: {...}", at)
            elided = True
        else:
            if level == 0 and rank:
                return _first_element(cursor, shape, scalar, at, paren)
            if level != rank:
                cursor.error(f"a value in {level} braces, where {shape} has {rank} dimensions", at)
            if rank:
                seen[-1] += 1
            if paren:
                scalar = _complex(cursor, dtype, at)
            scalars.append(scalar)
            places.append(at)
        if level == 0:
            break
    if elided:
        return Literal(shape, None, (), elided=True)
    sizes = tuple(d if e is None else e for d, e in zip(dims, extent, strict=True))
    if rank and 0 in sizes:
        sizes = tuple(dims[k] if not shape.is_dynamic_dimension(k) else (extent[k] or 0) for k in range(rank))
    array = _convert(scalars, dtype, cursor, places)
    if array.size != int(np.prod(sizes, dtype=np.int64)):
        cursor.error(f"{array.size} values for {shape}", start)
    return Literal(shape, array.reshape(sizes))


def _first_element(cursor: Cursor, shape: Shape, scalar: str, at: int, paren: str | None) -> Literal:
    # XLA's short form: `f32[10] constant(1)` is {1, 0, 0, ...}
    try:
        array = zeros(shape)
    except OutOfMemoryError as error:
        cursor.error(error.message, at)
    if paren:
        scalar = _complex(cursor, shape.dtype, at)
    value = _convert([scalar], shape.dtype, cursor, [at])
    if array.size == 0:
        cursor.error(f"a value for {shape}, which has no elements", at)
    array.reshape(-1)[:1] = value
    return Literal(shape, array)


def _complex(cursor: Cursor, dtype: DType, at: int) -> str:
    if not dtype.is_complex:
        cursor.error(f"'(' in a literal is for complex numbers, not {dtype.name}", at)
    real = cursor.require(NUMBER, "a real part")[0]
    cursor.expect(",", "between real and imaginary part")
    imaginary = cursor.require(NUMBER, "an imaginary part")[0]
    cursor.expect(")", "after a complex number")
    # XLA reads a NaN real part as NaN in both
    return f"{real},{real if 'nan' in real else imaginary}"


_WORDS = {"true": "1", "false": "0"}


def _convert(scalars: list[str], dtype: DType, cursor: Cursor, places: list[int]) -> np.ndarray:
    if dtype.is_complex:
        parts = [p for s in scalars for p in (s.split(",") if "," in s else (s, "0"))]
        at = [p for p in places for _ in range(2)]
        return _convert(parts, dtype.real, cursor, at).view(dtype.numpy)
    if dtype.is_float:
        return _floats(scalars, dtype, cursor, places)
    values = np.empty(len(scalars), dtype.numpy)
    low, high = _range(dtype)
    for k, scalar in enumerate(scalars):
        try:
            value = int(_WORDS.get(scalar, scalar)) if len(scalar) <= 24 else high + 1
        except ValueError:
            cursor.error(f"expected an integer for {dtype.name}, found {scalar!r}", places[k])
        if dtype.name == "pred":
            values[k] = bool(value)
            continue
        # XLA reads 64-bit integers and takes unsigned values as their bits
        if dtype.name == "u64" and -(2**63) <= value < 0:
            value += 2**64
        if not low <= value <= high:
            cursor.error(f"{scalar} is out of range for {dtype.name}: {low} to {high}", places[k])
        values[k] = value
    return values


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.name == "pred":
        return -(2**63), 2**63 - 1
    bits = dtype.bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.name[0] == "s" else (0, (1 << bits) - 1)


def _floats(scalars: list[str], dtype: DType, cursor: Cursor, places: list[int]) -> np.ndarray:
    out = np.empty(len(scalars), np.float64)
    special: list[tuple[int, np.generic]] = []
    for k, scalar in enumerate(scalars):
        word = scalar.lstrip("-")
        if word.startswith("nan"):
            payload = int(word[6:-1], 16) if "(" in word else None
            special.append((k, nan_with_payload(dtype, scalar[0] == "-", payload)))
            out[k] = 0
        else:
            try:
                # -0 keeps its sign, as it is printed so; XLA reads what it has printed itself as 0
                out[k] = float(_WORDS.get(word, scalar))
            except ValueError:
                cursor.error(f"expected a number for {dtype.name}, found {scalar!r}", places[k])
            if word != "inf" and np.isinf(out[k]):
                cursor.error(f"{scalar} is out of range for {dtype.name}", places[k])
    with np.errstate(over="ignore"):
        array = out.astype(dtype.numpy)
        bad = np.isinf(array.astype(np.float64)) & ~np.isinf(out) if dtype.name != "f64" else np.zeros(0, bool)
    if bad.any():
        k = int(np.argmax(bad))
        cursor.error(f"{scalars[k]} is out of range for {dtype.name}", places[k])
    for k, value in special:
        array[k] = value
    return array
