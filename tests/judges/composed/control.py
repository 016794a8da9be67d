"""Loops, branches, maps and derivatives around functions that are random programs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.judges.composed.program import Program, Step
from tests.judges.composed.values import Value

if TYPE_CHECKING:
    from tests.judges.composed.generator import Made

_STATE_ELEMENTS = 3000  # elements in all, of a value that a loop carries


@dataclass(frozen=True)
class Construct:
    """One row of the table: `make` returns the step, or nothing if no value fits."""

    make: Callable[[Made, Construct], Step | None]
    template: str
    weight: float = 1.0


def _state(made: Made) -> list[Value]:
    """What a loop starts from: values of one shape rather than not, the same one twice now and then."""
    first = made.pick("n", _small)
    if first is None:
        return []

    def fits(value: Value) -> bool:
        return value.size <= _STATE_ELEMENTS and (value.shape, value.dtype) == (first.shape, first.dtype)

    state = [first]
    for _ in range(made.choose.choice((0, 1, 1, 2, 3))):
        alike = made.choose.random() < 0.75
        other = made.pick("a", fits if alike else _small)
        if other is not None:
            state.append(other)
    return [made.tamed(v) for v in state]


def _small(value: Value) -> bool:
    return value.size <= _STATE_ELEMENTS


def _captured(made: Made) -> list[Value]:
    found = [made.pick("a", _small) for _ in range(made.choose.choice((0, 0, 1, 2)))]
    return [v for v in found if v is not None]


def _next(inner: Made, parameters: Sequence[Value]) -> list[Value]:
    """For each element of the state one value of its shape and type: computed, another's, or one from outside."""
    chosen = []
    for k, element in enumerate(parameters):
        fitting = [v for v in inner.values if (v.shape, v.dtype) == (element.shape, element.dtype)]
        computed = [v for v in fitting if v.number >= len(inner.values) - sum(s.count for s in inner.steps)]
        how = inner.choose.random()
        if how < 0.6 and computed:
            chosen.append(inner.tamed(inner.choose.choice(computed)))
        elif how < 0.9:
            chosen.append(inner.choose.choice(fitting))
        else:
            chosen.append(inner.values[k + inner.values.index(parameters[0])])
    return chosen


def _list(start: int, count: int) -> str:
    return "".join(f"{{{k}}}, " for k in range(start, start + count))


def _write(template: str, state: int, captured: int, **others: object) -> str:
    """Fills in {state} and {captured}, lists of holes, and what else is asked for."""
    text = template.replace("{state}", _list(0, state)).replace("{captured}", _list(state, captured))
    for name, value in others.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _loop(made: Made, construct: Construct) -> Step | None:
    state = _state(made)
    if not state:
        return None
    captured = _captured(made)
    counter = Value(0, (), "int64")
    inner = made.inside([counter, *state, *captured])
    inner.body(made.choose.randint(1, 7))
    results = _next(inner, inner.values[1 : 1 + len(state)])
    trips = made.choose.choice((0, 1, 2, 3, 3, 4, 7))
    bodies: tuple[Program, ...] = (inner.program(results),)
    operands = tuple(v.number for v in state + captured)
    template = _write(construct.template, len(state), len(captured), trips=trips)
    if "{b1}" in template:
        test = made.inside([*state, *captured])
        test.body(made.choose.randint(1, 3))
        compared = test.pick("r")
        if compared is None:
            return None
        bodies += (test.program([compared]),)
    return Step(template, operands, len(state), bodies)


def _scan(made: Made, construct: Construct) -> Step | None:
    state = _state(made)
    along = made.pick("a", lambda v: len(v.shape) > 0 and v.shape[0] < 20 and v.size <= _STATE_ELEMENTS)
    if not state or along is None:
        return None
    captured = _captured(made)
    piece = Value(0, along.shape[1:], along.dtype, along.growth)
    inner = made.inside([*state, piece, *captured])
    inner.body(made.choose.randint(1, 7))
    results = _next(inner, inner.values[: len(state)])
    result = inner.choose.choice(inner.values)
    step = _write(
        construct.template,
        len(state),
        len(captured),
        along=f"{{{len(state) + len(captured)}}}",
        reverse=made.choose.random() < 0.25,
        unroll=made.choose.choice((1, 1, 1, 2, 3)),
        count=len(state),
    )
    operands = tuple(v.number for v in [*state, *captured, along])
    return Step(step, operands, len(state) + 1, (inner.program([*results, result]),))


def _branches(made: Made, construct: Construct) -> Step | None:
    state = _state(made)
    decides = made.pick("r", lambda v: 0 < v.size < _STATE_ELEMENTS)
    if not state or decides is None:
        return None
    count = 2 if "lax.cond" in construct.template else 3
    bodies = []
    for _ in range(count):
        inner = made.inside(state)
        inner.body(made.choose.randint(0, 5))
        bodies.append(inner.program(_next(inner, inner.values[: len(state)])))
    template = _write(construct.template, len(state), 0, decides=f"{{{len(state)}}}")
    return Step(template, tuple(v.number for v in [*state, decides]), len(state), tuple(bodies))


def _mapped(made: Made, construct: Construct) -> Step | None:
    first = made.pick("n", lambda v: len(v.shape) > 0 and 0 < v.shape[0] < 40 and v.size <= _STATE_ELEMENTS)
    if first is None:
        return None
    chosen = [first]
    second = made.pick("a", lambda v: len(v.shape) > 0 and v.shape[0] == first.shape[0] and v.size <= _STATE_ELEMENTS)
    if second is not None and made.choose.random() < 0.6:
        chosen.append(second)
    axes: list[int | None] = [0] * len(chosen)
    captured = _captured(made)
    pieces = [Value(0, v.shape[1:], v.dtype, v.growth) for v in chosen]
    inner = made.inside([*pieces, *captured])
    inner.body(made.choose.randint(1, 6))
    template = _write(construct.template, len(chosen), len(captured), axes=tuple(axes + [None] * len(captured)))
    operands = tuple(v.number for v in chosen + captured)
    if "grad" in template:
        return Step(template, operands, None, (inner.program([inner.pick("f") or inner.values[0]]),))
    results = inner.choose.sample(inner.values, min(2, len(inner.values)))
    return Step(template, operands, len(results), (inner.program(results),))


def _called(made: Made, construct: Construct) -> Step | None:
    operands = _state(made)
    if not operands:
        return None
    inner = made.inside(operands)
    inner.body(made.choose.randint(1, 6))
    results = inner.choose.sample(inner.values, min(3, len(inner.values)))
    template = _write(construct.template, len(operands), 0)
    return Step(template, tuple(v.number for v in operands), len(results), (inner.program(results),))


def _derived(made: Made, construct: Construct) -> Step | None:
    x = made.pick("f", _small)
    if x is None:
        return None
    x = made.tamed(x)
    captured = _captured(made)
    inner = made.inside([x, *captured])
    inner.body(made.choose.randint(1, 6))
    result = inner.pick("f", lambda v: v.number > len(captured)) or inner.values[0]
    step = Step(
        _write(construct.template, 1, len(captured)),
        tuple(v.number for v in [x, *captured]),
        2 if "jvp" in construct.template or "value_and" in construct.template else None,
        (inner.program([result]),),
    )
    return step


_SUM = "lambda x, *c: jnp.sum({b0}(x, *c)[0])"
CONSTRUCTS: tuple[Construct, ...] = (
    Construct(_loop, "lax.fori_loop(0, {trips}, lambda i, s: {b0}(i, *s, {captured}), ({state}))", 3),
    Construct(
        _loop,
        "lax.while_loop(lambda s: s[0] < {trips}, lambda s: (s[0] + 1, *{b0}(s[0], *s[1:], {captured})), (0, {state}))[1:]",
        1.5,
    ),
    Construct(
        _loop,
        "lax.while_loop(lambda s: (s[0] < {trips}) & (jnp.sum({b1}(*s[1:], {captured})[0]) < 3), "
        "lambda s: (s[0] + 1, *{b0}(s[0], *s[1:], {captured})), (0, {state}))[1:]",
        1.5,
    ),
    Construct(
        _scan,
        "(lambda s, y: (*s, y))(*lax.scan(lambda s, x: (lambda *r: (r[:{count}], r[-1]))(*{b0}(*s, x, {captured})), "
        "({state}), {along}, reverse={reverse}, unroll={unroll}))",
        3,
    ),
    Construct(_branches, "lax.cond(jnp.sum({decides}) > 0, {b0}, {b1}, {state})", 2),
    Construct(_branches, "lax.switch(jnp.argmax({decides}) % 4, [{b0}, {b1}, {b2}], {state})", 1),
    Construct(_mapped, "jax.vmap({b0}, {axes})({state}{captured})", 2.5),
    Construct(_called, "jax.jit({b0})({state})", 0.6),
    Construct(_called, "jax.checkpoint({b0})({state})", 0.2),
    Construct(_derived, f"jax.grad({_SUM})({{state}}{{captured}})", 2),
    Construct(_derived, f"jax.value_and_grad({_SUM})({{state}}{{captured}})", 0.7),
    Construct(
        _derived, "jax.jvp(lambda x: {b0}(x, {captured})[0], ({state}), (jnp.ones_like({0}),))", 1
    ),
    Construct(_derived, f"jax.jacfwd({_SUM})({{state}}{{captured}})", 0.3),
    Construct(_mapped, f"jax.vmap(jax.grad({_SUM}), {{axes}})({{state}}{{captured}})", 0.7),
)  # fmt: skip
