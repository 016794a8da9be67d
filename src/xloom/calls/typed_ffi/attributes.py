"""Attributes of typed calls: the dictionary in `backend_config` as MLIR writes it, and as handlers see it in memory."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xloom.calls.typed_ffi import c_api
from xloom.calls.typed_ffi.c_api import AttributeKind
from xloom.errors import ParseError
from xloom.hlo.dtype import DTYPES, DType, from_numpy
from xloom.hlo.text.lexer import Cursor

Attribute = np.ndarray | bytes | dict[str, Any]
"""A scalar (an array of rank 0), an array of rank 1, a string, or a dictionary of attributes."""

_TYPE = re.compile(r"(u?i|si)(\d+)|bf16|f\d+\w*|complex<(f32|f64)>", re.I)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|true\b|false\b")
_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
_ESCAPE = re.compile(rb'\\([0-9a-fA-F]{2}|[nt"\\])')
_SIMPLE = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


# -- text
def parse_attributes(text: str, where: str = "") -> dict[str, Attribute]:
    """The attributes in `{name = 1 : i32, other = "text"}`; none in an empty text.

    Raises ParseError for what is not such a dictionary, and for attributes that handlers cannot get.
    """
    cursor = Cursor(text, "<backend_config>")
    if cursor.at_end():
        return {}
    try:
        found = _dictionary(cursor)
        if not cursor.at_end():
            cursor.error(f"expected the end of the attributes, found {cursor.found()}")
    except ParseError as error:
        error.where = error.where or where
        raise
    return found


def _dictionary(cursor: Cursor) -> dict[str, Attribute]:
    def item() -> tuple[str, Attribute]:
        name = _text(cursor).decode("utf-8", "surrogateescape") if cursor.peek('"') else None
        name = name or cursor.require(_BARE_NAME, "an attribute's name")[0]
        cursor.expect("=", "after an attribute's name")
        return name, _value(cursor, name)

    return dict(cursor.items("{", "}", item, "attributes"))


def _value(cursor: Cursor, name: str) -> Attribute:
    if cursor.peek("{"):
        return _dictionary(cursor)
    if cursor.peek('"'):
        return _text(cursor)
    if cursor.eat("dense"):
        return _dense(cursor)
    if cursor.eat("array"):
        return _array(cursor)
    number = cursor.match(_NUMBER)
    if number is None:
        cursor.error(
            f"Unsupported attribute type for attribute: {name}", hint="numbers, strings, arrays and dictionaries are"
        )
    dtype = _dtype(cursor) if cursor.eat(":") else DTYPES["pred" if number[0] in ("true", "false") else "s64"]
    return _numbers(cursor, [number[0]], dtype).reshape(())


def _text(cursor: Cursor) -> bytes:
    raw = cursor.require(_STRING, "a string")[1].encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda m: _SIMPLE.get(m[1]) or bytes.fromhex(m[1].decode()), raw)


def _dtype(cursor: Cursor) -> DType:
    """`i32`, `ui8`, `f32`, `f8E4M3FN`, ...; an i1 is a truth value, and integers without a sign are signed."""
    found = cursor.require(_TYPE, "an element type")
    if found[3]:
        return DTYPES["c64" if found[3] == "f32" else "c128"]
    if found[1]:
        name = "pred" if found[0] == "i1" else ("u" if found[1] == "ui" else "s") + found[2]
    else:
        name = found[0].lower()
    if name not in DTYPES:
        cursor.error(f"there are no elements of type {found[0]}", found.start())
    return DTYPES[name]


# array<i32: 1, 2>
def _array(cursor: Cursor) -> np.ndarray:
    cursor.expect("<", "after 'array'")
    dtype = _dtype(cursor)
    words: list[str] = []
    if cursor.eat(":"):
        words.append(cursor.require(_NUMBER, "a number")[0])
        while cursor.eat(","):
            words.append(cursor.require(_NUMBER, "a number")[0])
    cursor.expect(">", "at the end of an array")
    return _numbers(cursor, words, dtype)


# dense<[[1, 2]]> : tensor<1x2xi32>; one number stands for all, and a string has the bytes of all or of one
def _dense(cursor: Cursor) -> np.ndarray:
    cursor.expect("<", "after 'dense'")
    raw = bytes.fromhex(_text(cursor).decode()[2:]) if cursor.peek('"') else None
    words = [] if raw is not None or cursor.peek(">") else _elements(cursor)
    cursor.expect(">", "at the end of dense elements")
    cursor.expect(":", "before the elements' type")
    if not cursor.eat("tensor"):
        cursor.expect("vector", "or 'tensor'")
    cursor.expect("<", "after 'tensor'")
    size = 1
    while dim := cursor.match(re.compile(r"(\d+)x")):
        size *= int(dim[1])
    dtype = _dtype(cursor)
    cursor.expect(">", "at the end of a type")
    found = np.frombuffer(raw, dtype.numpy) if raw is not None else _numbers(cursor, words, dtype)
    if found.size not in (1, size):
        cursor.error(f"expected {size} elements, found {found.size}")
    return np.resize(found, size)


def _elements(cursor: Cursor) -> list[str]:
    """Numbers in nested lists; a complex one is two."""
    for opening, closing in ("[]", "()"):
        if cursor.peek(opening):
            lists = cursor.items(opening, closing, lambda: _elements(cursor), "elements")
            return [word for words in lists for word in words]
    return [cursor.require(_NUMBER, "a number")[0]]


def _numbers(cursor: Cursor, words: list[str], dtype: DType) -> np.ndarray:
    if dtype.is_complex:
        return _numbers(cursor, words, dtype.real).view(dtype.numpy)
    if dtype.is_float:
        unsigned = np.dtype(f"u{dtype.bytes}")
        parts = [
            np.array(int(w, 16), unsigned).view(dtype.numpy) if w.startswith("0x") else np.array(float(w), dtype.numpy)
            for w in words
        ]
        return np.array(parts, dtype.numpy)
    try:
        values = [w == "true" if w in ("true", "false") else int(w, 0) for w in words]
        return np.array(values, dtype.numpy)
    except (ValueError, OverflowError):
        cursor.error(f"expected numbers of type {dtype}")


def attributes_text(attributes: Mapping[str, bool | int | float | str]) -> str:
    """The dictionary as MLIR writes it: truth values are i1, integers i64, numbers f64."""
    return "{" + ", ".join(f"{name} = {_literal(value)}" for name, value in attributes.items()) + "}"


def _literal(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        return '"' + re.sub(r'["\\]', r"\\\g<0>", value).replace("\n", "\\0A").replace("\t", "\\09") + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if not np.isfinite(value):
        return f"0x{int(np.float64(value).view(np.uint64)):016X} : f64"
    mantissa, e, exponent = repr(float(value)).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent} : f64"


# -- memory
class AttributeMemory:
    """Attributes as the interface lays them out, at addresses that hold as long as this object."""

    def __init__(self, attributes: Mapping[str, Attribute]):
        self._kept: list[Any] = []
        self.struct = self._dictionary(attributes)

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> c_api.Attributes:
        named = sorted((name.encode("utf-8", "surrogateescape"), value) for name, value in attributes.items())
        rows = [(self._address(self._span(name)), *self._value(value)) for name, value in named]
        count = len(rows)
        names = (ctypes.c_void_p * max(1, count))(*(name for name, _, _ in rows))
        kinds = (ctypes.c_int32 * max(1, count))(*(kind for _, kind, _ in rows))
        pointers = (ctypes.c_void_p * max(1, count))(*(pointer for _, _, pointer in rows))
        return c_api.Attributes(
            ctypes.sizeof(c_api.Attributes),
            None,
            count,
            self._address(kinds),
            self._address(names),
            self._address(pointers),
        )

    def _value(self, value: Attribute) -> tuple[AttributeKind, int]:
        if isinstance(value, bytes):
            return AttributeKind.STRING, self._address(self._span(value))
        if isinstance(value, np.ndarray):
            self._kept.append(value)
            dtype, data = from_numpy(value.dtype).value, value.ctypes.data
            if value.ndim:
                return AttributeKind.ARRAY, self._address(c_api.Array(dtype, value.size, data))
            return AttributeKind.SCALAR, self._address(c_api.Scalar(dtype, data))
        return AttributeKind.DICTIONARY, self._address(self._dictionary(value))

    def _span(self, data: bytes) -> c_api.ByteSpan:
        return c_api.ByteSpan(self._address(ctypes.create_string_buffer(data)), len(data))

    def _address(self, value: Any) -> int:
        self._kept.append(value)
        return ctypes.addressof(value)
