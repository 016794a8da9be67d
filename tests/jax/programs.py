"""JAX programs on the platform `xloom`, run in a process of their own by test_platform.py: `programs.py NAME`."""

import os
import sys
import tempfile
import threading
import time
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify
from jax.experimental.layout import Format, Layout, with_layout_constraint

import xloom as xl
from xloom.hlo.proto.decoder import decode


def same(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-6, atol=1e-6)


def platform():
    assert jax.devices()[0].platform == "xloom"
    assert [m.kind for m in jax.devices()[0].addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    assert (jnp.arange(3) + 1).devices() == {jax.devices()[0]}


def power():
    same(jax.jit(lambda x: jnp.power(x, jnp.int32(2)))(3.0), 9.0)


def transformations():
    same(jax.grad(lambda x: jnp.sin(x) ** 2)(1.0), np.sin(2.0))
    same(jax.vmap(lambda x: x @ x)(jnp.arange(6.0).reshape(3, 2)), [1, 13, 41])
    same(jax.jacfwd(lambda x: x**3)(2.0), 12.0)


def masked_products():
    """XLA makes selections of them."""
    x = np.array([0, 2, np.inf, np.nan, 5], np.float32)
    inverse = jax.jit(lambda x: (x != 0) * (1 / x))
    same(inverse(x), [0, 0.5, 0, np.nan, 0.2])
    same(jax.jit(lambda x, mask: (x * mask.astype(x.dtype)).sum())(x, x < 4), 2)
    same(jax.grad(lambda x: jnp.where(x == 0, 0, inverse(x)).sum())(x[1:3]), [-0.25, 0])


def control_flow():
    carry, sums = lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(5.0))
    same(carry, 10.0)
    same(sums, [0, 0, 1, 3, 6])
    same(lax.while_loop(lambda x: x < 100, lambda x: x * 2, jnp.int32(1)), 128)
    same(jax.jit(lambda x: lax.cond(x > 0, lambda y: y + 1, lambda y: y - 1, x))(3), 4)


def gradients_of_few_layers():
    """The loop over them goes downwards, and stores vectors that are loaded together: LLVM failed at that."""
    weights = np.sin(np.arange(64, dtype=np.float32)).reshape(4, 4, 4)
    inputs = jnp.asarray(np.cos(np.arange(16, dtype=np.float32)).reshape(2, 2, 4), jnp.bfloat16)

    def loss(weights, x):
        return lax.scan(lambda x, each: (x @ each.astype(jnp.bfloat16), None), x, weights)[0].sum()

    def step(total, x):
        return total + jax.grad(loss)(weights, x), None

    found = jax.jit(lambda inputs: lax.scan(step, jnp.zeros_like(weights), inputs)[0])(inputs)
    each = [jax.jit(jax.grad(loss))(weights, x) for x in inputs]
    np.testing.assert_allclose(np.asarray(found), np.asarray(each[0] + each[1]), rtol=0.02, atol=0.02)


def layouts():
    x = jnp.arange(24.0).reshape(2, 3, 4)
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    chosen = Format(Layout((2, 0, 1)), device)
    put = jax.device_put(x, chosen)
    assert put.format.layout.major_to_minor == (2, 0, 1)
    same(put, x)
    f = jax.jit(lambda x: jnp.sin(x) * 2, in_shardings=chosen, out_shardings=chosen)
    for _ in range(3):
        y = f(put)
        assert y.format.layout.major_to_minor == (2, 0, 1)
        same(y, np.sin(x) * 2)
    same(jax.jit(lambda x: x + 1)(put), np.asarray(x) + 1)  # of arguments as they lie
    same(jax.device_put(put, jax.devices()[0]), x)
    same(jax.device_put(put, device.with_memory_kind("pinned_host")), x)
    donated = jax.jit(lambda x: x + 1, in_shardings=chosen, out_shardings=chosen, donate_argnums=0)
    for step in range(1, 4):
        put = donated(put)
        same(put, np.asarray(x) + step)


def open_layouts():
    x = jnp.arange(6.0).reshape(2, 3)
    auto = Format(Layout.AUTO)
    compiled = jax.jit(lambda x: (jnp.cos(x.T), x @ x.T), in_shardings=auto, out_shardings=auto).lower(x).compile()
    assert [f.layout.major_to_minor for f in compiled.output_formats] == [(1, 0), (0, 1)]
    cosine, product = compiled(x)
    same(cosine, np.cos(x.T))
    same(product, x @ x.T)
    assert "->(f32[3,2]{0,1}, f32[2,2]{1,0})" in str(compiled.as_text())
    nested = jax.jit(lambda x: jax.jit(jnp.transpose)(x) + 1, out_shardings=auto).lower(x).compile()
    assert nested.output_formats.layout.major_to_minor == (1, 0)
    constrained = jax.jit(lambda x: with_layout_constraint(x + 1, Layout((1, 0))), out_shardings=auto)
    assert constrained(x).format.layout.major_to_minor == (1, 0)
    same(constrained(x), np.asarray(x) + 1)


def random():
    for implementation in ("threefry2x32", "rbg", "unsafe_rbg"):
        key = jax.random.key(0, impl=implementation)
        numbers = jax.random.normal(key, (4000,))
        assert abs(numbers.mean()) < 0.1
        assert abs(numbers.std() - 1) < 0.1
        same(numbers, jax.random.normal(key, (4000,)))


def linalg():
    matrix = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    lower = jnp.linalg.cholesky(matrix)
    same(lower @ lower.T, matrix)
    same(jnp.linalg.solve(matrix, jnp.ones(2)), np.linalg.solve(matrix, np.ones(2)))
    same(jnp.linalg.eigh(matrix).eigenvalues, np.linalg.eigvalsh(matrix))
    same(jnp.linalg.svd(matrix, compute_uv=False), np.linalg.svd(matrix, compute_uv=False))
    q, r = jnp.linalg.qr(matrix)
    same(q @ r, matrix)


def types():
    for dtype in (jnp.bfloat16, jnp.float16, jnp.int4, jnp.uint8, jnp.bool_, jnp.complex64, jnp.float8_e4m3fn):
        array = jnp.ones((2, 3), dtype)
        assert (array + array).dtype == dtype
        assert np.array_equal(np.asarray(array), np.ones((2, 3), dtype))
    assert (jnp.zeros((0, 3)) + 1).shape == (0, 3)


def host_arrays():
    source = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for array in (source, source.T, source[::-1], source[:, ::2], source[0, 0]):
        same(jax.device_put(array) * 1, array)
    copy = jnp.array(source)
    source[:] = 0
    same(copy[0], [0, 1, 2, 3])
    same(np.asarray(copy).sum(), 66.0)


def lent_memory():
    array = jax.jit(lambda x: x + 1)(jnp.ones(100_000))
    view = np.asarray(array)
    array.delete()
    others = [jnp.full(100_000, float(k)) for k in range(20)]
    same(view, np.full(100_000, 2.0))
    donated = jnp.full(100_000, 3.0)
    view = np.asarray(donated)
    same(jax.jit(lambda x: x * 2, donate_argnums=0)(donated), np.full(100_000, 6.0))
    others += [jnp.full(100_000, float(k)) for k in range(20)]
    same(view, np.full(100_000, 3.0))


def memories():
    host = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    array = jax.device_put(jnp.arange(3.0), host)
    assert array.sharding.memory_kind == "pinned_host"
    same(jax.device_put(array, host.with_memory_kind("device")) + 1, [1, 2, 3])


def donation():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    array = jnp.ones(3)
    same(step(array), [2, 2, 2])
    assert array.is_deleted()
    raises(ValueError, "Invalid buffer passed to Execute() as argument 0 to replica 0", lambda: step(array))
    raises(RuntimeError, "Array has been deleted with shape=float32[3]", lambda: array + 1)
    both, other = jax.jit(lambda x, y: x + y, donate_argnums=0), jnp.ones(3)
    raises(jax.errors.JaxRuntimeError, "previously donated in the same call", lambda: both(other, other))


def raises(kind, text, work):
    try:
        work()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}")


def callbacks():
    seen = []
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    same(jax.jit(lambda x: jax.pure_callback(np.sin, shape, x) * 2)(jnp.ones(3)), 2 * np.sin(np.ones(3)))

    @jax.jit
    def ordered(x):
        for k in range(3):
            jax.experimental.io_callback(lambda v, k=k: seen.append((k, float(v))), None, x + k, ordered=True)
        return x

    ordered(1.0)
    jax.effects_barrier()
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0)]
    kept = []

    @jax.vmap
    def twice(x):
        jax.experimental.io_callback(kept.append, None, x)
        jax.experimental.io_callback(kept.append, None, 2 * x)

    twice(jnp.arange(3.0))
    jax.effects_barrier()
    same(kept, [0, 1, 2, 0, 2, 4])
    nested = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jnp.sin(v)), shape, x))
    same(nested(jnp.ones(3)), np.sin(np.ones(3)))


def buffer_callbacks():
    from jax.experimental.buffer_callback import ExecutionStage, buffer_callback

    def scale(context, out, x, *, by):
        assert context.stage == ExecutionStage.EXECUTE and out.writeable and not x.writeable
        np.asarray(out)[...] = by.__array__(np.float32) * np.from_dlpack(x)

    shape = jax.ShapeDtypeStruct((3,), np.float32)
    same(jax.jit(lambda x: buffer_callback(scale, shape)(x + 1, by=x[0]) * 2)(2 * jnp.ones(3)), [12, 12, 12])

    def increment(context, out, x):
        np.asarray(out)[...] += 1  # it is x's memory

    in_place = buffer_callback(increment, shape, input_output_aliases={0: 0})
    x = jnp.arange(3.0)
    same(jax.jit(lambda x: lax.fori_loop(0, 4, lambda _, x: in_place(x), x))(x), [4, 5, 6])
    same(x, [0, 1, 2])

    def stream(context, out):
        context.stream  # noqa: B018 - to ask is an error

    try:
        jax.block_until_ready(jax.jit(buffer_callback(stream, shape))())
    except jax.errors.JaxRuntimeError as error:
        assert "GPU context is not available" in str(error)
    else:
        raise AssertionError("there is no stream")


def transforms():
    from jax.extend.xla import clear_hlo_module_transformation, register_hlo_module_transformation

    def to_cosine(data):
        text = decode(data).to_text()
        return xl.parse(text.replace(" sine(", " cosine(")).to_proto() if " sine(" in text else None

    x = jnp.arange(3.0)
    register_hlo_module_transformation(to_cosine, name="to_cosine")
    same(jax.jit(jnp.sin)(x), np.cos(x))
    same(jax.jit(jnp.exp)(x), np.exp(x))
    assert clear_hlo_module_transformation("to_cosine")
    assert not clear_hlo_module_transformation("to_cosine")
    jax.clear_caches()
    same(jax.jit(jnp.sin)(x), np.sin(x))


def debug_print():
    @jax.jit
    def function(x):
        jax.debug.print("x = {x}", x=x)
        return x

    function(2.0)
    jax.effects_barrier()


def effects_alone():
    seen = []

    def remember(value):
        time.sleep(0.2)
        seen.append(float(value))

    @jax.jit
    def slow(x):
        jax.experimental.io_callback(remember, None, x)

    slow(1.0)
    jax.effects_barrier()  # waits for a run that has no results
    assert seen == [1.0]
    seen.clear()

    @jax.jit
    def times(x):
        def body(k):
            jax.debug.callback(lambda v: seen.append(int(v)), k)
            return k + 1

        return lax.while_loop(lambda k: k < x, body, 0)

    times(3)
    assert seen == [0, 1, 2]  # nobody has waited, and nobody knew how often the loop would run
    count = jax.jit(lambda x: lax.while_loop(lambda k: k < x, lambda k: k + 1, 0.0))
    slow(count(1e6))  # still under way when Python ends


def failures():
    def fail(_):
        raise ZeroDivisionError("no such number")

    broken = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct((), np.float32), x) + 1)
    slow = jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0, 0] < 40, lambda s: s + jnp.sin(s @ s) ** 2 + 1, x))
    raises(
        jax.errors.JaxRuntimeError, "no such number", lambda: broken(jnp.ones((300, 300)))
    )  # by the call, as on CPUs
    for _ in range(3):
        raises(jax.errors.JaxRuntimeError, "no such number", lambda: broken(1.0))
        late = broken(slow(jnp.ones((300, 300))))  # whose argument is not there when the call returns
        raises(jax.errors.JaxRuntimeError, "no such number", late.block_until_ready)
        raises(jax.errors.JaxRuntimeError, "no such number", lambda late=late: np.asarray(late))
    same(jnp.ones(3) + 1, [2, 2, 2])
    missing = jax.ffi.ffi_call("no_such_kernel", jax.ShapeDtypeStruct((3,), np.float32))
    raises(
        jax.errors.JaxRuntimeError,
        "NOT_FOUND: No FFI handler registered for no_such_kernel",
        lambda: jax.jit(missing)(1.0),
    )


def cost(stage: Any) -> dict[str, float]:
    return stage.cost_analysis()


def compiled():
    lowered = jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda _, y: y @ y, x)).lower(jnp.ones((4, 4)))
    program: Any = lowered.compile()
    assert cost(lowered)["flops"] >= 128 and cost(program)["flops"] >= 128
    program = jax.jit(lambda x: x @ x).lower(jnp.ones((4, 4))).compile()
    assert cost(program)["flops"] == 128
    assert program.memory_analysis().argument_size_in_bytes == 64
    assert "dot" in program.as_text()
    (layout,), _ = program.input_formats
    assert layout.layout.major_to_minor == (0, 1)
    same(program(jnp.ones((4, 4))), np.full((4, 4), 4.0))


def serialized():
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    program = jax.jit(lambda x: x * 3).lower(jnp.ones(4)).compile()
    same(deserialize_and_load(*serialize(program))(jnp.ones(4)), [3, 3, 3, 3])


def denormal_constants():
    """jaxlib compiles in threads that take denormals for zeros."""
    tiny = np.array([1e-40, -1e-45], np.float32)

    def program(x):
        return tiny, x + tiny, jnp.full(2, np.float32(1e-40))

    x = jnp.zeros(2, jnp.float32)
    wanted = (tiny, tiny, np.array([1e-40, 1e-40], np.float32))
    for run in (jax.jit(program), jax.jit(program).lower(x).compile()):
        for found, expected in zip(run(x), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), expected)


def compilation_cache():
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_raise_persistent_cache_errors", True)
        events = []
        jax.monitoring.register_event_listener(lambda event, **_: events.append(event))

        def step(x):
            return x * 3 + 1

        for _ in range(2):
            same(jax.jit(step)(jnp.ones(3)), [4, 4, 4])
            jax.clear_caches()
        assert any(name.startswith("jit_step") for name in os.listdir(folder)), os.listdir(folder)
        assert "/jax/compilation_cache/cache_hits" in events
        found = jax.jit(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), np.float32), x))(jnp.ones(3))
        same(found, np.sin(np.ones(3)))  # which cannot be kept


def platform_dependent():
    def step(x):
        return lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: x + 2)

    same(jax.jit(step)(1.0), 2.0)
    same(jax.vmap(step)(jnp.ones(2)), [2, 2])
    same(jax.jit(lambda x: lax.platform_dependent(x, xloom=lambda x: x, cpu=lambda x: x + 1))(1.0), 1.0)


def dlpack():
    lend: Any = np.from_dlpack
    for dtype in (np.float32, np.int8, np.bool_, np.complex64):
        lent = lend(jnp.ones((2, 3), dtype))
        assert lent.dtype == dtype and lent.all(), lent
    for dtype in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16):  # which NumPy has no name for
        x = jnp.arange(4).astype(dtype)
        again = jax.dlpack.from_dlpack(x)
        assert again.dtype == dtype and again.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
        same(again, [0, 1, 2, 3])
        same(jnp.from_dlpack(x, copy=True), [0, 1, 2, 3])
    raises(
        jax.errors.JaxRuntimeError, "UNIMPLEMENTED: DLPack has no name for int4", lambda: lend(jnp.ones(3, jnp.int4))
    )
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    taken = jnp.from_dlpack(source)
    assert taken.devices() == {jax.devices()[0]} and taken.unsafe_buffer_pointer() == source.ctypes.data
    assert np.array_equal(jnp.from_dlpack(source.T), source.T)
    own = jnp.from_dlpack(source, copy=True)
    source[0, 0] = 7
    assert int(own[0, 0]) == 0 and int(taken[0, 0]) == 7
    odd = np.zeros(25, np.int8)[1:].view(np.float32)
    copied = jnp.from_dlpack(odd)
    odd[0] = 1
    same(copied, np.zeros(6))
    raises(ValueError, "not aligned to", lambda: jnp.from_dlpack(odd, copy=False))


def checks():
    def positive(x):
        checkify.check(jnp.all(x > 0), "must be positive")
        return x

    error, _ = checkify.checkify(jax.jit(positive))(jnp.array([-1.0]))
    assert "must be positive" in (error.get() or "")
    error, _ = checkify.checkify(jax.jit(lambda x: x[5]), checkify.index_checks)(jnp.arange(3))
    assert "out-of-bounds" in (error.get() or "")
    with jax.debug_nans(True):
        raises(FloatingPointError, "nan", lambda: jax.jit(jnp.log)(jnp.array([-1.0])))
    with jax.debug_infs(True):
        raises(FloatingPointError, "inf", lambda: jax.jit(jnp.log)(jnp.array([0.0])))


def profile():
    x = jnp.ones((64, 64))
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            before = time.time_ns()
            with jax.profiler.trace(folder):
                jax.jit(lambda x: (x @ x).sum()).lower(x).compile()(x).block_until_ready()
            found = [os.path.join(place, name) for place, _, files in os.walk(folder) for name in files]
            (path,) = [path for path in found if path.endswith(".xplane.pb")]
            data = jax.profiler.ProfileData.from_file(path)
        (plane,) = [plane for plane in data.planes if plane.name == "/device:CUSTOM:xloom"]
        events = {event.name: event for line in plane.lines for event in line.events}
        assert "jit__lambda" in events, events
        assert {"machine code", "dot", "dot_general.0"} & events.keys(), events.keys()
        passed = time.time_ns() - before  # the file's times are counted from the profile's start
        for event in events.values():
            assert 0 <= event.start_ns <= event.start_ns + event.duration_ns <= passed, (event, passed)
        assert dict(events["jit__lambda"].stats)["category"] in ("compile", "execute")
    warm = jax.jit(lambda x: jnp.tanh(x))
    warm(x).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            warm(x).block_until_ready()
        (path,) = [os.path.join(p, n) for p, _, names in os.walk(folder) for n in names if n.endswith(".xplane.pb")]
        data = jax.profiler.ProfileData.from_file(path)
    events = [event for plane in data.planes if "xloom" in plane.name for line in plane.lines for event in line.events]
    assert "tanh" in [e.name for e in events if dict(e.stats)["category"] == "kernel"], [e.name for e in events]
    annotated()


def annotated():
    from xloom.trace import trace

    double, x = jax.jit(lambda x: x * 2), jnp.ones(8)  # an array starts the platform, and with it what it tells
    with trace() as taken:
        for k in range(2):
            with jax.profiler.StepTraceAnnotation("train", step_num=k), jax.profiler.TraceAnnotation("inside"):
                double(x).block_until_ready()
    steps = taken.spans("step")
    assert [(s["name"], s["args"]) for s in steps] == [("train 0", {"step_num": 0}), ("train 1", {"step_num": 1})]
    inside = [s for s in taken.spans("annotation") if s["name"] == "inside"]
    assert len(inside) == 2 and all(a["ts"] <= b["ts"] for a, b in zip(steps, inside, strict=True))
    with jax.profiler.StepTraceAnnotation("train", step_num=2):  # nothing is taken
        pass
    assert len(taken.spans("step")) == 2


def unknown_trips():
    """Native code runs it once its runs were short, and no longer after a long one."""
    from xloom.pjrt.capi.executables import LoadedView
    from xloom.pjrt.capi.handles import objects

    @jax.jit
    def unknown(n, x):
        return lax.fori_loop(0, n, lambda i, x: x * 0.5 + 1, x)

    x = jnp.ones(8)
    same(unknown(0, x), 1.0)
    (view,) = [o for o in objects.values() if isinstance(o, LoadedView) and o.loaded.executable.name == "jit_unknown"]
    for n in range(1, 1000):  # a machine with other work makes some of them long
        same(unknown(n, x), 2 - 0.5**n)
        if view.plan.is_native and n >= 6:
            break
    assert view.plan.is_native
    for k in range(20, 31):
        same(unknown(1 << k, x), 2.0)
        if not view.plan.is_native:
            break
    assert not view.plan.is_native
    same(unknown(3, x), 2 - 0.5**3)
    assert not view.plan.is_native


def threads():
    step, errors = jax.jit(lambda x, y: x * y + 1), []

    def work(k):
        x = jnp.full(8, float(k))
        try:
            for n in range(300):
                same(step(x, float(n)), np.full(8, k * n + 1.0))
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors, errors


def large():
    matrix = jnp.ones((700, 700))
    chain = jax.jit(lambda x: x @ x / 700)
    for _ in range(5):
        matrix = chain(matrix)  # enqueued before the one before it is done
    same(matrix, np.ones((700, 700)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
