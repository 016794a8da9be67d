"""Frontend attributes, statistics and origins out of and into HLO text."""

from __future__ import annotations

from typing import Any

from xloom.hlo.attributes import OriginalArray, OriginalValue, Statistics
from xloom.hlo.text.attributes import braced, parse_shape_index, print_float
from xloom.hlo.text.lexer import ATTRIBUTE, INT, NUMBER, Cursor, escape, is_json_dict

# -- parsing -------------------------------------------------------------------------------------------------------


def parse_frontend_attributes(cursor: Cursor) -> dict[str, str]:
    """`{key="value",other={...}}`."""

    def item() -> tuple[str, str]:
        return cursor.require(ATTRIBUTE, "an attribute name and '='")[1], cursor.string_or_json()

    return dict(cursor.items("{", "}", item, "frontend attributes"))


def parse_statistics(cursor: Cursor) -> Statistics | None:
    """`{visualizing_index=0,count_nan=1.5}`; None when empty."""

    def item() -> tuple[str, str]:
        return cursor.require(ATTRIBUTE, "a statistic's name and '='")[1], cursor.require(NUMBER, "a number")[0]

    pairs = cursor.items("{", "}", item, "statistics")
    if len(pairs) < 2:
        return None
    if not INT.fullmatch(pairs[0][1]):
        cursor.error("the first statistic is the index of the one shown, an integer")
    return Statistics(int(pairs[0][1]), tuple((name, float(value)) for name, value in pairs[1:]))


def parse_original_array(cursor: Cursor) -> OriginalArray | None:
    """`{"name" {0}}`, or `{}` for an unknown one."""
    cursor.expect("{", "at the start of an original array")
    if cursor.eat("}"):
        return None
    name = cursor.string("the name of an original instruction")
    index = parse_shape_index(cursor) if cursor.peek("{") else ()
    cursor.expect("}", "at the end of an original array")
    return OriginalArray(name, index)


def parse_original_value(cursor: Cursor) -> OriginalValue:
    """`{{"name"}}`, `{({"a"}, {"b" {1}})}` or `{[synthetic_call]}`."""
    cursor.expect("{", "at the start of an original value")
    if cursor.eat("["):
        if not cursor.eat_word("synthetic_call"):
            cursor.error(f"expected synthetic_call, found {cursor.found()}")
        cursor.expect("]", "after synthetic_call")
        value = OriginalValue(synthetic_call=True)
    else:
        value = OriginalValue(None if cursor.peek("}") else _original_tree(cursor, 0))
    cursor.expect("}", "at the end of an original value")
    return value


def _original_tree(cursor: Cursor, depth: int) -> OriginalArray | tuple[Any, ...] | None:
    if depth > 100:
        cursor.error("original value nested too deeply")
    if cursor.peek("("):
        return tuple(cursor.items("(", ")", lambda: _original_tree(cursor, depth + 1), "an original tuple"))
    return parse_original_array(cursor)


# -- printing ------------------------------------------------------------------------------------------------------


def print_frontend_attributes(attributes: dict[str, str]) -> str:
    """`{a="1",b={...}}`, sorted by name."""

    def value(text: str) -> str:
        return text if is_json_dict(text) else f'"{escape(text)}"'

    return f"{{{','.join(f'{k}={value(v)}' for k, v in sorted(attributes.items()))}}}"


def print_statistics(value: Statistics) -> str:
    """`{visualizing_index=0,count_nan=1.5}`."""
    return f"{{visualizing_index={value.shown},{','.join(f'{n}={print_float(v)}' for n, v in value.values)}}}"


def print_original_array(value: OriginalArray | None) -> str:
    """`{"name" {0}}`."""
    if value is None:
        return "{}"
    return f'{{"{value.instruction}"{f" {braced(value.index)}" if value.index else ""}}}'


def print_original_value(value: OriginalValue) -> str:
    """With braces, as the attribute `origin` holds it."""

    def tree(node: OriginalArray | tuple[Any, ...] | None) -> str:
        if isinstance(node, tuple):
            return f"({', '.join(map(tree, node))})"
        return print_original_array(node)

    return "{[synthetic_call]}" if value.synthetic_call else f"{{{tree(value.tree)}}}"
