"""Random programs of JAX, each reproducible by its seed and number."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from tests.judges.composed.control import CONSTRUCTS, Construct
from tests.judges.composed.operators import OPERATORS, TAMING, Operator
from tests.judges.composed.program import Case, Program, Step
from tests.judges.composed.values import Value, argument, dtype_of, shapes

MOST_GROWTH = 4
_LARGEST = 1 << 19  # elements of a result
_FLOATS = {  # the types of a program: its own first, and what it converts to
    "f64": ((("float64",), ("int64", "int32"), 1.0),),
    "all": (
        (("float32", "float64"), ("int32", "uint8", "int64"), 4.0),
        (("bfloat16", "float32"), ("int32", "int8"), 2.0),
        (("float16", "float32"), ("int32", "uint16"), 1.0),
        (("float64", "float32"), ("int64", "int16"), 1.0),
        (("complex64", "float32"), ("int32",), 1.5),
        (("complex128", "float64"), ("int64",), 1.0),
        (("int32", "float32"), ("int8", "uint32", "uint8", "int64", "uint64", "int16"), 1.5),
    ),
}


@dataclass
class Made:
    """A program or a function inside of one, while it is made."""

    choose: random.Random
    floats: tuple[str, ...]
    integers: tuple[str, ...]
    values: list[Value]
    steps: list[Step]
    depth: int = 0

    def pick(self, letter: str, fits: Callable[[Value], bool] | None = None) -> Value | None:
        """A value, one of the latest rather than not: half of the time among the last six."""
        fitting = [v for v in self.values if v.is_a(letter) and (fits is None or fits(v))]
        if not fitting:
            return None
        return self.choose.choice(fitting[-6:] if self.choose.random() < 0.5 else fitting)

    def tamed(self, value: Value) -> Value:
        """The value brought back to moderate numbers."""
        if value.growth < MOST_GROWTH or value.kind() not in TAMING:
            return value
        step = Step(self.choose.choice(TAMING[value.kind()]), (value.number,))
        return (self.add(step, 0) or [value])[0]

    def add(self, step: Step, growth: int) -> list[Value] | None:
        """A step's values; nothing, if JAX does not take it."""
        operands = [self.values[o] for o in step.operands]
        found = results_of(step, operands)
        if found is None:
            return None
        new = []
        for k, (shape, dtype) in enumerate(found):
            is_key = operands[:1] and operands[0].dtype == "key" and dtype == "uint32" and shape == (2,)
            new.append(Value(len(self.values) + k, shape, "key" if is_key else dtype, growth))
        self.steps.append(step)
        self.values.extend(new)
        return new

    def operator(self, operator: Operator) -> bool:
        """Applies an operator; false, if it does not fit."""
        picked = operator.rule(self, operator.of)
        if picked is None:
            return False
        operands, parameters = picked
        if any(v.size > operator.largest for v in operands):
            return False
        if operator.growth:
            operands = [self.tamed(v) for v in operands]
        template = re.sub(r"\{([a-z]+)\}", lambda hole: str(parameters[hole[1]]), operator.template)
        growth = max((v.growth for v in operands), default=0) + operator.growth
        return self.add(Step(template, tuple(v.number for v in operands), operator.results), growth) is not None

    def twin(self) -> None:
        """Some of the latest steps again, on other values of the same shapes and types: code that may be shared."""
        length = self.choose.randint(1, min(5, len(self.steps)))
        first = self.choose.randrange(max(0, len(self.steps) - 12), len(self.steps) - length + 1)
        start = len(self.values) - sum(s.count for s in self.steps[first:])
        new: dict[int, int] = {}
        for step in self.steps[first : first + length]:
            operands = []
            for o in step.operands:
                if o not in new and o < start:
                    value = self.values[o]
                    new[o] = (
                        self.pick("a", lambda v, x=value: (v.shape, v.dtype) == (x.shape, x.dtype)) or value
                    ).number
                operands.append(new[o])
            added = self.add(replace(step, operands=tuple(operands)), MOST_GROWTH)
            if added is None:
                return
            for k, value in enumerate(added):
                new[start + k] = value.number
            start += step.count

    def grow(self, count: int, operators: Sequence[Operator], constructs: Sequence[Construct]) -> None:
        """Adds about so many steps."""
        until = len(self.steps) + count
        for _ in range(count * 4):
            if len(self.steps) >= until:
                break
            if constructs and self.choose.random() < 0.12:
                construct = self.choose.choices(constructs, [c.weight for c in constructs])[0]
                made = construct.make(self, construct)
                if made is not None:
                    self.add(made, 2)
            elif self.steps and self.choose.random() < 0.04:
                self.twin()
            else:
                self.operator(self.choose.choices(operators, [o.weight for o in operators])[0])

    def inside(self, values: Sequence[Value]) -> Made:
        """A function of these values, still empty."""
        parameters = [Value(k, v.shape, v.dtype, v.growth) for k, v in enumerate(values)]
        return Made(self.choose, self.floats, self.integers, parameters, [], self.depth + 1)

    def body(self, count: int) -> None:
        """Fills the function."""
        self.grow(count, OPERATORS, CONSTRUCTS if self.depth < 2 else ())

    def program(self, results: Sequence[Value]) -> Program:
        """What was made."""
        parameters = len(self.values) - sum(s.count for s in self.steps)
        return Program(parameters, tuple(self.steps), tuple(v.number for v in results)).without_dead_steps()


def results_of(step: Step, operands: Sequence[Value]) -> list[tuple[tuple[int, ...], str]] | None:
    """Shapes and types of a step's values; nothing, if JAX does not take it or it is too large."""
    count = len(operands)
    numbers = tuple(range(count))
    alone = Program(
        count,
        (Step(step.template, numbers, step.results, step.bodies),),
        tuple(range(count, count + step.count)),
    )
    types = [np.dtype("uint32") if v.dtype == "key" else dtype_of(v.dtype) for v in operands]
    arguments = [jax.ShapeDtypeStruct(v.shape, t) for v, t in zip(operands, types, strict=True)]
    try:
        found = jax.eval_shape(alone.function(), *arguments)
    except Exception:  # of every kind: what JAX does not take is no step
        return None
    if any(int(np.prod(f.shape)) > _LARGEST or len(f.shape) > 5 for f in found):
        return None
    return [(tuple(f.shape), f.dtype.name) for f in found]


def generate(seed: int, number: int, types: str = "f64") -> Case:
    """The program of that number."""
    choose = random.Random(f"{seed}:{number}:{types}")
    families = _FLOATS[types]
    floats, integers, _ = choose.choices(families, [f[2] for f in families])[0]
    own = floats[0]
    reals = tuple(f for f in floats if not f.startswith(("complex", "int")))
    forms = shapes(choose)
    chosen = [(choose.choice(forms), own) for _ in range(choose.randint(1, 3))]
    if choose.random() < 0.6:
        chosen.append((choose.choice([f for f in forms if len(f) == 1] or forms), choose.choice(integers)))
    if choose.random() < 0.15:
        chosen.append((choose.choice(forms), "bool"))
    if choose.random() < 0.25:
        chosen.append(((2,), "key"))
    values = [Value(k, shape, dtype) for k, (shape, dtype) in enumerate(chosen)]
    made = Made(choose, reals, integers, values, [])
    made.body(int(5 * 12 ** (choose.random() ** 1.5)))
    # the last values, that nobody else reads, and some that are read
    read = {o for s in made.steps for o in s.operands}
    last = [v for v in made.values[len(chosen) :] if v.number not in read][-6:]
    others = [v for v in made.values[len(chosen) :] if v.number in read]
    results = last + choose.sample(others, min(len(others), choose.randint(0, 4)))
    if choose.random() < 0.1:
        results.append(made.values[choose.randrange(len(chosen))])
    choose.shuffle(results)
    arguments = tuple(argument(choose, shape, dtype) for shape, dtype in chosen)
    donated = tuple(k for k in range(len(chosen)) if choose.random() < 0.3) if choose.random() < 0.4 else ()
    return Case(made.program(results), arguments, donated)
