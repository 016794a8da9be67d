"""Values of JAX programs: the interpreter's against XLA:CPU's."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

import xloom as xl  # noqa: E402
from xloom.stablehlo.reference import run_on_xla_cpu  # noqa: E402

RNG = np.random.default_rng(0)
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, -2.5, np.inf, -np.inf, np.nan, 1e-30, 3e30, 7.25], np.float32
)


def check(function, *arguments, rtol=2e-6, atol=1e-7, exact=False):
    """Lowers with JAX, evaluates with xloom, and compares with what XLA:CPU returns."""
    lowered = jax.jit(function).lower(*arguments)
    module = xl.parse(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
    xl.verify(module)
    ours = xl.evaluate(module, *map(np.asarray, arguments))
    theirs = jax.tree.leaves(jax.jit(function)(*arguments))
    ours = ours if isinstance(ours, tuple) else (ours,)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, map(np.asarray, theirs), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if exact or a.dtype.kind in "iub":
            assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), (a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=atol)


UNARY = [
    *("abs", "ceil", "floor", "cos", "cosh", "exp", "expm1", "log", "log1p", "logistic", "neg", "rsqrt", "sign", "sin"),
    *("sinh", "sqrt", "tan", "tanh", "asin", "acos", "asinh", "acosh", "atanh", "cbrt", "erf", "is_finite"),
]


@pytest.mark.parametrize("name", UNARY)
def test_unary_f32(name):
    x = np.concatenate([SPECIAL, RNG.standard_normal(50).astype(np.float32)])
    check(getattr(lax, name), x, rtol=3e-6, atol=1e-30)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "sin", "logistic"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64"])
def test_unary_other_types(name, dtype):
    x = RNG.standard_normal(60).astype(np.float32)
    value = (x + 1j * x[::-1]).astype(np.complex64) if dtype == "complex64" else jnp.asarray(x, dtype)
    tolerance = {"bfloat16": 1e-2, "float16": 2e-3}.get(dtype, 1e-5)
    check(getattr(lax, name), value, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("name", ["round_half_even", "round_half_away"])
def test_rounding(name):
    method = lax.RoundingMethod.TO_NEAREST_EVEN if "even" in name else lax.RoundingMethod.AWAY_FROM_ZERO
    check(lambda x: lax.round(x, method), SPECIAL, exact=True)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter"])
def test_binary_f32(name):
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    check(getattr(lax, name), x, y, rtol=3e-6, atol=1e-30)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int16])
@pytest.mark.parametrize(
    "name",
    [
        *("add", "sub", "mul", "div", "rem", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
    ],
)
def test_binary_integers_wrap_as_xla_does(name, dtype):
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, 0, 1, info.max // 2, 3, info.bits, info.bits - 1, 40 % info.max], dtype)
    edges = np.concatenate([edges, (np.zeros(2) - 1).astype(np.int64).astype(dtype)])
    x, y = (a.ravel() for a in np.meshgrid(edges, edges))
    check(getattr(lax, name), x, y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int32])
def test_integer_unary(dtype):
    x = RNG.integers(-100, 100, 40).astype(dtype)
    check(lambda x: (lax.population_count(x), lax.clz(x), lax.bitwise_not(x), lax.neg(x), lax.sign(x)), x)


@pytest.mark.parametrize(
    "target", ["int8", "uint8", "int32", "uint32", "float16", "bfloat16", "bool", "float8_e4m3fn", "float8_e5m2"]
)
def test_convert_from_f32(target):
    x = np.concatenate([SPECIAL, np.linspace(-300, 300, 41, dtype=np.float32)])
    check(lambda x: lax.convert_element_type(lax.convert_element_type(x, target), np.float32), x, exact=True)


def test_total_order_and_comparisons():
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    check(lambda x, y: (lax.eq(x, y), lax.ne(x, y), lax.lt(x, y), lax.ge(x, y)), x, y)


def test_reduce_precision():
    x = np.concatenate([SPECIAL, RNG.standard_normal(50).astype(np.float32)])
    check(lambda x: lax.reduce_precision(x, 5, 10), x, exact=True)
    check(lambda x: lax.reduce_precision(x, 8, 7), x, exact=True)


def test_bitcast():
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    check(lambda x: lax.bitcast_convert_type(x, np.uint8), x)
    check(lambda x: lax.bitcast_convert_type(x.reshape(3, 2, 2), np.float32), x)


@pytest.mark.parametrize("padding", [((1, 2, 0), (0, 0, 1)), ((-1, 0, 0), (2, -1, 2)), ((-2, -2, 1), (0, 3, 0))])
def test_pad(padding):
    check(lambda x: lax.pad(x, np.float32(7), padding), np.arange(12, dtype=np.float32).reshape(4, 3), exact=True)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_reductions(axes):
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    check(lambda x: (jnp.sum(x, axes), jnp.max(x, axes), jnp.prod(x, axes), jnp.any(x > 1, axes)), x)
    if len(axes) == 1:
        check(lambda x: (jnp.argmax(x, axes[0]), jnp.cumsum(x, axes[0])), x)


WINDOWS = [
    dict(window_dimensions=(2, 3), window_strides=(1, 2), padding=((0, 0), (1, 1))),
    dict(window_dimensions=(2, 2), window_strides=(2, 1), padding=((1, 0), (0, 2)), base_dilation=(2, 1)),
    dict(window_dimensions=(3, 2), window_strides=(1, 1), padding=((0, 1), (0, 0)), window_dilation=(2, 3)),
]


@pytest.mark.parametrize("options", WINDOWS)
def test_reduce_window(options):
    x = RNG.standard_normal((7, 9)).astype(np.float32)
    check(lambda x: lax.reduce_window(x, np.float32(0), lax.add, **options), x)
    check(lambda x: lax.reduce_window(x, -np.float32(np.inf), lax.max, **options), x, exact=True)


def test_pooling_gradient_is_select_and_scatter():
    x = RNG.standard_normal((1, 8, 8, 2)).astype(np.float32)

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()

    check(jax.grad(pool), x)


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending):
    x = np.concatenate([SPECIAL, SPECIAL]).reshape(2, -1)
    check(lambda x: -jnp.sort(-x) if descending else jnp.sort(x), x, exact=True)
    keys = RNG.integers(0, 4, 50).astype(np.int32)
    check(lambda k, v: lax.sort((k, v), num_keys=1), keys, np.arange(50, dtype=np.float32))
    check(lambda k, v: lax.sort((k, v), num_keys=2, dimension=0), keys.reshape(5, 10), keys[::-1].reshape(5, 10))
    check(lambda x: lax.top_k(x, 3), RNG.standard_normal((4, 9)).astype(np.float32))


def test_gather_and_scatter():
    x = RNG.standard_normal((6, 5)).astype(np.float32)
    i = np.array([0, 5, -1, 9, 3], np.int32)
    check(lambda x, i: x[i], x, i)
    check(lambda x, i: x.at[i].add(1.0), x, i)
    check(lambda x, i: x.at[i, 2].set(9.0, mode="drop"), x, i)
    check(lambda x, i: x.at[i].mul(2.0, mode="clip"), x, i)
    check(lambda x, i: jax.vmap(lambda r, k: r[k])(x[:5], i[:5]), x, i % 5)
    check(lambda x, i: lax.dynamic_slice(x, (i[1], i[2]), (2, 3)), x, i)
    check(lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i[1], i[2])), x, i)


DOTS = [
    (((1,), (0,)), ((), ())),
    (((2,), (1,)), ((0,), (0,))),
    (((0, 2), (2, 1)), ((1,), (0,))),
]


@pytest.mark.parametrize("dimensions", DOTS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, "bfloat16"])
def test_dot(dimensions, dtype):
    sizes = {DOTS[0]: ((3, 4), (4, 5)), DOTS[1]: ((2, 3, 4), (2, 4, 5)), DOTS[2]: ((3, 2, 4), (2, 4, 3))}[dimensions]
    a, b = (jnp.asarray(RNG.integers(-4, 5, s).astype(np.float32)).astype(dtype) for s in sizes)
    check(lambda a, b: lax.dot_general(a, b, dimensions), a, b, rtol=1e-2 if dtype == "bfloat16" else 2e-6)


@pytest.mark.parametrize(("dtype", "result"), [(np.float32, np.int32), ("bfloat16", np.int8)])
def test_dot_of_fewer_digits(dtype, result):
    """What is added up is converted, not each operand."""
    a, b = (jnp.asarray(RNG.integers(-9, 10, s) / 4).astype(dtype) for s in ((3, 4), (4, 5)))
    check(lambda a, b: lax.dot_general(a, b, DOTS[0], preferred_element_type=result), a, b)


CONVOLUTIONS = [
    dict(window_strides=(1, 1), padding="SAME"),
    dict(window_strides=(2, 1), padding=((1, 2), (0, 1)), rhs_dilation=(2, 1)),
    dict(window_strides=(1, 1), padding=((2, 2), (-1, 3)), lhs_dilation=(2, 3)),
]


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
def test_convolution(options, groups):
    features, batch = groups
    x = RNG.standard_normal((4, 6, 7, 4)).astype(np.float32)
    k = RNG.standard_normal((3, 2, 4 // features, 6)).astype(np.float32)
    check(
        lambda x, k: lax.conv_general_dilated(
            x,
            k,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=features,
            batch_group_count=batch,
            **options,
        ),
        x,
        k,
        rtol=1e-5,
        atol=1e-5,
    )


def check_hlo(text, *arguments, rtol=1e-5, atol=1e-6):
    """As `check`, of HLO text, for operators that JAX lowers to library calls."""
    module = xl.parse(text)
    xl.verify(module)
    ours = xl.evaluate(module, *arguments)
    ours = ours if isinstance(ours, tuple) else (ours,)
    for a, b in zip(ours, run_on_xla_cpu(module, arguments), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def positive_definite(dtype=np.float32):
    a = RNG.standard_normal((2, 5, 5)).astype(dtype)
    return (a @ a.transpose(0, 2, 1) + 5 * np.eye(5)).astype(dtype)


@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky(lower):
    text = f"ENTRY e {{ a = f32[2,5,5] parameter(0) ROOT c = f32[2,5,5] cholesky(a), lower={lower} }}"
    factor = xl.evaluate(xl.parse(text), positive_definite())
    triangle = np.tril(factor) if lower == "true" else np.triu(factor)
    square = triangle @ triangle.transpose(0, 2, 1) if lower == "true" else triangle.transpose(0, 2, 1) @ triangle
    check_hlo(text.replace("ROOT c", "c").replace(" }", " ROOT t = (f32[2,5,5]) tuple(c) }"), positive_definite())
    assert np.isfinite(square).all()
    assert np.isnan(xl.evaluate(xl.parse(text), -positive_definite())).all()


@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE"])
@pytest.mark.parametrize("unit", ["true", "false"])
def test_triangular_solve(left, lower, transpose, unit):
    dims = "5,3" if left == "true" else "3,5"
    check_hlo(
        f"ENTRY e {{ a = f32[2,5,5] parameter(0) b = f32[2,{dims}] parameter(1) ROOT x = triangular-solve(a, b), "
        f"left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transpose} }}",
        positive_definite() / 4,
        RNG.standard_normal((2, *map(int, dims.split(",")))).astype(np.float32),
        rtol=1e-3,
        atol=1e-3,
    )


def test_fft():
    a = RNG.standard_normal((2, 5, 6)).astype(np.float32)
    check(lambda x: jnp.fft.fft2(x), (a[0] + 1j * a[1]).astype(np.complex64), rtol=1e-4, atol=1e-5)
    check(lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x), 6)), a[0], rtol=1e-4, atol=1e-5)


BATCH_NORMS = [
    "x = f32[4,3] parameter(0) s = f32[3] parameter(1) o = f32[3] parameter(2) "
    "ROOT r = batch-norm-training(x, s, o), epsilon=0.001, feature_index=1",
    "x = f32[4,3] parameter(0) s = f32[3] parameter(1) o = f32[3] parameter(2) "
    "ROOT r = batch-norm-inference(x, s, o, s, s), epsilon=0.001, feature_index=1",
    "x = f32[4,3] parameter(0) s = f32[3] parameter(1) o = f32[3] parameter(2) "
    "ROOT r = batch-norm-grad(x, s, o, s, x), epsilon=0.001, feature_index=1",
]


@pytest.mark.parametrize("body", BATCH_NORMS)
def test_batch_norm(body):
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    scale, offset = RNG.random(3).astype(np.float32) + 0.5, RNG.standard_normal(3).astype(np.float32)
    check_hlo(f"ENTRY e {{ {body} }}", x, scale, offset, rtol=1e-4, atol=1e-5)


def test_collectives_on_one_device():
    check_hlo(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[4] parameter(0) r = f32[4] all-reduce(x), replica_groups={}, to_apply=add "
        "ROOT p = f32[4] collective-permute(r), source_target_pairs={{0,0}} }",
        np.arange(4, dtype=np.float32),
    )


@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (4, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_random_bits_are_xlas(algorithm, shape, dtype):
    with jax.enable_x64(True):
        key = RNG.integers(0, 2**63, 2, dtype=np.uint64)
        check(
            lambda k: lax.rng_bit_generator(k, shape, dtype=dtype, algorithm=getattr(lax.RandomAlgorithm, algorithm)),
            key,
        )


def test_control_flow():
    def program(n, x):
        y = lax.fori_loop(0, n, lambda i, s: s * 2 + i, x)
        z = lax.cond(n > 3, lambda v: v + 1, lambda v: v - 1, y)
        w, ys = lax.scan(lambda c, v: (c + v, c * v), z, jnp.arange(4, dtype=jnp.float32))
        return w, ys, lax.switch(n % 3, [lambda v: v, lambda v: v * 10, lambda v: -v], w)

    check(program, np.int32(5), np.float32(1.5))


def test_random_normal_of_jax():
    check(lambda k: jax.random.normal(jax.random.wrap_key_data(k), (33,)), np.array([1, 2], np.uint32), rtol=1e-5)


def test_a_transformer_block():
    def block(x, w1, w2):
        h = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        scores = jax.nn.softmax(h @ h.T / 8.0)
        return (jax.nn.gelu(scores @ h @ w1) @ w2).sum()

    x = RNG.standard_normal((6, 16)).astype(np.float32)
    w1, w2 = (RNG.standard_normal(s).astype(np.float32) * 0.1 for s in ((16, 32), (32, 16)))
    check(jax.value_and_grad(block, (0, 1, 2)), x, w1, w2, rtol=2e-4, atol=1e-5)
