"""Each operation of JAX's API inside a program: on computed values, with several readers, in a loop, mapped, derived."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.sweep.case import Case as SweepCase
from benchmarks.sweep.families import CASES
from tests.judges.composed.program import Case, Program, Step

_LARGEST = 1 << 18  # elements of the arguments
_SMALLER: tuple[Callable[[int], int], ...] = (  # sizes in place of a case's own; the first that its function takes
    lambda n: n if n < 20 else 3 + n % 11,
    lambda n: n if n < 20 else max(n // 32, 2),
    lambda n: n if n < 20 else max(n // 8, 2),
    lambda n: n,
)
_UP_TO_PHASE = ("svd", "eig", "qr", "schur", "hessenberg")  # whose vectors are unique but for a factor
_COMPUTED = {  # what makes a computed value of an argument, and leaves it where the function is defined
    "f": "{} * 0.9375",
    "c": "{} * 0.9375",
    "i": "jnp.where({0} == 77, 3, {0}).astype({0}.dtype)",
    "u": "jnp.where({0} == 77, 3, {0}).astype({0}.dtype)",
    "b": "jnp.logical_not(jnp.flip({}))",
}


@cache
def functions() -> dict[str, Callable[..., list[Any]]]:
    """The functions of the sweep by their names, with flat results."""
    return {case.name: _flat(case) for case in CASES}


def _flat(case: SweepCase) -> Callable[..., list[Any]]:
    up_to_phase = case.family == "linalg" and any(word in case.name for word in _UP_TO_PHASE)

    def flat(*leaves: Any) -> list[Any]:
        results = [r for r in case.flat(*leaves) if hasattr(r, "dtype")]
        results = [jax.random.key_data(r) if jnp.issubdtype(r.dtype, jax.dtypes.prng_key) else r for r in results]
        return [jnp.abs(r) for r in results] if up_to_phase else results

    return flat


@cache
def _traced(number: int) -> str:
    """What the function does to its smaller arguments, as text."""
    shapes = _shapes(CASES[number])
    if shapes is None:
        return ""
    return str(jax.make_jaxpr(functions()[CASES[number].name])(*shapes))


def _shapes(case: SweepCase) -> list[jax.ShapeDtypeStruct] | None:
    for smaller in _SMALLER:
        shapes = [jax.ShapeDtypeStruct(tuple(map(smaller, leaf.shape)), leaf.dtype) for leaf in case.leaves]
        if sum(int(np.prod(s.shape)) for s in shapes) > _LARGEST:
            continue
        try:
            jax.eval_shape(functions()[case.name], *shapes)
        except Exception:  # of every kind: it asks for sizes of its own
            continue
        return shapes
    return None


def embedded(number: int) -> Case | None:
    """The program around that case of the sweep; nothing, if none is small enough or an earlier case is the same."""
    case = CASES[number]
    shapes = _shapes(case)
    if shapes is None or _traced(number) in {_traced(k) for k in range(max(0, number - 30), number)}:
        return None
    generator = np.random.default_rng(number)
    arguments = tuple(
        np.asarray(leaf.fill(generator, spec.shape)).astype(leaf.dtype)
        for leaf, spec in zip(case.leaves, shapes, strict=True)
    )
    kinds = ["f" if a.dtype.kind not in _COMPUTED else a.dtype.kind for a in arguments]
    count = len(arguments)
    steps = [Step(_COMPUTED[kind].replace("{}", "{0}"), (k,)) for k, kind in enumerate(kinds)]
    computed = tuple(range(count, 2 * count))
    results = _expand(steps, arguments, Step(f"sweep[{case.name!r}]({_holes(count)})", computed))
    if not results:
        return None
    returned: list[int] = []
    for result in results[:3]:  # three readers: one next to it, one across it, one of it all
        for template in ("jnp.where({0} == 0, 1, {0} * 2)", "{0}.T + 1", "jnp.sum({0})"):
            returned += _expand(steps, arguments, Step(template, (result,)))
    for template in _around(case.name, kinds):
        returned += _expand(steps, arguments, Step(template, computed))
    return Case(Program(count, tuple(steps), tuple(returned)), arguments)


def _holes(count: int, form: str = "{}") -> str:
    return ", ".join(form.format(f"{{{k}}}") for k in range(count))


def _around(name: str, kinds: list[str]) -> list[str]:
    """The function in a loop, over a batch and derived."""
    called, count = f"sweep[{name!r}]", len(kinds)
    floats = [k for k, kind in enumerate(kinds) if kind in "fc"]
    scaled = ", ".join(
        f"{{{k}}} * (1 - s[0] / 64).astype({{{k}}}.dtype)" if k in floats else f"{{{k}}}" for k in range(count)
    )
    pairs = ", ".join(f"jnp.stack([{{{k}}}, {{{k}}}{' * 0.96875' if k in floats else ''}])" for k in range(count))
    found = [
        f"jax.tree.leaves(lax.scan(lambda s, _: ((s[0] + 1, {called}({scaled})), s[1]), "
        f"(0.0, {called}({_holes(count)})), None, length=3))",
        f"jax.vmap({called})({pairs})",
    ]
    if floats:
        total = f"lambda *a: sum(jnp.sum(jnp.real(r) * 1.0) for r in {called}(*a))"
        found.append(f"jax.grad({total}, {tuple(floats)})({_holes(count)})")
    return found


def _expand(steps: list[Step], arguments: tuple[np.ndarray, ...], step: Step) -> list[int]:
    """Adds a step, one that returns several values as such; the numbers of its values, none if JAX does not take it."""
    start = len(arguments) + sum(s.count for s in steps)
    program = Program(len(arguments), (*steps, step), (start,))
    try:
        found = jax.eval_shape(program.function(), *arguments)[0]
    except Exception:  # of every kind: no derivative, no rule for a batch
        return []
    several = isinstance(found, (list, tuple))
    steps.append(Step(step.template, step.operands, len(found) if several else None))
    return list(range(start, start + steps[-1].count))
