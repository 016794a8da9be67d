"""Which values an operator of the table may take, and the parameters that go with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from tests.judges.composed.values import Value


class Scene(Protocol):
    """What a rule sees of a program that is being made."""

    choose: random.Random
    floats: tuple[str, ...]
    integers: tuple[str, ...]

    def pick(self, letter: str, fits: Callable[[Value], bool] | None = None) -> Value | None:
        """A value, or nothing."""
        ...


Picked = tuple[list[Value], dict[str, object]]
Rule = Callable[[Scene, str], Picked | None]


def _first(scene: Scene, of: str, fits: Callable[[Value], bool] | None = None) -> Value | None:
    return scene.pick(of[0], fits)


def one(scene: Scene, of: str) -> Picked | None:
    """Any value."""
    x = _first(scene, of)
    return None if x is None else ([x], {})


def alike(scene: Scene, of: str) -> Picked | None:
    """Values of one shape, mostly of one type; now and then of shapes that broadcast."""
    x = _first(scene, of)
    if x is None:
        return None
    values = [x]
    broadcasts = scene.choose.random() < 0.2
    for letter in of[1:]:
        last = values[-1]

        def fits(y: Value, last: Value = last, letter: str = letter) -> bool:
            shape = _broadcasts(last.shape, y.shape) if broadcasts else last.shape == y.shape
            return shape and (y.dtype == last.dtype or not last.is_a(letter))

        y = scene.pick(letter, fits)
        if y is None:
            return None
        values.append(y)
    return values, {}


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))


def axis(scene: Scene, of: str) -> Picked | None:
    """One value and an axis of it."""
    x = _first(scene, of, lambda v: len(v.shape) > 0)
    if x is None:
        return None
    return [x], {"axis": scene.choose.randrange(-1, len(x.shape))}


def converted(scene: Scene, of: str) -> Picked | None:
    """One value and a type."""
    x = _first(scene, of)
    if x is None:
        return None
    types = scene.floats + scene.integers + ("bool_",) if x.kind() != "c" else scene.floats[:1]
    return [x], {"dtype": scene.choose.choice(types)}


def vector(scene: Scene, of: str) -> Picked | None:
    """One vector."""
    x = _first(scene, of, lambda v: len(v.shape) == 1)
    return None if x is None else ([x], {"n": x.shape[0]})


def matrix(scene: Scene, of: str) -> Picked | None:
    """One matrix."""
    x = _first(scene, of, lambda v: len(v.shape) == 2)
    return None if x is None else ([x], {"n": x.shape[0], "m": x.shape[1]})


def square(scene: Scene, of: str) -> Picked | None:
    """One square matrix."""
    x = _first(scene, of, lambda v: len(v.shape) == 2 and v.shape[0] == v.shape[1])
    return None if x is None else ([x], {"n": x.shape[0]})


def matrices(scene: Scene, of: str) -> Picked | None:
    """Two values that have a product."""
    x = _first(scene, of, lambda v: 1 <= len(v.shape) <= 3)
    if x is None:
        return None
    y = scene.pick(of[1], lambda v: v.dtype == x.dtype and _has_product(x.shape, v.shape))
    return None if y is None else ([x, y], {})


def _has_product(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    if not 1 <= len(b) <= 2:
        return False
    result = 1
    for n in (*a[:-1], *(b[1:] if len(b) == 2 else ())):
        result *= n
    return a[-1] == b[0] and result * a[-1] < 1 << 22


def permuted(scene: Scene, of: str) -> Picked | None:
    """One value and an order of its axes."""
    x = _first(scene, of, lambda v: len(v.shape) > 1)
    if x is None:
        return None
    order = list(range(len(x.shape)))
    scene.choose.shuffle(order)
    return [x], {"permutation": tuple(order)}


def reshaped(scene: Scene, of: str) -> Picked | None:
    """One value and a shape of as many elements."""
    x = _first(scene, of)
    if x is None:
        return None
    dims = list(x.shape)
    if len(dims) > 1 and scene.choose.random() < 0.6:
        at = scene.choose.randrange(len(dims) - 1)
        dims[at : at + 2] = [dims[at] * dims[at + 1]]
    elif dims:
        at = scene.choose.randrange(len(dims))
        factors = [k for k in (2, 3, 4, 5, 8) if dims[at] % k == 0 and dims[at]]
        if factors:
            k = scene.choose.choice(factors)
            dims[at : at + 1] = [k, dims[at] // k]
    return [x], {"shape": tuple(dims)}


def sliced(scene: Scene, of: str) -> Picked | None:
    """One value and what is written in brackets behind it."""
    x = _first(scene, of, lambda v: len(v.shape) > 0)
    if x is None:
        return None
    parts = []
    for n in x.shape:
        how = scene.choose.randrange(8)
        if n > 0 and how == 0:
            parts.append(str(scene.choose.randrange(-n, n)))
        elif n > 1 and how == 1:
            parts.append(f"{scene.choose.randrange(n // 2 + 1)}:{scene.choose.randrange(n // 2, n + 1)}")
        else:
            parts.append((":", ":", "::2", "::-1", "1:", ":-1")[how - 2])
    return [x], {"slices": ", ".join(parts)}


def padded(scene: Scene, of: str) -> Picked | None:
    """One value and how much goes around it."""
    x = _first(scene, of, lambda v: 0 < len(v.shape) < 4)
    if x is None:
        return None
    return [x], {"widths": tuple((scene.choose.randrange(3), scene.choose.randrange(2)) for _ in x.shape)}


def joined(scene: Scene, of: str) -> Picked | None:
    """Two values that differ in one axis only."""
    x = _first(scene, of, lambda v: len(v.shape) > 0)
    if x is None:
        return None
    at = scene.choose.randrange(len(x.shape))

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:at] + shape[at + 1 :]

    y = scene.pick(
        of[1], lambda v: v.dtype == x.dtype and len(v.shape) == len(x.shape) and rest(v.shape) == rest(x.shape)
    )
    return None if y is None else ([x, y], {"axis": at})


def broadcast(scene: Scene, of: str) -> Picked | None:
    """One value and a greater shape."""
    x = _first(scene, of, lambda v: len(v.shape) < 3)
    return None if x is None else ([x], {"shape": (scene.choose.choice((1, 2, 3, 4)), *x.shape)})


def constant(scene: Scene, of: str) -> Picked | None:
    """Sizes, and a key if the operator takes one."""
    n, m = (scene.choose.choice((1, 2, 3, 4, 5, 8)) for _ in range(2))
    operands = []
    if of:
        x = _first(scene, of)
        if x is None:
            return None
        operands.append(x)
    return operands, {"n": n, "m": m}


def indexed(scene: Scene, of: str) -> Picked | None:
    """A value with an axis, and integers."""
    x = _first(scene, of, lambda v: len(v.shape) > 0 and 0 not in v.shape)
    y = scene.pick(of[1], lambda v: len(v.shape) < 3)
    if x is None or y is None:
        return None
    at = scene.choose.randrange(len(x.shape))
    return [x, y], {"axis": at, "n": _bounded(x.shape[at], y), "mode": scene.choose.choice(("clip", "fill", "wrap"))}


def indexed_vector(scene: Scene, of: str) -> Picked | None:
    """A value that is indexed along its first axis by a vector of integers."""
    x = _first(scene, of, lambda v: len(v.shape) > 0 and 0 not in v.shape)
    y = scene.pick(of[1], lambda v: len(v.shape) == 1 and 0 not in v.shape)
    if x is None or y is None:
        return None
    return [x, y], {"n": _bounded(x.shape[0], y), "half": (x.shape[0] + 1) // 2}


def _bounded(n: int, index: Value) -> int:
    """`n`, if the type of the index holds it."""
    return min(n, 127) if index.dtype.endswith("int8") else n
