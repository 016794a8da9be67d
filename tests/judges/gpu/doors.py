"""JAX and PyTorch on the GPU: a few programs of each through its door, against the same on the processor.

Unlike what is recorded, these are compiled where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.judges.child import Case, Skipped
from tests.judges.gpu.correctness import Item, client

OPERATORS = """
add cumsum softmax nn.functional.layer_norm nn.functional.gelu matmul bmm nn.functional.conv2d sort topk gather
index_add scatter_add where clamp sum mean amax argmax var std cat stack roll flip tril einsum linalg.cholesky
nn.functional.scaled_dot_product_attention nn.functional.cross_entropy nn.functional.embedding sigmoid exp
"""


def cases(item: Item) -> Iterator[Case]:
    """A case for each program; `item.source` is the door."""
    for name, run in DOORS[item.source](item):
        yield f"{item.source} {name}", run


def _jax(item: Item) -> Iterator[Case]:
    for name in _jax_functions() if find_spec("jax") else ():
        yield name, lambda name=name: _by_jax(name, item)


def _by_jax(name: str, item: Item) -> str:
    import jax

    device = _jax_device(item)
    function, arguments = _jax_functions()[name]
    with jax.default_device(jax.devices("cpu")[0]):
        wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    with jax.default_device(device):
        compiled, given = jax.jit(function), jax.device_put(arguments)
    for _ in range(item.runs):
        for got, want in zip(jax.tree.leaves(compiled(*given)), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-4, atol=2e-5)
    return ""


@lru_cache(maxsize=1)
def _jax_device(item: Item) -> Any:
    import jax

    from xloom.jax import register_backend

    register_backend("judged", lambda _: client(item))
    return jax.devices("judged")[0]


def _jax_functions() -> Mapping[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    generator = np.random.default_rng(0)
    x, w, v = (generator.standard_normal(dims).astype(np.float32) for dims in ((32, 64), (64, 48), (48,)))
    numbers = generator.integers(0, 9, 100).astype(np.int32)

    def loss(w: Any, v: Any, x: Any) -> Any:
        return (jax.nn.softmax(jax.nn.gelu(x @ w)) @ v).sum()

    return {
        "gradients": (jax.grad(loss, (0, 1)), (w, v, x)),
        "scan": (lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x), (x,)),
        "while loop": (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))[1], (x,)),
        "branches": (lambda n, x: lax.switch(n[0] % 3, [jnp.sin, jnp.cos, jnp.tanh], x), (numbers, x)),
        "random numbers": (lambda x: x + jax.random.normal(jax.random.key(0), x.shape), (x,)),
        "sort and search": (
            lambda n, x: (jnp.sort(x, 1), jnp.argsort(n), jnp.searchsorted(jnp.sort(n), n)),
            (numbers, x),
        ),
        "cumulative sums": (lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1)), (x,)),
        "scattered": (lambda n, x: jnp.zeros((9, 64)).at[n[:32]].add(x), (numbers, x)),
        "linear algebra": (lambda x: jnp.linalg.cholesky(x @ x.T + 64 * jnp.eye(32)), (x,)),
        "systems": (lambda x: jnp.linalg.solve(x @ x.T + 64 * jnp.eye(32), x), (x,)),
        "loop of unknown length": (
            lambda x: lax.while_loop(lambda s: jnp.abs(s).max() > 0.1, lambda s: jnp.where(s > 1, s - 1, s * 0.5), x),
            (x,),
        ),
        "mapped": (jax.vmap(lambda row, w: row @ w, (0, None)), (x, w)),
        "convolution": (
            lambda x: lax.conv_general_dilated(x.reshape(1, 2, 32, 32), jnp.ones((4, 2, 3, 3)), (1, 1), "SAME"),
            (x,),
        ),
    }


def _torch(item: Item) -> Iterator[Case]:
    for name in OPERATORS.split() if find_spec("torch") else ():
        yield name, lambda name=name: _by_torch(name, item)


def _by_torch(name: str, item: Item) -> str:
    from tests.judges.op_db_case import DOORS as OF_TORCH
    from tests.judges.op_db_case import judged, operators

    if name not in operators():
        raise Skipped(f"op_db has no {name}")
    _torch_device(item)
    verdict = judged(operators()[name], "f32", OF_TORCH["device"], 2)
    wrong = [f"{kind}: {verdict[kind]}" for kind in ("forward", "gradient") if verdict[kind] not in ("pass", None)]
    return "; ".join(wrong)


@lru_cache(maxsize=1)
def _torch_device(item: Item) -> None:
    import xloom.torch

    xloom.torch.use_backend(client(item))


def _custom_calls(item: Item) -> Iterator[Case]:
    yield "a function that is given a stream", lambda: _by_stream(item)


def _by_stream(item: Item) -> str:
    """Work of one's own between two kernels: a copy in the stream."""
    import xloom as xl

    if item.on == "emulator":
        raise Skipped("an emulator has no streams")
    devices = client(item)
    driver: Any = devices.compiler.gpus[0].driver  # type: ignore[attr-defined]

    @xl.custom_call("judge.copy", platform="CUDA")
    def copies(out: Any, x: Any) -> None:
        driver.call("cuMemcpyDtoDAsync_v2", out.address, x.address, x.nbytes, out.stream)

    text = (
        "ENTRY e { x = f32[4096] parameter(0) y = f32[4096] add(x, x) "
        'c = f32[4096] custom-call(y), custom_call_target="judge.copy" ROOT r = f32[4096] add(c, x) }'
    )
    x = np.arange(4096, dtype=np.float32)
    (found,) = devices.compile(xl.parse(text)).execute([devices.buffer_from_host(x)])
    np.testing.assert_array_equal(np.asarray(found), 3 * x)
    return ""


DOORS: Mapping[str, Callable[[Item], Iterator[Case]]] = {
    "jax": _jax,
    "torch": _torch,
    "custom calls": _custom_calls,
}
