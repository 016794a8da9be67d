"""What numerical programs are made of: distances, rotations, filters, signals, derivatives."""

import jax
import jax.numpy as jnp
from jax.scipy import ndimage, signal

from benchmarks.sweep.case import Family, array, positive_definite

SCIENCE = Family("science")


def _squared_distances(x):
    return ((x[:, None] - x[None]) ** 2).sum(-1)


SCIENCE.add("distances-3d", lambda x: jnp.sqrt(_squared_distances(x)), array(256, 3))
SCIENCE.add("distances-64d", _squared_distances, array(256, 64))
SCIENCE.add("radial-basis", lambda x: jnp.exp(-_squared_distances(x)), array(256, 3))
SCIENCE.add("nearest-neighbours", lambda x: jax.lax.top_k(-_squared_distances(x), 5), array(256, 3))
SCIENCE.add("hessian", jax.hessian(lambda x: (jnp.sin(x) * x.sum()).sum()), array(64))
SCIENCE.add("jacobian", lambda x, w: jax.jacrev(lambda x: jnp.tanh(w @ x))(x), array(64), array(64, 64))
SCIENCE.add("forward-derivative", lambda x: jax.jvp(lambda x: jnp.tanh(x) @ x, (x,), (x,)), array(128, 128))
SCIENCE.add("inverses-3x3", jnp.linalg.inv, positive_definite(500, 3, 3))
SCIENCE.add("scalars", lambda a, b: jnp.sin(a) * b + jnp.exp(-a * a), array(), array())
SCIENCE.add("rotate-matrices", lambda r, v: jnp.einsum("nij,nj->ni", r, v), array(1000, 3, 3), array(1000, 3))
SCIENCE.add("stft", lambda x: signal.stft(x, nperseg=256)[2], array(16_000))
SCIENCE.add("convolve-2d", lambda x, k: signal.convolve2d(x, k, mode="same"), array(128, 128), array(5, 5))


@SCIENCE.program(array(8, 8, low=-0.3, high=0.3))
def _small_chain(a):
    for _ in range(10):
        a = jnp.tanh(a @ a)
    return a


@SCIENCE.program(array(1000, 4), array(1000, 3))
def _rotate_quaternions(q, v):
    w, axis = q[:, :1], q[:, 1:]
    return v + 2 * jnp.cross(axis, jnp.cross(axis, v) + w * v)


@SCIENCE.program(array(500, 16), array(500), array(16))
def _logistic_regression(x, y, w):
    return w + jnp.linalg.solve(x.T @ (x * 0.1) + jnp.eye(16), x.T @ (y - jax.nn.sigmoid(x @ w)))


@SCIENCE.program(array(4), array(4, 4), array(4, 4))
def _kalman_predict(x, p, f):
    return f @ x, f @ p @ f.T + jnp.eye(4)


@SCIENCE.program(array(8, 4096), array(4096))
def _fourier_convolution(x, h):
    return jnp.fft.irfft(jnp.fft.rfft(x, 8192) * jnp.fft.rfft(h, 8192))


@SCIENCE.program(array(64, 64), array(2, 5000, low=0.0, high=30.0))
def _interpolate(x, c):
    return ndimage.map_coordinates(x, [c[0], c[1]], 1)
