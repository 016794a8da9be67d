"""Differential equations of a few numbers, and Markov models of a few states, step by step: small arrays in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array

SMALL_SYSTEMS = Family("small-systems")

_STEPS = 1000
_STEP = 0.01

Field = Callable[[Any], Any]
"""The derivative of a state."""


def _pendulum(s: Any) -> Any:
    return jnp.stack([s[1], -jnp.sin(s[0])])


def _double_pendulum(s: Any) -> Any:
    d = s[0] - s[1]
    mass = 3 - jnp.cos(2 * d)
    first = -29.4 * jnp.sin(s[0]) - 9.8 * jnp.sin(s[0] - 2 * s[1])
    first -= 2 * jnp.sin(d) * (s[3] ** 2 + s[2] ** 2 * jnp.cos(d))
    second = 2 * jnp.sin(d) * (2 * s[2] ** 2 + 19.6 * jnp.cos(s[0]) + s[3] ** 2 * jnp.cos(d))
    return jnp.stack([s[2], s[3], first / mass, second / mass])


def _lorenz(s: Any) -> Any:
    return jnp.stack([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])


def _fitzhugh_nagumo(s: Any) -> Any:
    return jnp.stack([s[0] - s[0] ** 3 / 3 - s[1] + 0.5, 0.08 * (s[0] + 0.7 - 0.8 * s[1])])


def _lotka_volterra(s: Any) -> Any:
    return jnp.stack([s[0] * (1.1 - 0.4 * s[1]), s[1] * (0.1 * s[0] - 0.4)])


def _epidemic(s: Any) -> Any:
    infected = 0.3 * s[0] * s[1]
    return jnp.stack([-infected, infected - 0.1 * s[1], 0.1 * s[1]])


def _kepler(s: Any) -> Any:
    return jnp.concatenate([s[2:], -s[:2] / jnp.linalg.norm(s[:2]) ** 3])


def _rotation(s: Any) -> Any:
    """Of a rigid body, Euler's equations."""
    return jnp.roll(s, 1) * jnp.roll(s, 2) * jnp.array([0.5, -1.0, 0.3], s.dtype)


def _euler(f: Field, s: Any) -> Any:
    return s + _STEP * f(s)


def _midpoint(f: Field, s: Any) -> Any:
    return s + _STEP * f(s + _STEP / 2 * f(s))


def _runge_kutta(f: Field, s: Any) -> Any:
    k1 = f(s)
    k2 = f(s + _STEP / 2 * k1)
    k3 = f(s + _STEP / 2 * k2)
    k4 = f(s + _STEP * k3)
    return s + _STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


_FIELDS = {
    "pendulum": (2, _pendulum),
    "double-pendulum": (4, _double_pendulum),
    "lorenz": (3, _lorenz),
    "fitzhugh-nagumo": (2, _fitzhugh_nagumo),
    "lotka-volterra": (2, _lotka_volterra),
    "epidemic": (3, _epidemic),
    "kepler": (4, _kepler),
    "rotation": (3, _rotation),
}
_METHODS = {"euler": _euler, "midpoint": _midpoint, "runge-kutta": _runge_kutta}


def _last(f: Field, method: Callable[[Field, Any], Any]) -> Callable[[Any], Any]:
    return lambda s: lax.fori_loop(0, _STEPS, lambda _, s: method(f, s), s)


def _path(f: Field, method: Callable[[Field, Any], Any]) -> Callable[[Any], Any]:
    return lambda s: lax.scan(lambda s, _: (method(f, s),) * 2, s, length=_STEPS)[1]


for _name, (_size, _field) in _FIELDS.items():
    for _way, _method in _METHODS.items():
        for _dtype in ("f32", "f64"):
            # chaos makes the last digit of the first step all digits of a late one
            _start = array(_size, dtype=_dtype, low=0.5, high=0.6)
            SMALL_SYSTEMS.add(f"{_name}-{_way}-{_dtype}", _last(_field, _method), _start, tolerance=1e-2)
    SMALL_SYSTEMS.add(f"{_name}-path", _path(_field, _runge_kutta), array(_size, low=0.5, high=0.6), tolerance=1e-2)


def _probabilities(emissions: Any, transitions: Any) -> Any:
    """A hidden Markov model's, by the forward algorithm."""

    def step(before: Any, emission: Any) -> Any:
        following = (before @ transitions) * emission
        return following / following.sum(), None

    return lax.scan(step, emissions[0], emissions)[0]


def _log_probabilities(emissions: Any, transitions: Any) -> Any:
    def step(before: Any, emission: Any) -> Any:
        return jax.nn.logsumexp(before[:, None] + transitions, axis=0) + emission, None

    return lax.scan(step, emissions[0], emissions)[0]


for _states in (2, 3, 4, 5, 7, 8, 12, 16):
    for _dtype in ("f32", "f64"):
        _model = (array(_STEPS, _states, dtype=_dtype, low=0.1, high=1), array(_states, _states, dtype=_dtype))
        SMALL_SYSTEMS.add(f"log-forward-{_states}-{_dtype}", _log_probabilities, *_model, tolerance=1e-3)
        _model = (_model[0], array(_states, _states, dtype=_dtype, low=0.1, high=1))
        SMALL_SYSTEMS.add(f"forward-{_states}-{_dtype}", _probabilities, *_model, tolerance=1e-3)
