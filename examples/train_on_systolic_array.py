"""A transformer block trains on the systolic array, under JAX: python examples/train_on_systolic_array.py

Each product and kernel is held against the CPU first, on the operands that the device has. Then the block is trained
on both, and the cycles of each instruction are told.
"""

import jax
import jax.numpy as jnp
import numpy as np
from systolic_array import SystolicArray

from xloom.jax import register_backend
from xloom.pjrt import Client, SimCompiler

BATCH, TIME, MODEL, HEADS, HIDDEN = 2, 12, 48, 3, 72
STEPS, RATE = 4, 0.1

compiler = SimCompiler(SystolicArray, devices=1)
client = Client(compiler)
register_backend("systolic", lambda devices: client)
register_backend("checked", lambda devices: Client.sim(SystolicArray, devices, compare="each"))


def rms_norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def block(p, x):
    h = rms_norm(x, p["attention gain"])
    q, k, v = (jnp.reshape(h @ p[name], (BATCH, TIME, HEADS, -1)) for name in ("query", "key", "value"))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * (MODEL // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((TIME, TIME), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(BATCH, TIME, MODEL) @ p["out"]
    h = rms_norm(x, p["hidden gain"])
    return x + jax.nn.gelu(h @ p["up"]) @ p["down"]


@jax.jit
def step(p, x, y):
    loss, slope = jax.value_and_grad(lambda p: jnp.mean((block(p, x) - y) ** 2))(p)
    return jax.tree.map(lambda w, d: w - RATE * d, p, slope), loss


def matrix(rng, *dims):
    return rng.standard_normal(dims, np.float32) / np.float32(np.sqrt(dims[0]))


rng = np.random.default_rng(0)
sizes = {"query": MODEL, "key": MODEL, "value": MODEL, "out": MODEL, "up": HIDDEN}
start = {name: matrix(rng, MODEL, size) for name, size in sizes.items()} | {"down": matrix(rng, HIDDEN, MODEL)}
start |= {name: np.ones(MODEL, np.float32) for name in ("attention gain", "hidden gain")}
inputs, targets = rng.standard_normal((2, BATCH, TIME, MODEL), np.float32)


def train(platform, steps):
    p, x, y = jax.device_put((start, inputs, targets), jax.devices(platform)[0])
    losses = []
    for _ in range(steps):
        p, loss = step(p, x, y)
        losses.append(float(loss))
    return jax.device_get(p), np.array(losses)


train("checked", 1)
print("each product and kernel is the CPU's, to 2 units of bfloat16")
(ours, losses), (reference, expected) = train("systolic", STEPS), train("cpu", STEPS)
print("losses", losses, "and on the CPU", expected)
assert losses[-1] < losses[0]
np.testing.assert_allclose(losses, expected, rtol=2**-8)
for name, value in reference.items():
    bound = 2**-6 * np.abs(value - start[name]).max()  # of what training has changed
    error = np.abs(ours[name] - value).max()
    print(f"{name:15} is {error / bound:4.2f} of the bound away")
    assert error <= bound

(device,) = compiler.simulators
print(device.ledger.report(24))
