"""JAX programs whose dispatches are native code's alone, run in a process of their own: `native_programs.py NAME`."""

import gc
import mmap
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from xloom import custom_call
from xloom.calls.sanitizer import sanitize
from xloom.pjrt.capi import api, entry_points, handles
from xloom.trace import trace

entered = Counter()
_entry = entry_points._entry


def _counted(name):
    function = _entry(name)

    def call(address):
        entered[name] += 1
        return function(address)

    return call


entry_points._entry = _counted  # before JAX looks for its platforms
add = jax.jit(lambda x: x + 1)
give = jax.jit(lambda x: x + 1, donate_argnums=0)


def same(found, wanted):
    np.testing.assert_array_equal(np.asarray(found), wanted)


def no_python():
    source, x = np.arange(8, dtype=np.float32), jnp.ones(8)
    state = [jnp.ones(8)]

    def donate():
        state[0] = give(state[0])

    works = {
        "dispatch": lambda: add(x),
        "donate": donate,
        "wait": lambda: add(x).block_until_ready(),
        "read": lambda: np.asarray(add(x)),
        "scalar": lambda: float(add(1.0)),
        "put": lambda: jax.device_put(source).block_until_ready(),
        "delete": lambda: add(x).delete(),
    }
    for name, work in works.items():
        work()
        gc.collect()
        entered.clear()
        for _ in range(3):
            work()
        assert not entered, (name, entered)


def lapack():
    """Calls of LAPACK's routines, the sanitizer, and one whose handler refuses."""
    factor = jax.jit(jnp.linalg.cholesky)
    x = jnp.eye(8) * 4
    for _ in range(2):
        same(factor(x), np.eye(8) * 2)
    entered.clear()
    same(factor(x), np.eye(8) * 2)
    assert not entered, entered
    with sanitize():
        same(factor(x), np.eye(8) * 2)
    assert entered["PJRT_LoadedExecutable_Execute"], entered
    result = jax.ShapeDtypeStruct((8, 8), "float32"), jax.ShapeDtypeStruct((), "int32")
    refused = jax.jit(lambda x: jax.ffi.ffi_call("lapack_spotrf_ffi", result)(x))  # does not say which triangle
    for _ in range(3):
        try:
            jax.block_until_ready(refused(x))
        except (jax.errors.JaxRuntimeError, ValueError) as error:  # from its results, or from the call
            assert "lapack_spotrf_ffi' failed" in str(error), error
        else:
            raise AssertionError("not refused")
    same(factor(add(x)), np.asarray(jnp.linalg.cholesky(np.eye(8, dtype="float32") * 4 + 1)))


def views_outlive_arrays():
    for take in (lambda x: x.delete(), give):
        array = add(jnp.ones(50))
        view = np.asarray(array)
        take(array)
        assert array.is_deleted() == (take is not give)  # as with jaxlib's CPU: who looks at it keeps it
        others = [jnp.full(50, float(k)) + 1 for k in range(20)]
        same(view, np.full(50, 2.0))
        del others, view
        if take is give:
            same(give(array), np.full(50, 3.0))
            assert array.is_deleted()


def given_memory():
    x = add(jnp.zeros(50))
    place = x.unsafe_buffer_pointer()
    y = give(x)
    assert y.unsafe_buffer_pointer() == place
    same(y, np.full(50, 2.0))
    z = give(y)
    same(z, np.full(50, 3.0))


def host_memory():
    source = np.arange(5000, dtype=np.float32)
    before = sys.getrefcount(source)
    array = jax.device_put(source)
    result = add(array)
    assert sys.getrefcount(source) > before
    array.delete()
    del array
    same(result, source + 1)
    for _ in range(100):  # jaxlib lets go of it when it next has Python's lock
        add(result).block_until_ready()
        gc.collect()
    assert sys.getrefcount(source) == before
    for array in (source.reshape(50, 100).T, source[::-1], source[:0], source[1:2].reshape(1, 1)[:, ::-1]):
        for _ in range(2):
            same(jax.device_put(array), array)


def both_sides():
    """Buffers of Python's in native runs, and native ones in Python's."""
    double = jax.jit(lambda x: jax.pure_callback(lambda v: 2 * v, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    x = add(double(add(jnp.ones(8))))
    same(x, np.full(8, 5.0))
    for _ in range(3):
        same(add(double(x)), np.full(8, 11.0))
    product = jax.jit(lambda x: x @ x)
    y = jnp.ones((600, 600))
    for _ in range(3):
        y = add(product(y)[:2, :2]) + product(jnp.ones((600, 600)))[:2, :2]
        same(y, np.full((2, 2), y[0, 0]))
        y = jnp.ones((600, 600)) * (y[0, 0] * 0 + 1)
    given = double(jnp.ones(8))
    same(give(given), np.full(8, 3.0))
    assert given.is_deleted()


def began_in_python():
    """Runs of cheap programs whose first arguments Python has made, or still makes: all but a few are native code's."""
    product = jax.jit(lambda x: x + 0 * (x @ x @ x @ x)[0, 0])
    keep = jax.jit(lambda x: x + 1)
    for step in (give, keep):
        for is_waited_for in (True, False):
            x = jnp.zeros((700, 700))
            jax.block_until_ready(step(product(x)))
            first = x = product(x)
            if is_waited_for:
                jax.block_until_ready(x)
            entered.clear()
            for _ in range(200):
                x = step(x)
            same(x, np.full((700, 700), 200.0))
            assert entered["PJRT_LoadedExecutable_Execute"] < (2 if is_waited_for else 100), entered
            assert first.is_deleted() == (step is give)


def state_stays():
    """A state that programs which Python runs and those that native code runs give each other lies in one place, unless
    somebody looks at it."""
    one = jnp.eye(700)
    product = jax.jit(lambda x, w: x.at[0].add((w @ w @ w @ w)[0, 0]), donate_argnums=0)
    cheap = jax.jit(lambda x: x.at[1].add(1), donate_argnums=0)
    x = product(jnp.zeros(2000), one)
    kept = Counter()
    for k in range(10):
        for number, program in enumerate((lambda x: product(x, one), cheap)):
            place = jax.block_until_ready(x).unsafe_buffer_pointer()
            time.sleep(0.01)  # the device's thread lets go of it
            if k == 5:
                view = np.asarray(x)
                before = view.copy()
                x = program(x)
                same(view, before)
                del view
            else:
                x = program(x)
                kept[number] += x.unsafe_buffer_pointer() == place
    assert min(kept[k] for k in range(2)) >= 6, kept
    same(x[:3], [11, 10, 0])


def given_back():
    """An array that Python has made, and gave to native code, which was refused, or has a use again in Python."""
    double = jax.jit(lambda x: jax.pure_callback(lambda v: 2 * v, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    pair = jax.jit(lambda x, y: (x + y, y + 1), donate_argnums=0)
    gone, x = add(jnp.ones(8)), double(jnp.ones(8))
    gone.delete()
    for _ in range(2):
        try:
            pair(x, gone)
        except (RuntimeError, ValueError) as error:
            assert "deleted" in str(error), error
        else:
            raise AssertionError("it is deleted")
        same(x, np.full(8, 2.0))
    view = np.asarray(x)
    same(double(x), np.full(8, 4.0))
    for is_used_outside in (True, False):
        total, _ = pair(x, jnp.ones(8))
        assert x.is_deleted() != is_used_outside
        same(total, np.full(8, 3.0))
        same(view, np.full(8, 2.0))
        view = view.copy()
    for use in (lambda: add(x), lambda: np.asarray(x), lambda: give(x), lambda: double(x)):
        try:
            use()
        except (RuntimeError, ValueError) as error:
            assert "delete" in str(error), error
        else:
            raise AssertionError("it is given away")


def errors():
    x = add(jnp.ones(3))
    pair = jax.jit(lambda x, y, z: (x + y, y + z), donate_argnums=(0, 2))
    for arguments, what in (
        ((x, x, jnp.ones(3)), "use a buffer that was previously donated in the same call"),
        ((jnp.ones(3), x, x), "donate a buffer which is also used by the same call"),
        ((x, jnp.ones(3), x), "donate the same buffer twice"),
    ):
        try:
            pair(*arguments)
        except jax.errors.JaxRuntimeError as error:
            assert what in str(error), error
        else:
            raise AssertionError("it is given twice")
        same(x, np.full(3, 2.0))
    x.delete()
    try:
        add(x)
    except (RuntimeError, ValueError) as error:
        assert "has been deleted" in str(error), error
    else:
        raise AssertionError("it is deleted")


def donated_at_once():
    """Many threads give the same array away: one of them does, and all others learn that it is gone."""
    in_python = jax.jit(lambda x: jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    for k in range(400):
        array, results, barrier = jnp.zeros(64), [], threading.Barrier(4)
        if k % 2:
            array = in_python(array)

        def work(array=array, results=results, barrier=barrier):
            barrier.wait()
            try:
                results.append(give(array))
            except (RuntimeError, ValueError) as error:
                assert "delete" in str(error), error

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert array.is_deleted()
        assert len(results) == 1
        same(results[0], np.ones(64))


def many_results_under_way():
    """What is asked of results that a device's thread still makes, and of those that nobody wants any more."""
    rows = [jnp.ones((700, 700)), *(jnp.full(8, float(k)) for k in range(60))]
    program = jax.jit(lambda x, *rest: (x @ x @ x @ x, *(r + 1 for r in rest)))
    program(*rows)
    entered.clear()
    for _ in range(5):
        results = program(*rows)
        jax.block_until_ready(results)
    assert entered.pop("PJRT_LoadedExecutable_Execute") == 5
    assert sum(entered.values()) < 20, entered  # large arrays, and the small ones all at once
    for k, result in enumerate(results[1:]):
        same(result, np.full(8, k + 1.0))
    before = len(handles.objects)
    for _ in range(50):
        program(*rows)
    jax.block_until_ready(program(*rows))
    assert len(handles.objects) < before + 1000  # of 3000


def failures_under_way():
    go = threading.Event()

    @custom_call("late")
    def late(out, x):
        go.wait()
        if x[0] < 0:
            raise ValueError("a number below zero")
        out[...] = x

    def call(x):
        y = jax.ffi.ffi_call("late", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        return y + 1, y + 2, y + 3

    program = jax.jit(call)
    for sign in (1, -1):
        go.clear()
        results = program(sign * jnp.ones(1 << 17))  # smaller ones run at once
        again = [add(x) for x in results]
        results[2].delete()
        del again[2]
        found = []

        def wait(x, found=found):
            try:
                found.append(float(x.block_until_ready()[0]))
            except jax.errors.JaxRuntimeError as error:
                found.append(str(error))

        threads = [threading.Thread(target=wait, args=(x,)) for x in (*results[:2], *results[:2], *again)]
        for thread in threads:
            thread.start()
        assert not any(x.is_ready() for x in results[:2])
        go.set()
        for thread in threads:
            thread.join()
        if sign > 0:
            assert sorted(found) == [2, 2, 3, 3, 3, 4], found
        else:
            assert len(found) == 6 and all("a number below zero" in text for text in found), found
    gc.collect()


def traced():
    x = jnp.ones(8)
    add(x)
    with trace() as taken:
        jax.device_put(np.ones((4, 4), np.float32)[:, ::2])
        entered.clear()
        add(x).block_until_ready()
    assert taken.spans("transfer")
    assert entered["PJRT_LoadedExecutable_Execute"] == 1
    entered.clear()
    add(x)
    assert not entered


def retires_meanwhile():
    """The end of Python, while other threads still drop what there are handles for."""
    add(jnp.ones(8))
    sys.setswitchinterval(1e-6)
    handles.objects.update((-k, k) for k in range(1, 100_000))
    is_over = threading.Event()

    def change():
        while not is_over.is_set():
            handles.drop(handles.put(None))

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        api._retire()
    finally:
        is_over.set()


def memory_is_used_again():
    x = jnp.zeros(1 << 16)
    places = set()
    for _ in range(10):
        y = add(x)
        places.add(y.block_until_ready().unsafe_buffer_pointer())
        del y
    assert len(places) == 1, places
    # arrays that live have memory of their own, of whatever size
    sizes = [1 << k for k in range(12, 21)] * 2
    alive = [add(jnp.full(n, k)) for k, n in enumerate(sizes)]
    for k, y in enumerate(alive):
        same(y, np.full(sizes[k], k + 1))


def memory_in_threads():
    def work(seed):
        random = np.random.default_rng(seed)
        held = {}
        for k in range(300):
            n = int(random.choice([1 << 14, 1 << 15, 40_000, 1 << 18]))
            held[k % 5] = seed * 1000 + k, add(jnp.full(n, seed * 1000 + k, jnp.int32))
            number, y = held[int(random.choice(list(held)))]
            assert (np.asarray(y) == number + 1).all()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def memory_goes_back():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    x = jnp.zeros(2 << 20)
    before = resident()
    arrays = [add(x).block_until_ready() for _ in range(70)]
    assert resident() > before + (69 * 8 << 20)
    del arrays
    assert resident() < before + (270 << 20)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
