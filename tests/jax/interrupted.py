"""SIGINT in a program with Python callbacks: JAX's caller hears of it, and the next program is right."""

import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

started = threading.Event()


def slow(x):
    started.set()
    time.sleep(0.01)
    return x


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have their background jobs ignore
    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    called = jax.jit(lambda x: jax.lax.fori_loop(0, 3000, lambda _, s: jax.pure_callback(slow, shape, s), x))
    other = jax.jit(lambda x: jnp.sin(x) * 2)
    x = jnp.ones(8)
    program, expected = called.lower(x).compile(), np.asarray(other(x))

    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        try:
            program(x).block_until_ready()
            time.sleep(1)
        except RuntimeError:  # what C++ made of it, just before the interrupt comes again
            time.sleep(1)
        print("went on")
    except KeyboardInterrupt:
        print("interrupted", np.array_equal(other(x), expected))
    thread.join()


main()
