"""What the signature of a Python kernel says of the arrays it gets, held against each call of it."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin

import numpy as np

from xloom.errors import CustomCallError
from xloom.hlo.dtype import DTYPES, DType, from_numpy
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

_TEXT = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_DIMENSION = re.compile(r"\d+|\w+|\?")
_ALIAS: Any = getattr(typing, "TypeAliasType", ())  # since Python 3.12


class _Array:
    """An array; `dtype` and `dims` are None where any will do, a dimension is a number, a name, or `?`."""

    def __init__(self, dtype: DType | None = None, dims: tuple[int | str, ...] | None = None):
        self.dtype = dtype
        self.dims = dims

    def __str__(self) -> str:
        dtype = self.dtype or "an array"
        return str(dtype) if self.dims is None else f"{dtype}[{','.join(map(str, self.dims))}]"

    def fits(self, shape: Shape, sizes: dict[str, int]) -> bool:
        """True for such an array; `sizes` are those of the names that have been seen."""
        if not shape.is_array or (self.dtype is not None and shape.dtype != self.dtype):
            return False
        if self.dims is None:
            return True
        if len(self.dims) != shape.rank:
            return False
        return all(
            wanted == "?" or size == (wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size))
            for wanted, size in zip(self.dims, shape.dims, strict=True)
        )


_Expected = _Array | tuple[Any, ...] | None
"""A tuple of expectations is one of a tuple; None stands for anything."""


class Signature:
    """The signature of `function(out, *operands)`, whose annotations may say shapes.

    An annotation is a shape (`xl.f32[4, 8]`), a dtype (`xl.f32`, `np.float32`, `NDArray[np.float32]`), HLO text with
    names for sizes that are to be equal (`"f32[n,4]"`, `?` for any), a tuple of these, or `Annotated[..., one]`. All
    others say nothing. Raises CustomCallError when text is none of this.
    """

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature):
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = list(signature.parameters.values())
        self._named = [(p.name, _expected(p.annotation, function)) for p in parameters if p.kind in positional]
        self._least = sum(p.kind in positional and p.default is p.empty for p in parameters)
        rest = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
        self._rest = (f"*{rest[0].name}", _expected(rest[0].annotation, function)) if rest else None
        self.keywords = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        """Its parameters that are only given by name."""
        self.required = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty)
        """Those of them that have no default."""

    @staticmethod
    def of(function: Callable[..., Any]) -> Signature | None:
        """The signature, or None when Python knows none."""
        try:
            return Signature(function, _signature(function))
        except (TypeError, ValueError):  # functions written in C
            return None

    def check(self, call: Instruction, where: str) -> None:
        """Raises CustomCallError when the call's result and operands are not what the function is written for."""
        shapes = [call.shape, *(o.shape for o in call.operands)]
        what = f"custom call {call['custom_call_target']!r}"
        if len(shapes) < self._least or (len(shapes) > len(self._named) and self._rest is None):
            takes = ", ".join([*(name for name, _ in self._named), *([self._rest[0]] if self._rest else [])])
            raise CustomCallError(
                f"{what} expects operands for ({takes}), where the first is the result; got {len(shapes) - 1} operands",
                where=where,
            )
        given = [*self._named, *[self._rest or ("", None)] * (len(shapes) - len(self._named))]
        sizes: dict[str, int] = {}
        wrong = [
            f"expects {_text(expected)} for {name}, got {_shape_text(shape)}"
            for (name, expected), shape in zip(given, shapes, strict=False)
            if not _fits(expected, shape, sizes)
        ]
        if wrong:
            known = ", ".join(f"{name} is {size}" for name, size in sizes.items())
            raise CustomCallError(f"{what} {'; it '.join(wrong)}", where=where, hint=f"there {known}" if known else "")


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info < (3, 14):
        return inspect.signature(function)
    from annotationlib import Format

    # annotations are evaluated when they are asked for: of names that only type checkers have, they say nothing
    return inspect.signature(function, annotation_format=Format.FORWARDREF)


def _without_aliases(annotation: Any) -> Any:
    """What a name made by the statement `type` stands for, as NumPy's NDArray is; other annotations as they are."""
    while isinstance(alias := get_origin(annotation) or annotation, _ALIAS):
        arguments = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
        value = alias.__value__
        annotation = value[tuple(arguments[p] for p in value.__parameters__)] if arguments else value
    return annotation


def _expected(annotation: Any, function: Callable[..., Any]) -> _Expected:
    annotation = _without_aliases(annotation)
    if isinstance(annotation, str):
        found = _parsed(annotation)
        return found if found is not None else _expected(_evaluated(annotation, function), function)
    if isinstance(annotation, Shape):
        if annotation.is_tuple:
            return tuple(_expected(e, function) for e in annotation.elements)
        return _Array(annotation.dtype, annotation.dims) if annotation.is_array else None
    if isinstance(annotation, DType):
        return _Array(annotation)
    if get_origin(annotation) is Annotated:
        return _expected(get_args(annotation)[1], function)
    if isinstance(annotation, tuple) or get_origin(annotation) is tuple:
        parts = annotation if isinstance(annotation, tuple) else get_args(annotation)
        return None if Ellipsis in parts else tuple(_expected(part, function) for part in parts)
    if annotation is np.ndarray:
        return _Array()
    scalar = annotation
    if get_origin(annotation) is np.ndarray:  # NDArray[scalar]
        scalar = next(iter(get_args(get_args(annotation)[1])), None)
    if isinstance(scalar, type) and issubclass(scalar, np.generic):
        try:
            return _Array(from_numpy(np.dtype(scalar)))
        except (TypeError, ValueError, KeyError):  # np.floating and the like
            return _Array()
    return None


def _parsed(text: str) -> _Expected:
    """What HLO text such as `f32[n,4]` expects; None when it is something else."""
    match = _TEXT.fullmatch(text.strip())
    if match is None or match[1] not in DTYPES:
        return None
    words = [word.strip() for word in match[2].split(",")] if match[2].strip() else []
    if not all(_DIMENSION.fullmatch(word) for word in words):
        return None
    return _Array(DTYPES[match[1]], tuple(int(word) if word.isdigit() else word for word in words))


def _evaluated(text: str, function: Callable[..., Any]) -> Any:
    """The value of an annotation that was kept as text; None when its names are not there at run time."""
    code: Any = inspect.unwrap(function)
    names = {**getattr(code, "__globals__", {})}
    if getattr(code, "__closure__", None):
        names.update(inspect.getclosurevars(code).nonlocals)
    try:
        found = eval(text, names)
    except SyntaxError as error:
        raise CustomCallError(
            f"the annotation {text!r} is no shape: {error.msg}", hint="write xl.f32[4], or a NumPy dtype"
        ) from None
    except Exception:  # imported for type checkers only
        return None
    return None if found == text else found


def _fits(expected: _Expected, shape: Shape, sizes: dict[str, int]) -> bool:
    if expected is None:
        return True
    if isinstance(expected, tuple):
        return (
            shape.is_tuple
            and len(shape.elements) == len(expected)
            and all(_fits(e, s, sizes) for e, s in zip(expected, shape.elements, strict=True))
        )
    return expected.fits(shape, sizes)


def _text(expected: _Expected) -> str:
    if isinstance(expected, tuple):
        return f"({', '.join(map(_text, expected))})"
    return "anything" if expected is None else str(expected)


def _shape_text(shape: Shape) -> str:
    elements: Sequence[Shape] = shape.elements if shape.is_tuple else ()
    if shape.is_tuple:
        return f"({', '.join(map(_shape_text, elements))})"
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]" if shape.is_array else str(shape)
