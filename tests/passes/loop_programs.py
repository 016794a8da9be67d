"""Random loops whose state moves: elements handed on as others, set back, begun as one value, swapped, unread."""

from __future__ import annotations

import random

from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse

WIDE, NUMBER = "s32[3]", "s32[]"


def loop_program(seed: int) -> Module:
    """A loop over numbers and arrays of s32; maybe its body has another one, which begins with elements of its state."""
    return parse(_Text(random.Random(seed)).module(), f"loop {seed}")


class _Text:
    def __init__(self, chance: random.Random):
        self.chance = chance
        self.computations: list[str] = []
        self.count = 0

    def module(self) -> str:
        lines = [f"x = {WIDE} parameter(0)", f"y = {WIDE} parameter(1)", f"n = {NUMBER} parameter(2)"]
        loop, types = self.loop(lines, [("x", WIDE), ("y", WIDE), ("n", NUMBER)], self.chance.random() < 0.4)
        read = self.chance.sample(range(len(types)), self.chance.randint(1, len(types)))
        parts = [(self.add(lines, types[k], f"get-tuple-element({loop}), index={k}"), types[k]) for k in read]
        if self.chance.random() < 0.2:
            parts.append((loop, _tuple(types)))
        lines.append(f"ROOT r = {_tuple([t for _, t in parts])} tuple({', '.join(p for p, _ in parts)})")
        return "\n".join(["HloModule loops", *self.computations, *_computation("ENTRY main", lines)])

    def add(self, lines: list[str], shape: str, text: str) -> str:
        """One more instruction."""
        self.count += 1
        lines.append(f"v{self.count} = {shape} {text}")
        return f"v{self.count}"

    def loop(self, lines: list[str], values: list[tuple[str, str]], nests: bool) -> tuple[str, list[str]]:
        """A loop that runs up to three times, by a limit that is an element of its state."""
        first = [self.add(lines, NUMBER, f"constant({n})") for n in (0, self.chance.randint(0, 3))]
        types = [NUMBER, NUMBER]
        for _ in range(self.chance.randint(2, 6)):
            value, kind = self.initial(lines, values)
            first.append(value)
            types.append(kind)
        start = self.add(lines, _tuple(types), f"tuple({', '.join(first)})")
        condition, body = self.condition(types), self.body(types, nests)
        whole = f"while({start}), condition={condition}, body={body}"
        return self.add(lines, _tuple(types), whole), types

    def initial(self, lines: list[str], values: list[tuple[str, str]]) -> tuple[str, str]:
        """A value of outside, which other elements may begin as too; a number; or one number in all places."""
        match self.chance.choice(("value", "value", "number", "array", "broadcast")):
            case "number":
                return self.add(lines, NUMBER, f"constant({self.chance.randint(-2, 2)})"), NUMBER
            case "array":
                return self.add(lines, WIDE, "constant({1, 2, 3})"), WIDE
            case "broadcast":
                number = self.chance.choice([v for v, kind in values if kind == NUMBER])
                return self.add(lines, WIDE, f"broadcast({number}), dimensions={{}}"), WIDE
        return self.chance.choice(values)

    def condition(self, types: list[str]) -> str:
        """counter < limit"""
        lines, state = self.inside(types)
        self.add(lines, "pred[]", f"compare({state[0]}, {state[1]}), direction=LT")
        return self.finish(lines)

    def body(self, types: list[str], nests: bool) -> str:
        """Counts, and makes of each other element itself, another one, the first of all, or something new."""
        lines, state = self.inside(types)
        values = list(zip(state, types, strict=True))
        one = self.add(lines, NUMBER, "constant(1)")
        if nests:
            inner, kinds = self.loop(lines, values, False)
            taken = self.chance.sample(range(len(kinds)), 2)
            values += [(self.add(lines, kinds[k], f"get-tuple-element({inner}), index={k}"), kinds[k]) for k in taken]
        for _ in range(self.chance.randint(0, 4)):
            kind = self.chance.choice((WIDE, NUMBER))
            a, b = (self.one(lines, values, kind) for _ in range(2))
            values.append((self.add(lines, kind, f"{self.chance.choice(('add', 'subtract'))}({a}, {b})"), kind))
        last = [self.add(lines, NUMBER, f"add({state[0]}, {one})"), state[1]]
        for k, kind in enumerate(types[2:], 2):
            last.append(state[k] if self.chance.random() < 0.3 else self.one(lines, values, kind))
        self.add(lines, _tuple(types), f"tuple({', '.join(last)})")
        return self.finish(lines)

    def one(self, lines: list[str], values: list[tuple[str, str]], kind: str) -> str:
        """One of the values of a kind."""
        fitting = [v for v, k in values if k == kind]
        if fitting and self.chance.random() < 0.9:
            return self.chance.choice(fitting)
        number = self.chance.choice([v for v, k in values if k == NUMBER])
        return number if kind == NUMBER else self.add(lines, WIDE, f"broadcast({number}), dimensions={{}}")

    def inside(self, types: list[str]) -> tuple[list[str], list[str]]:
        """The beginning of a computation of the state, and its elements."""
        lines: list[str] = []
        state = self.add(lines, _tuple(types), "parameter(0)")
        return lines, [self.add(lines, t, f"get-tuple-element({state}), index={k}") for k, t in enumerate(types)]

    def finish(self, lines: list[str]) -> str:
        """A computation that gives its last instruction."""
        lines[-1] = f"ROOT {lines[-1]}"
        self.count += 1
        self.computations += _computation(f"c{self.count}", lines)
        return f"c{self.count}"


def _tuple(types: list[str]) -> str:
    return f"({', '.join(types)})"


def _computation(name: str, lines: list[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}", ""]
