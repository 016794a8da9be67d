"""JAX on xloom under pressure: dispatches from many threads, and interpreters that end at any moment.

    python -m tests.judges.jax_stress dispatch [--count 100000] [--threads 8]
    python -m tests.judges.jax_stress exit [--count 200]

Dispatches must neither lock up nor grow the process; each interpreter must end with exit status 0.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

WARM_UP = 0.2  # the part of the dispatches after which the process has its final size
GROWTH = 16 << 20
PATIENCE = 120  # seconds without an end of an interpreter
LATEST = 1.5  # seconds after its first line at which an interpreter ends

_BUSY = """
import random, sys, time
import jax, jax.numpy as jnp, numpy as np

def slow(v):
    time.sleep(0.01)
    return np.sin(v)

def call(x):
    return jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

small, large, back = jax.jit(lambda x: x * 2 + 1), jax.jit(lambda x: x @ x / 300), jax.jit(call)
x, y, z = jnp.ones(8), jnp.ones((300, 300)), jnp.ones((300, 300))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    x, y = small(x), large(y)
    z = back(z)
    jax.device_put(np.ones(8)).delete()
    np.asarray(x)
if random.random() < 0.5:
    sys.exit(0)
"""
"""Ends with matrix products and callbacks under way; with threads of Python's that go on, XLA's CPU aborts too."""


def dispatch(count: int, threads: int) -> int:
    """Many dispatches from many threads."""
    os.environ["JAX_PLATFORMS"] = "xloom,cpu"
    import jax
    import jax.numpy as jnp
    import numpy as np

    step, pair = jax.jit(lambda x, y: x * y + 1), jax.jit(lambda x: (x + 1, x.sum()))
    donating = jax.jit(lambda x: x + 1, donate_argnums=0)
    sizes: list[int] = []
    errors: list[BaseException] = []
    done = [0] * threads

    def work(k: int) -> None:
        x = jnp.full(64, float(k))
        state = jnp.zeros(64)
        try:
            for n in range(count // threads // 4):
                y = step(x, float(n))
                rows, total = pair(y)
                state = donating(state)
                if n % 16 == 0:
                    np.testing.assert_array_equal(np.asarray(rows), np.full(64, k * n + 2.0, np.float32))
                    assert float(total) == 64 * (k * n + 1.0), (k, n, float(total))
                    step(jax.device_put(np.full(64, n, np.float32)), 1.0).block_until_ready()
                done[k] += 4
            assert float(state[0]) == count // threads // 4
        except BaseException as error:
            errors.append(error)

    faulthandler.dump_traceback_later(PATIENCE * 5, exit=True)
    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    start = time.monotonic()
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.05)
        if sum(done) > WARM_UP * count:
            sizes.append(_resident())
    faulthandler.cancel_dump_traceback_later()
    growth = sizes[-1] - sizes[0] if sizes else 0
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{sum(done)} dispatches from {threads} threads in {seconds:.1f} s: {len(errors)} errors, ", end="")
    print(f"{growth / 2**20:+.1f} MiB after the first {100 * WARM_UP:.0f} %, {peak} MiB at most")
    for error in errors:
        print(f"  {type(error).__name__}: {error}")
    return int(bool(errors) or growth > GROWTH or not sizes)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def exits(count: int) -> int:
    """Interpreters that end while threads compute, call back and transfer."""
    environment = {**os.environ, "JAX_PLATFORMS": "xloom,cpu"}
    found: Counter[str] = Counter()
    for number in range(count):
        after = random.Random(number).uniform(0, LATEST)
        command = [sys.executable, "-c", _BUSY, str(after)]
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            found["no end"] += 1
            print(f"  no end, after {after:.3f} s")
            continue
        found[f"exit status {ended.returncode}"] += 1
        if ended.returncode:
            print(f"  exit status {ended.returncode} after {after:.3f} s: {ended.stderr[-300:]}")
    print(f"{count} interpreters: {', '.join(f'{n} {what}' for what, n in sorted(found.items()))}")
    return int(found["exit status 0"] < count)


def main() -> int:
    """0 if all went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["dispatch", "exit"])
    parser.add_argument("--count", type=int, help="dispatches (100,000), or interpreters (200)")
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    if options.what == "dispatch":
        return dispatch(options.count or 100_000, options.threads)
    return exits(options.count or 200)


if __name__ == "__main__":
    sys.exit(main())
