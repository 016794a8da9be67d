"""What is done again and again: each activity is a generator that does one round at a time, and judges its results.

Each runs in a process of its own, so that what one holds is known. A round raises AssertionError for a wrong result.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import xloom as xl
from xloom.compilation_cache import cache

_LOOP = """HloModule endless
body { s = (s32[], f32[4096]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[4096] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(k, one)
  y = f32[4096] sine(x)
  ROOT r = (s32[], f32[4096]) tuple(next, y) }
condition { s = (s32[], f32[4096]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2000000000)
  ROOT p = pred[] compare(k, n), direction=LT }
ENTRY main { s = (s32[], f32[4096]) parameter(0)
  ROOT w = (s32[], f32[4096]) while(s), condition=condition, body=body }"""


def _layer(rows: int, width: int) -> str:
    """tanh(x w) and the sum of each of its rows."""
    return f"""HloModule layer
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY main {{ x = f32[{rows},{width}] parameter(0) w = f32[{width},{width}] parameter(1) zero = f32[] constant(0)
  p = f32[{rows},{width}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[{rows},{width}] tanh(p) r = f32[{rows}] reduce(t, zero), dimensions={{1}}, to_apply=sum
  ROOT out = (f32[{rows},{width}], f32[{rows}]) tuple(t, r) }}"""


def _check_layer(run: Callable[..., Any], random: np.random.Generator, rows: int, width: int) -> None:
    x, w = (random.standard_normal(shape, np.float32) for shape in ((rows, width), (width, width)))
    t, r = run(x, w)
    np.testing.assert_allclose(t, np.tanh(x @ w), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(r, t.sum(1), rtol=1e-3, atol=1e-3)


def training() -> Iterator[int]:
    """Steps of a small network of JAX: from the same weights, each round ends at the same loss, bit for bit."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[Any], x: Any, y: Any) -> Any:
        for w in weights[:-1]:
            x = jax.nn.gelu(x @ w)
        return jnp.mean((x @ weights[-1] - y) ** 2)

    @jax.jit
    def step(weights: list[Any], x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        return [w - 0.01 * g for w, g in zip(weights, gradients, strict=True)], value

    random = np.random.default_rng(0)
    first = [random.standard_normal((64, 64), np.float32) / 8 for _ in range(4)]
    batches = [[random.standard_normal((32, 64), np.float32) for _ in range(2)] for _ in range(16)]
    expected = None
    while True:
        weights: Any = [jnp.asarray(w) for w in first]
        value = None
        for x, y in batches * 10:
            weights, value = step(weights, x, y)
        found = np.asarray(value).tobytes()
        assert expected in (None, found), "the same steps end at another loss"
        expected = found
        yield 10 * len(batches)


def dispatches() -> Iterator[int]:
    """Small programs from several threads at once."""
    rows, width, count = 8, 16, 200
    run = xl.compile(xl.parse(_layer(rows, width)))

    def several(seed: int) -> int:
        random = np.random.default_rng(seed)
        for _ in range(count):
            _check_layer(run, random, rows, width)
        return count

    seed = 0
    with ThreadPoolExecutor(4) as threads:
        while True:
            yield sum(threads.map(several, range(seed, seed + 4)))
            seed += 4


def compilations() -> Iterator[int]:
    """Programs of sizes as they come, each compiled, run and dropped."""
    random = np.random.default_rng(0)
    while True:
        for _ in range(4):
            rows, width = (int(n) for n in random.integers(1, 200, 2))
            _check_layer(xl.compile(xl.parse(_layer(rows, width))), random, rows, width)
        yield 4


def cancellations() -> Iterator[int]:
    """A program without end, which SIGINT stops; the next run of another one is right."""
    endless, run = xl.compile(xl.parse(_LOOP)), xl.compile(xl.parse(_layer(8, 16)))
    state = (np.int32(0), np.ones(4096, np.float32))
    random = np.random.default_rng(0)
    while True:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()  # which may take that long itself where others have the processor
            endless(state)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("a program without end has ended")
        timer.join()
        _check_layer(run, random, 8, 16)
        yield 1


_CHILD = """
import numpy as np, xloom as xl
from tests.judges.soak.activities import _check_layer, _layer
rows, width = {rows}, {width}
_check_layer(xl.compile(xl.parse(_layer(rows, width))), np.random.default_rng(0), rows, width)
print("right")
"""


def processes() -> Iterator[int]:
    """Processes that compile, run and end; every third is killed while it works, and leaves nothing that is in the way."""
    number = 0
    while True:
        code = _CHILD.format(rows=1 + number % 50, width=1 + number * 7 % 60)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            if number % 3 == 2:
                time.sleep(0.1 * (1 + number % 10))
                process.kill()
                process.communicate()
            else:
                said, _ = process.communicate(timeout=300)
                assert (process.returncode, said) == (0, "right\n"), f"exit status {process.returncode}: {said}"
        number += 1
        yield 1


def full_disks() -> Iterator[int]:
    """Processes that can write no file longer than some bytes: results are right, and the folder stays usable."""
    number = 0
    while True:
        limit = (0, 100, 4096)[number % 3]
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
        code += _CHILD.format(rows=1 + number % 50, width=61 + number % 40)
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "XLOOM_CACHE_DIR": folder}
            for program in (code, _CHILD.format(rows=3, width=61)):
                command = [sys.executable, "-c", program]
                # its output is a pipe, which the limit is not for
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=300, check=False
                )
                assert (done.returncode, done.stdout) == (0, "right\n"), f"{limit} bytes: {done.stderr[-500:]}"
        number += 1
        yield 1


ACTIVITIES: dict[str, Callable[[], Iterator[int]]] = {
    each.__name__: each for each in (training, dispatches, compilations, cancellations, processes, full_disks)
}


def serve(name: str) -> None:
    """Does a round of an activity for each line of standard input, and says on standard output how much was done.

    Also how many bytes the process keeps in memory of what was compiled, which has a bound and is no leak.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard if soft else 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without one
    rounds = ACTIVITIES[name]()
    for _ in sys.stdin:
        begin = time.monotonic()
        try:
            answer: dict[str, Any] = {"done": next(rounds)}
        except Exception as error:  # whatever it is, it is told, and the activity begins anew
            answer = {"wrong": f"{type(error).__name__}: {error}"[:2000]}
            rounds = ACTIVITIES[name]()
        said = {**answer, "seconds": time.monotonic() - begin, "kept": cache.bytes_in_memory()}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]).name)
