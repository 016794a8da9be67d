"""What rounding alone can change: a program whose every rounded result is moved by some units in its last place.

The program's jaxpr, its transformations done, is traced again with each rounded result multiplied by numbers next to
one, which are an argument. Run with other such numbers it gives other results of which none is better than another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

PERIOD = 4099  # signs, which repeat in large arrays


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXACT = _names("""
    neg abs sign max min clamp floor ceil round copy copy_p reshape transpose slice gather pad rev squeeze select_n
    concatenate broadcast_in_dim dynamic_slice dynamic_update_slice expand_dims sort iota real imag complex conj
    reduce_max reduce_min cummax cummin argmax argmin stop_gradient optimization_barrier bitcast_convert_type
    scatter reduce_window_max split tile top_k is_finite nextafter copysign reduce_precision
""")
_SUMS = _names("""
    reduce_sum cumsum dot_general conv_general_dilated reduce_window_sum reduce_prod cumprod cumlogsumexp reduce
    scatter-add scatter-mul reduce_window select_and_scatter_add
""")
_BY_NORM = _names("""
    cholesky lu qr geqrf householder_product svd eigh eig triangular_solve fft custom_linear_solve hessenberg
    tridiagonal_solve schur tridiagonal
""")
_ONE_UNIT = _names("add sub mul div sqrt convert_element_type add_any integer_pow")
_FAR = {  # units in the last place that XLA:CPU or a good library is off, where they are many
    **dict.fromkeys(_names("log1p erf_inv erfc bessel_i0e bessel_i1e atanh acosh"), 16),
    **dict.fromkeys(
        _names(
            "lgamma digamma polygamma igamma igammac igamma_grad_a random_gamma_grad zeta regularized_incomplete_beta"
        ),
        64,
    ),
    **dict.fromkeys(_names("pow tan asinh sinh cosh"), 8),
}
_UNDERFLOWS = _names("exp exp2 mul div pow integer_pow square log1p expm1 logistic erfc")  # denormals may be flushed
_OPEN_SIGN = _names("max min clamp reduce_max reduce_min reduce_sum dot_general add_any scatter-add")


class _Moves:
    def __init__(self, signs: jax.Array, zero: jax.Array):
        self.signs, self.zero = signs, zero
        self.drawn = 0

    def _draw(self, shape: tuple[int, ...]) -> jax.Array:
        self.drawn += 1
        size = int(np.prod(shape))
        signs = jnp.roll(self.signs, self.drawn * 61)  # else those of large arrays would all be the same
        return jnp.resize(signs, (size,)).reshape(shape)

    def by_element(self, x: Any, ulps: int) -> Any:
        """Each element by its own units."""
        if not _rounds(x) or x.size == 0:
            return x
        unit = ulps * float(jnp.finfo(x.dtype).eps) / 2
        if jnp.iscomplexobj(x):  # of the products that a part is the difference of
            return x + (jnp.abs(x) * unit * (self._draw(x.shape) + 1j * self._draw(x.shape))).astype(x.dtype)
        return x * (1 + self._draw(x.shape) * unit).astype(x.dtype)

    def by_norm(self, x: Any, ulps: int) -> Any:
        """Each element by units of the greatest one."""
        if not _rounds(x) or x.size == 0:
            return x
        real = jnp.finfo(x.dtype).dtype
        unit = jnp.max(jnp.where(jnp.isfinite(x), jnp.abs(x), 0)) * (ulps * float(jnp.finfo(x.dtype).eps))
        off = self._draw(x.shape).astype(real) * unit
        return x + (off + 1j * self._draw(x.shape) * unit if jnp.iscomplexobj(x) else off).astype(x.dtype)

    def underflown(self, x: Any, operands: list[Any]) -> Any:
        """Zeros and denormals that no operand has: here and there the least normal number instead of them."""
        if not _rounds(x) or x.size == 0 or jnp.issubdtype(x.dtype, np.complexfloating):
            return x
        tiny = jnp.finfo(x.dtype).tiny
        under = jnp.abs(x) < tiny
        for operand in operands:
            under &= (operand != 0) & jnp.isfinite(operand)
        return jnp.where(under & (self._draw(x.shape) > 0), jnp.copysign(tiny, x), x)

    def sign_of_zero(self, x: Any) -> Any:
        """Zeros of the sign that the run has."""
        if not _rounds(x) or jnp.issubdtype(x.dtype, np.complexfloating):
            return x
        return jnp.where(x == 0, self.zero.astype(x.dtype), x)


def _rounds(x: Any) -> bool:
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, np.inexact)


def moved(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[..., list[jax.Array]]:
    """A function of signs, a zero and the arguments."""
    closed = jax.make_jaxpr(function)(*arguments)

    def run(signs: jax.Array, zero: jax.Array, *values: jax.Array) -> list[jax.Array]:
        return _evaluate(_Moves(signs.astype(jnp.float64), zero), closed.jaxpr, closed.consts, values)

    return run


def _evaluate(moves: _Moves, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    found.update(zip(jaxpr.constvars, consts, strict=True))
    found.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else found[atom]

    for equation in jaxpr.eqns:
        results = _apply(moves, equation, [read(a) for a in equation.invars])
        found.update(zip(equation.outvars, results, strict=True))
    return [read(a) for a in jaxpr.outvars]


def _apply(moves: _Moves, equation: Any, operands: list[Any]) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name in _STRUCTURED:
        return list(_STRUCTURED[name](moves, params, operands))
    inner = next((params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in params), None)
    if inner is not None and name not in _BY_NORM:
        return _evaluate(moves, getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands)
    if name in _SUMS:
        operands = [moves.by_element(o, 2) for o in operands]
    elif name in _BY_NORM:
        operands = [moves.by_norm(o, 4) for o in operands]
    with equation.ctx.manager:
        results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(params))
    results = list(results) if equation.primitive.multiple_results else [results]
    if name not in _EXACT:
        results = [moves.by_element(r, 1 if name in _ONE_UNIT else _FAR.get(name, 4)) for r in results]
    if name in _UNDERFLOWS:
        results = [moves.underflown(r, operands) for r in results]
    if name == "fft":
        results = [moves.by_norm(r, 1) for r in results]
    return [moves.sign_of_zero(r) for r in results] if name in _OPEN_SIGN else results


def _scan(moves: _Moves, params: Any, operands: list[Any]) -> list[Any]:
    closed, consts, carried = params["jaxpr"], params["num_consts"], params["num_carry"]

    def body(carry: Any, xs: Any) -> Any:
        results = _evaluate(moves, closed.jaxpr, closed.consts, [*operands[:consts], *carry, *xs])
        return results[:carried], results[carried:]

    start = operands[consts : consts + carried]
    options = {k: params[k] for k in ("length", "reverse", "unroll")}
    last, stacked = lax.scan(body, start, operands[consts + carried :], **options)
    return [*last, *stacked]


def _while(moves: _Moves, params: Any, operands: list[Any]) -> list[Any]:
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_test, of_body, state = operands[:first], operands[first:second], operands[second:]

    def goes_on(state: list[Any]) -> Any:
        return _evaluate(moves, test.jaxpr, test.consts, [*of_test, *state])[0]

    def step(state: list[Any]) -> list[Any]:
        new = _evaluate(moves, body.jaxpr, body.consts, [*of_body, *state])
        if not test.out_avals[0].shape:
            return new
        # a loop under vmap: the members that have ended stay as they are
        which = goes_on(state)
        return [jnp.where(lax.expand_dims(which, range(1, n.ndim)), n, s) for n, s in zip(new, state, strict=True)]

    return lax.while_loop(lambda state: jnp.any(goes_on(state)), step, state)


def _cond(moves: _Moves, params: Any, operands: list[Any]) -> list[Any]:
    def branch(closed: Any) -> Callable[..., list[Any]]:
        return lambda *values: _evaluate(moves, closed.jaxpr, closed.consts, values)

    return lax.switch(operands[0], [branch(b) for b in params["branches"]], *operands[1:])


_STRUCTURED: dict[str, Callable[[_Moves, Any, list[Any]], list[Any]]] = {"scan": _scan, "while": _while, "cond": _cond}
