"""Values of opcodes' attributes out of and into HLO text, one pair of functions per kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xloom.errors import near
from xloom.hlo.attributes import (
    Alias,
    ConvolutionDimensions,
    PaddingDimension,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    TensorSparsity,
    WindowDimension,
)
from xloom.hlo.opcodes import ENUMS
from xloom.hlo.sharding import Sharding
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor, escape
from xloom.hlo.text.literals import parse_literal_with_shape
from xloom.hlo.text.shapes import parse_shape
from xloom.hlo.text.shardings import parse_replica_groups, parse_sharding

_DXD = re.compile(r"\d+(?:x\d+)*")
_PADS = re.compile(r"-?\d+_-?\d+(?:_\d+)?(?:x-?\d+_-?\d+(?:_\d+)?)*")
_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")


# -- parsing: one function per kind ----------------------------------------------------------------------------------


def _enum(cursor: Cursor, values: dict[str, int], what: str) -> str:
    at = (cursor.skip(), cursor.pos)[1]
    word = cursor.require(_WORD, what)[0]
    for spelling in (word, word.upper(), word.lower()):
        if spelling in values:
            return spelling
    cursor.error(f"{word!r} is not {what}", at, hint=near(word, values) or f"one of: {', '.join(values)}")


def _ints_list(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    return tuple(cursor.items("{", "}", cursor.ints, "a list of lists"))


def parse_booleans(cursor: Cursor) -> tuple[bool, ...]:
    """`{true,false}`, or one alone."""
    if cursor.peek("{"):
        return tuple(cursor.items("{", "}", cursor.boolean, "a list of booleans"))
    return (cursor.boolean(),)


def parse_shape_index(cursor: Cursor) -> tuple[int, ...]:
    """`{1,0}`: where in a tuple."""
    return cursor.ints("a shape index")


def _window(cursor: Cursor) -> tuple[WindowDimension, ...]:
    start = cursor.pos
    cursor.expect("{", "at the start of a window")
    fields: dict[str, list[Any]] = {}
    while not cursor.eat("}"):
        at = cursor.pos
        name = cursor.require(ATTRIBUTE, "size=, stride=, pad=, lhs_dilate=, rhs_dilate= or rhs_reversal=")[1]
        if name == "pad":
            pads = cursor.require(_PADS, "paddings such as 0_1x2_2")[0].split("x")
            fields[name] = [tuple(map(int, p.split("_"))) for p in pads]
        elif name in ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            fields[name] = [int(d) for d in cursor.require(_DXD, "numbers such as 3x3")[0].split("x")]
        else:
            cursor.error(f"a window has no {name!r}", at, hint=near(name, ("size", "stride", "pad")))
    sizes = fields.get("size", [])
    for name, values in fields.items():
        if len(values) != len(sizes):
            cursor.error(f"{name}= has {len(values)} dimensions, size= has {len(sizes)}", start)
    column = {name: fields.get(name) for name in ("stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")}
    return tuple(
        WindowDimension(
            size,
            column["stride"][k] if column["stride"] else 1,
            column["pad"][k][0] if column["pad"] else 0,
            column["pad"][k][1] if column["pad"] else 0,
            column["rhs_dilate"][k] if column["rhs_dilate"] else 1,
            column["lhs_dilate"][k] if column["lhs_dilate"] else 1,
            column["rhs_reversal"][k] == 1 if column["rhs_reversal"] else False,
        )
        for k, size in enumerate(sizes)
    )


def _roles(cursor: Cursor, labels: str, batch: str, feature: str, at: int) -> tuple[int, int, tuple[int, ...]]:
    places = {c: k for k, c in enumerate(labels) if c != "?"}
    if len(places) + labels.count("?") != len(labels):
        cursor.error(f"a label stands twice in {labels!r}", at)
    digits = sorted(c for c in places if c.isdigit())
    if digits != [str(k) for k in range(len(digits))]:
        cursor.error(f"spatial labels of {labels!r} are not 0, 1, ...", at)
    return places.get(batch, 0), places.get(feature, 0), tuple(places[d] for d in digits)


def _dim_labels(cursor: Cursor) -> ConvolutionDimensions:
    cursor.skip()
    at = cursor.pos
    found = cursor.require(_LABELS, "dimension labels such as b01f_01io->b01f")
    lhs = _roles(cursor, found[1], "b", "f", at)
    rhs = _roles(cursor, found[2], "i", "o", at)
    out = _roles(cursor, found[3], "b", "f", at)
    if not len(lhs[2]) == len(rhs[2]) == len(out[2]):
        cursor.error("input, kernel and output have different numbers of spatial dimensions", at)
    return ConvolutionDimensions(*lhs, *rhs, *out)


def _slice(cursor: Cursor) -> tuple[SliceDimension, ...]:
    return tuple(cursor.items("{", "}", lambda: _range(cursor), "slice ranges"))


def _range(cursor: Cursor) -> SliceDimension:
    cursor.expect("[", "at the start of a range")
    parts = [cursor.integer()]
    while cursor.eat(":"):
        parts.append(cursor.integer())
    cursor.expect("]", "or ':' in a range")
    if len(parts) not in (2, 3):
        cursor.error("expected [start:limit] or [start:limit:stride]")
    return SliceDimension(*parts)


def _padding(cursor: Cursor) -> tuple[PaddingDimension, ...]:
    found = cursor.match(_PADS)
    if found is None:
        # a scalar's padding prints as nothing
        return ()
    return tuple(PaddingDimension(*map(int, p.split("_"))) for p in found[0].split("x"))


def _aliasing(cursor: Cursor) -> tuple[Alias, ...]:
    return tuple(cursor.items("{", "}", lambda: _alias(cursor), "aliasing pairs"))


def _alias(cursor: Cursor) -> Alias:
    output = parse_shape_index(cursor)
    cursor.expect(":", "after an output index")
    cursor.expect("(", "before an operand number")
    operand = cursor.integer("an operand number")
    cursor.expect(",", "after an operand number")
    index = parse_shape_index(cursor)
    cursor.expect(")", "after an operand index")
    return Alias(output, operand, index)


def _accuracy(cursor: Cursor) -> ResultAccuracy:
    cursor.expect("{", "at the start of result_accuracy")
    name = cursor.require(ATTRIBUTE, "mode= or tolerance=")[1]
    if name == "mode":
        out = ResultAccuracy(_enum(cursor, {"default": 0, "highest": 1}, "an accuracy mode"))
    elif name == "tolerance":
        fields = {"atol": 0.0, "rtol": 0.0, "ulps": 0.0}
        cursor.expect("{", "at the start of a tolerance")
        while not cursor.eat("}"):
            field = cursor.require(ATTRIBUTE, "atol=, rtol= or ulps=")[1]
            if field not in fields:
                cursor.error(f"a tolerance has no {field!r}")
            fields[field] = cursor.number()
            cursor.eat(",")
        if not abs(fields["ulps"]) < 2**63:
            cursor.error("ulps does not fit 64 bits")
        out = ResultAccuracy(tolerance=(fields["atol"], fields["rtol"], int(fields["ulps"])))
    else:
        cursor.error(f"result_accuracy has no {name!r}")
    cursor.expect("}", "at the end of result_accuracy")
    return out


def _sparsity(cursor: Cursor) -> Sparsity:
    sides: dict[str, TensorSparsity] = {}
    cursor.expect("{", "at the start of a sparsity configuration")
    while not cursor.eat("}"):
        side = cursor.require(ATTRIBUTE, "lhs= or rhs=")[1]
        if side not in ("lhs", "rhs"):
            cursor.error(f"a sparsity configuration has no {side!r}")
        fields: dict[str, int] = {}
        cursor.expect("{", "at the start of a sparsity")
        while not cursor.eat("}"):
            field = cursor.require(ATTRIBUTE, "sparsity=, dimension= or stride=")[1]
            if field == "sparsity":
                pair = cursor.require(_DXD, "non-zeros x block")[0].split("x")
                if len(pair) != 2:
                    cursor.error("expected non-zeros x block")
                fields["non_zero"], fields["block"] = int(pair[0]), int(pair[1])
            elif field in ("dimension", "stride"):
                fields[field] = cursor.integer()
            else:
                cursor.error(f"a sparsity has no {field!r}")
        sides[side] = TensorSparsity(**fields)
    return Sparsity(**sides)


def _domain(cursor: Cursor) -> tuple[Sharding, Sharding]:
    cursor.expect("{", "at the start of a domain")
    fields: dict[str, Any] = {}
    while not cursor.eat("}"):
        name = cursor.require(ATTRIBUTE, "kind=, entry= or exit=")[1]
        if name == "kind":
            fields[name] = cursor.string()
        elif name in ("entry", "exit"):
            fields[name] = parse_sharding(cursor)
        else:
            cursor.error(f"a domain has no {name!r}")
        cursor.eat(",")
    if fields.get("kind") != "sharding" or "entry" not in fields or "exit" not in fields:
        cursor.error('expected a domain {kind="sharding", entry={...}, exit={...}}')
    return fields["entry"], fields["exit"]


PARSERS: dict[str, Callable[[Cursor], Any]] = {
    "int": lambda c: c.integer(),
    "float": lambda c: c.number(),
    "bool": lambda c: c.boolean(),
    "str": lambda c: c.string(),
    "ints": lambda c: c.ints(),
    "bools": parse_booleans,
    "int_lists": _ints_list,
    "pairs": _ints_list,
    "window": _window,
    "dim_labels": _dim_labels,
    "slice": _slice,
    "padding": _padding,
    "literal": parse_literal_with_shape,
    "shape": parse_shape,
    "shapes": lambda c: tuple(c.items("{", "}", lambda: parse_shape(c), "shapes")),
    "aliasing": _aliasing,
    "replica_groups": parse_replica_groups,
    "domain": _domain,
    "sparsity": _sparsity,
    "result_accuracy": _accuracy,
}


def _enum_parser(key: str) -> Callable[[Cursor], str]:
    return lambda c: _enum(c, ENUMS[key], f"a {key.replace('_', ' ')}")


def _enums_parser(key: str) -> Callable[[Cursor], tuple[str, ...]]:
    one = _enum_parser(key)
    return lambda c: tuple(c.items("{", "}", lambda: one(c), f"a list of {key}"))


for _key in ENUMS:
    PARSERS[f"enum:{_key}"] = _enum_parser(_key)
    PARSERS[f"enums:{_key}"] = _enums_parser(_key)


# -- printing ------------------------------------------------------------------------------------------------------


def braced(values: tuple[int, ...]) -> str:
    """`{1,2,3}`."""
    return f"{{{','.join(map(str, values))}}}"


def _print_bool(value: bool) -> str:
    return "true" if value else "false"


def print_float(value: float) -> str:
    """Six significant digits, as absl's StrCat prints."""
    text = f"{value:.6g}"
    return text


def print_window(window: tuple[WindowDimension, ...]) -> str:
    """`{size=3x3 pad=1_1x1_1}`."""
    columns = (
        ("size", [str(d.size) for d in window], None),
        ("stride", [str(d.stride) for d in window], "1"),
        ("pad", [f"{d.padding_low}_{d.padding_high}" for d in window], "0_0"),
        ("lhs_dilate", [str(d.base_dilation) for d in window], "1"),
        ("rhs_dilate", [str(d.window_dilation) for d in window], "1"),
        ("rhs_reversal", [str(int(d.window_reversal)) for d in window], "0"),
    )
    shown = (f"{n}={'x'.join(v)}" for n, v, default in columns if v and any(x != default for x in v))
    return f"{{{' '.join(shown)}}}"


def print_dim_labels(dims: ConvolutionDimensions) -> str:
    """`b01f_01io->b01f`; `?` for dimensions that have no role."""

    def side(first: int, second: int, spatial: tuple[int, ...], letters: str) -> str:
        labels = ["?"] * (max(first, second, *spatial, 0) + 1)
        for k, d in enumerate(spatial):
            labels[d] = str(k)
        labels[first], labels[second] = letters[0], letters[1]
        return "".join(labels)

    lhs = side(dims.input_batch, dims.input_feature, dims.input_spatial, "bf")
    rhs = side(dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial, "io")
    out = side(dims.output_batch, dims.output_feature, dims.output_spatial, "bf")
    return f"{lhs}_{rhs}->{out}"


def _print_slice(dims: tuple[SliceDimension, ...]) -> str:
    strided = any(d.stride != 1 for d in dims)
    ranges = (f"[{d.start}:{d.limit}{f':{d.stride}' if strided else ''}]" for d in dims)
    return f"{{{', '.join(ranges)}}}"


def print_padding(dims: tuple[PaddingDimension, ...]) -> str:
    """`0_1x2_2`, or `0_1_0x2_2_1` when some interior is padded."""
    interior = any(d.interior for d in dims)
    return "x".join(f"{d.low}_{d.high}{f'_{d.interior}' if interior else ''}" for d in dims)


def _print_aliasing(pairs: tuple[Alias, ...]) -> str:
    body = ", ".join(f"{braced(a.output_index)}: ({a.operand}, {braced(a.operand_index)})" for a in pairs)
    return f"{{{body}}}"


def _print_accuracy(value: ResultAccuracy) -> str:
    if value.tolerance is None:
        return f"{{mode={value.mode}}}"
    atol, rtol, ulps = value.tolerance
    return f"{{tolerance={{atol={print_float(atol)},rtol={print_float(rtol)},ulps={ulps}}}}}"


def _print_sparsity(value: Sparsity) -> str:
    sides = (
        f"{name}={{sparsity={t.non_zero}x{t.block} dimension={t.dimension} stride={t.stride}}}"
        for name, t in (("lhs", value.lhs), ("rhs", value.rhs))
        if t is not None
    )
    return f"{{{' '.join(sides)}}}"


PRINTERS: dict[str, Callable[[Any], str]] = {
    "int": str,
    "float": print_float,
    "bool": _print_bool,
    "str": lambda v: f'"{escape(v)}"',
    "ints": braced,
    "bools": lambda v: f"{{{','.join(map(_print_bool, v))}}}",
    "int_lists": lambda v: f"{{{','.join(map(braced, v))}}}",
    "pairs": lambda v: f"{{{','.join(map(braced, v))}}}",
    "window": print_window,
    "dim_labels": print_dim_labels,
    "slice": _print_slice,
    "padding": print_padding,
    "literal": lambda v: v.to_text(shapes=True),
    "shape": str,
    "shapes": lambda v: f"{{{', '.join(map(str, v))}}}",
    "aliasing": _print_aliasing,
    "replica_groups": lambda v: "{}" if v is None else str(v),
    "domain": lambda v: f'{{kind="sharding", entry={v[0]}, exit={v[1]}}}',
    "sparsity": _print_sparsity,
    "result_accuracy": _print_accuracy,
}
for _key in ENUMS:
    PRINTERS[f"enum:{_key}"] = str
    PRINTERS[f"enums:{_key}"] = lambda v: f"{{{','.join(v)}}}"
