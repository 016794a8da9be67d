"""Passes over the modules of xloom's own platforms, in a process of its own: JAX's default platform is one of them."""

import jax
import numpy as np

import xloom as xl
from xloom.jax import use_passes

PLATFORM = jax.default_backend()
X = np.linspace(-3, 3, 32, dtype=np.float32).reshape(4, 8)
called = []


@xl.custom_call("Twice")
def twice(out, x):
    called.append(1)
    out[...] = 2 * x


@xl.custom_call("Thrice")
def thrice(out, x):
    called.append(1)
    out[...] = 3 * x


def gelu_and_more(x):
    return jax.nn.gelu(x) + 1


function = jax.jit(gelu_and_more)
plain = np.asarray(function(X))
for platforms in ((), PLATFORM, [PLATFORM, "nowhere"]):
    called.clear()
    with use_passes("outline{pattern=gelu,target=Twice}", platforms=platforms) as used:
        assert np.allclose(function(X), 2 * X + 1) and called
        assert np.allclose(jax.jit(jax.vmap(gelu_and_more))(X), 2 * X + 1)
    assert any(name.endswith("gelu_and_more") and runs[0].changed for name, runs in used.runs)
    called.clear()
    assert np.array_equal(function(X), plain) and not called

# in order, and those inside after those outside
with use_passes("outline{pattern=gelu,target=Twice},expand,outline{pattern=gelu,target=Thrice}"):
    assert np.allclose(function(X), 3 * X + 1)
with use_passes("outline{pattern=gelu,target=Twice}"):
    with use_passes("expand{target=Twice}") as inner:
        assert np.allclose(function(X), plain, rtol=1e-5) and any(runs[0].changed for _, runs in inner.runs)
    assert np.allclose(function(X), 2 * X + 1)
with use_passes("outline{pattern=gelu,target=Absent},expand", compare=True):
    assert np.allclose(function(X), plain, rtol=1e-5)
with use_passes("outline{pattern=gelu,target=Twice}"):
    looped = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jax.nn.gelu(y), x))
    assert np.allclose(looped(X), 8 * X)
refusals: tuple[tuple[str, dict, str], ...] = (
    ("outline{pattern=gelo,target=G}", {}, "there is no pattern 'gelo'"),
    ("outlin", {}, "there is no pass 'outlin'"),
    ("dce", {"platforms": "xlooom"}, "JAX has no platform 'xlooom'"),
)
for passes, options, message in refusals:
    try:
        with use_passes(passes, **options):
            jax.jit(lambda x: x * 3)(X)
    except (xl.XloomError, jax.errors.JaxRuntimeError) as error:
        assert message in str(error), error
    else:
        raise AssertionError(passes)
assert np.array_equal(function(X), plain)
