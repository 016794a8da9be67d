"""The operators of random programs: a table of expressions, of what they are applied to, and how values grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.judges.composed import rules
from tests.judges.composed.rules import Rule


@dataclass(frozen=True)
class Operator:
    """One row of the table."""

    template: str
    rule: Rule
    of: str  # a letter for each operand: see values.KINDS
    growth: int = 0  # how much greater results may be than operands; see Value.growth
    weight: float = 1.0
    results: int | None = None
    largest: int = 1 << 18  # elements of an operand


DOMAINS = {  # what an operand is wrapped in, so that a function is defined for it and does not overflow
    "any": "{0}",
    "positive": "(jnp.abs({0}) + 0.5)",
    "unit": "(jnp.sin({0}) * 0.9)",
    "small": "(jnp.tanh({0}) * 3)",
    "not zero": "({0} + jnp.where({0} < 0, -0.7, 0.7).astype({0}.dtype))",
}


def _words(text: str) -> Iterator[tuple[str, float]]:
    """Names, and their weight: half if it stands in brackets."""
    for word in text.split():
        yield word.strip("()"), 0.3 if word.startswith("(") else 1.0


def _unary(of: str, names: str, domain: str = "any", growth: int = 0, weight: float = 1.0) -> Iterator[Operator]:
    for name, factor in _words(names):
        wrapped = f"{name}({DOMAINS[domain]})"
        yield Operator(wrapped, rules.one, of, growth, weight * factor)
        if domain != "any":  # where it is not defined, the results are NaN everywhere
            yield Operator(f"{name}({{0}})", rules.one, of, growth + 1, weight * factor / 5)


def _binary(of: str, names: str, growth: int = 0, weight: float = 1.0) -> Iterator[Operator]:
    for name, factor in _words(names):
        yield Operator(f"{name}({{0}}, {{1}})", rules.alike, of * 2, growth, weight * factor)


def _dividing(of: str, names: str) -> Iterator[Operator]:
    """Divisions, not by zero: XLA:CPU's compiler dies of a quotient of constants that is not defined."""
    for name, factor in _words(names):
        yield Operator(
            f"{name}({{0}}, jnp.where({{1}} == 0, 3, {{1}}).astype({{1}}.dtype))", rules.alike, of * 2, 0, factor
        )


def _expressions(
    rule: Rule, of: str, *templates: str, growth: int = 0, weight: float = 1.0, largest: int = 1 << 18,
    results: int | None = None,
) -> Iterator[Operator]:  # fmt: skip
    for template in templates:
        yield Operator(template, rule, of, growth, weight, results, largest)


_SMALL = 2000  # elements, for what takes cubic time

_CHAIN = "(lambda f, x: [x := f(x, k) for k in range({{count}})][-1])(lambda x, k: {step}, {{{{0}}}})"
_CHAINS = tuple(
    _CHAIN.format(step=step).format(count=count)
    for step, counts in (
        ("jnp.sin(x) + k / 8", (12, 40, 130)),
        ("jnp.clip(x * 1.5, -1, 1) + 0.01 * k", (12, 40, 130)),
        ("x * 0.75 + jnp.roll(x, 1) / 4", (3, 6, 12)),  # of 130, XLA:CPU takes minutes
    )
    for count in counts
)
ELEMENTWISE = (
    *_unary("f", "jnp.sin jnp.cos jnp.tanh jnp.abs jnp.negative jnp.arctan lax.erf jax.nn.sigmoid jnp.square jnp.sign"),
    *_unary("f", "jnp.floor jnp.round (jnp.ceil) (jnp.trunc) jax.nn.relu jax.nn.softplus jax.nn.gelu (jax.nn.silu)"),
    *_unary("f", "(jax.nn.log_sigmoid) (jax.nn.elu) (jax.nn.selu) (jax.nn.mish) (jnp.sinc) (jnp.cbrt) jnp.arcsinh"),
    *_unary("f", "(lax.erfc) (jnp.nan_to_num) (jnp.deg2rad) (jsp.special.i0e) (jsp.special.i1e) (jnp.heaviside)"),
    *_unary("f", "jnp.exp jnp.expm1 (jnp.exp2) (jnp.sinh) (jnp.cosh) (jnp.tan)", "small", growth=1),
    *_unary("f", "jnp.log jnp.log1p jnp.sqrt lax.rsqrt (jnp.log2) (jnp.log10) jnp.reciprocal", "positive"),
    *_unary("f", "(lax.lgamma) (lax.digamma) (jnp.arccosh)", "positive"),
    *_unary("f", "jnp.arcsin (jnp.arccos) (jnp.arctanh) (lax.erf_inv)", "unit"),
    *_unary("c", "jnp.exp jnp.log jnp.sqrt jnp.sin jnp.tanh jnp.abs jnp.conj jnp.real jnp.imag jnp.angle jnp.square"),
    *_unary("i", "jnp.abs jnp.negative jnp.sign jnp.invert lax.population_count lax.clz jnp.square"),
    *_unary("b", "jnp.logical_not"),
    *_unary("f", "jnp.isnan jnp.isfinite jnp.signbit", weight=0.3),
    *_binary("n", "jnp.add jnp.subtract", growth=1, weight=4),
    *_binary("n", "jnp.multiply", growth=2, weight=5),
    *_binary("r", "jnp.maximum jnp.minimum", weight=1.5),
    *_binary("f", "jnp.arctan2 jnp.hypot jnp.logaddexp (jnp.copysign) (jnp.fmod) (jnp.remainder) (jnp.nextafter)"),
    *_binary("r", "jnp.less jnp.greater_equal jnp.equal jnp.not_equal", weight=0.7),
    *_binary("i", "jnp.bitwise_and jnp.bitwise_or jnp.bitwise_xor (jnp.gcd)"),
    *_binary("i", "lax.shift_left lax.shift_right_logical lax.shift_right_arithmetic", weight=0.5),
    *_dividing("i", "jnp.remainder jnp.floor_divide (lax.div) (lax.rem)"),
    *_binary("b", "jnp.logical_and jnp.logical_or jnp.logical_xor"),
    *_expressions(rules.alike, "ff", "{0} / (jnp.abs({1}) + 0.5)", "jnp.power(jnp.abs({0}) + 0.5, jnp.sin({1}))"),
    *_expressions(rules.alike, "ff", "{0} / {1}", "jsp.special.xlogy({0}, jnp.abs({1}) + 0.5)", weight=0.4),
    *_expressions(rules.alike, "cc", "{0} / (jnp.abs({1}) + 0.5)", "{0} / ({1} + 2)", "lax.complex({0}.real, {1}.imag)"),
    *_expressions(rules.alike, "ff", "lax.complex({0}, {1})", weight=0.5),
    *_expressions(rules.alike, "ann", "jnp.where({0} > 0, {1}, {2})", weight=2),
    *_expressions(rules.alike, "bnn", "jnp.where({0}, {1}, {2})", weight=2),
    *_expressions(rules.alike, "rrr", "jnp.clip({0}, jnp.minimum({1}, {2}), jnp.maximum({1}, {2}))", weight=0.7),
    *_expressions(rules.one, "f", "{0} * 1.5 + 0.25", "1 - {0}", "{0} ** 2", "jnp.clip({0}, -1, 1)", growth=1),
    *_expressions(rules.one, "f", "jnp.log1p(jnp.exp(-jnp.abs({0})))", "jnp.where({0} > 0, {0}, 0)"),
    *_expressions(rules.one, "f", "jnp.exp(-jnp.abs({0}))", "jnp.log1p(jnp.abs({0}))", "jnp.log1p(jnp.abs({0}) * 300)"),
    *_expressions(rules.one, "f", *_CHAINS, weight=0.12),
    *_expressions(rules.one, "i", "{0} * 3 + 1", "{0} // 3", "{0} % 7", "jnp.clip({0}, -5, 5)"),
    *_expressions(rules.converted, "a", "{0}.astype(jnp.{dtype})", weight=2),
    *_expressions(rules.converted, "f", "jnp.floor(jnp.clip({0} * 4, -100, 100)).astype(jnp.int32)"),
)  # fmt: skip

REDUCTIONS = (
    *_expressions(rules.axis, "n", "jnp.sum({0}, axis={axis})", growth=3, weight=3),
    *_expressions(rules.axis, "f", "jnp.mean({0}, axis={axis})", "jnp.std({0}, axis={axis})", weight=2),
    *_expressions(rules.axis, "f", "jnp.var({0}, axis={axis})", growth=2),
    *_expressions(rules.axis, "r", "jnp.max({0}, axis={axis})", "jnp.min({0}, axis={axis})", weight=1.5),
    *_expressions(rules.axis, "r", "jnp.argmax({0}, axis={axis})", "jnp.argmin({0}, axis={axis})"),
    *_expressions(rules.axis, "f", "jsp.special.logsumexp({0}, axis={axis})", "jnp.linalg.norm({0}, axis={axis})"),
    *_expressions(rules.axis, "f", "jnp.prod(jnp.sin({0}) + 1, axis={axis})", "jnp.ptp({0}, axis={axis})", weight=0.5),
    *_expressions(rules.axis, "f", "jnp.median({0}, axis={axis})", "jnp.quantile({0}, 0.3, axis={axis})", weight=0.5),
    *_expressions(rules.axis, "f", "jnp.nansum({0}, axis={axis})", weight=0.5, growth=3),
    *_expressions(rules.axis, "a", "jnp.count_nonzero({0}, axis={axis})", "jnp.any({0} != 0, axis={axis})", weight=0.5),
    *_expressions(rules.axis, "b", "jnp.all({0}, axis={axis})", "jnp.any({0}, axis={axis})"),
    *_expressions(rules.axis, "f", "jax.nn.softmax({0}, axis={axis})", "jax.nn.log_softmax({0}, axis={axis})"),
    *_expressions(rules.axis, "f", "({0} - jnp.mean({0}, axis={axis}, keepdims=True)) / (jnp.std({0}, axis={axis}, keepdims=True) + 0.1)"),
    *_expressions(rules.axis, "n", "jnp.cumsum({0}, axis={axis})", growth=3),
    *_expressions(rules.axis, "f", "lax.cumlogsumexp({0}, axis={axis})", "jnp.cumprod(jnp.cos({0}), axis={axis})"),
    *_expressions(rules.axis, "r", "lax.cummax({0}, axis={axis})", "lax.cummin({0}, axis={axis}, reverse=True)"),
    *_expressions(rules.axis, "f", "lax.associative_scan(lambda a, b: a * 0.5 + b, {0}, axis={axis})", weight=0.4),
    *_expressions(rules.axis, "r", "jnp.diff({0}, axis={axis})"),
    *_expressions(rules.axis, "f", "jnp.gradient({0}, axis={axis})", "jnp.trapezoid({0}, axis={axis})", weight=0.5),
)  # fmt: skip

MOVEMENT = (
    *_expressions(rules.one, "a", "{0}.T", "jnp.ravel({0})", "{0}.reshape(-1)", "{0}[None]", "{0}[..., None]"),
    *_expressions(rules.one, "a", "jnp.zeros_like({0})", "jnp.ones_like({0})", "jnp.full_like({0}, 2)", weight=0.5),
    *_expressions(rules.one, "n", "jnp.full_like({0}, jnp.sum({0}))", "jnp.full_like({0}, {0}[(0,) * {0}.ndim])", growth=2),
    *_expressions(rules.axis, "a", "jnp.flip({0}, axis={axis})", "jnp.roll({0}, 1, axis={axis})"),
    *_expressions(rules.axis, "a", "jnp.moveaxis({0}, {axis}, 0)", "jnp.swapaxes({0}, {axis}, -1)", weight=1.5),
    *_expressions(rules.axis, "a", "jnp.repeat({0}, 2, axis={axis})", "jnp.concatenate([{0}, {0}], axis={axis})"),
    *_expressions(rules.axis, "a", "lax.index_in_dim({0}, -1, axis={axis})", "jnp.expand_dims({0}, {axis})"),
    *_expressions(rules.permuted, "a", "jnp.transpose({0}, {permutation})", weight=1.5),
    *_expressions(rules.reshaped, "a", "{0}.reshape({shape})", weight=1.5),
    *_expressions(rules.sliced, "a", "{0}[{slices}]", weight=3),
    *_expressions(rules.sliced, "n", "{0}.at[{slices}].set(1)", "{0}.at[{slices}].add(2)", weight=1.5),
    *_expressions(rules.sliced, "f", "{0}.at[{slices}].multiply(0.5)", "{0}.at[{slices}].max(0.25)", weight=0.6),
    *_expressions(rules.padded, "n", "jnp.pad({0}, {widths})", "jnp.pad({0}, {widths}, mode='edge')"),
    *_expressions(rules.padded, "n", "jnp.pad({0}, {widths}, mode='wrap')", weight=0.3),
    *_expressions(rules.joined, "aa", "jnp.concatenate([{0}, {1}], axis={axis})", weight=3),
    *_expressions(rules.alike, "aa", "jnp.stack([{0}, {1}])", "jnp.stack([{0}, {1}], axis=-1)", weight=1.5),
    *_expressions(rules.broadcast, "a", "jnp.broadcast_to({0}, {shape})", weight=1.5),
    *_expressions(rules.one, "a", "jnp.tile({0}, 2)", weight=0.5),
    *_expressions(rules.matrix, "n", "jnp.tril({0})", "jnp.triu({0}, 1)", "jnp.diagonal({0})", "jnp.rot90({0})"),
    *_expressions(rules.vector, "n", "jnp.diag({0})", weight=0.5, largest=100),
    *_expressions(rules.constant, "", "jnp.arange({n}) * 0.5", "jnp.linspace(-1, 1, {n})", "jnp.eye({n})", weight=0.4),
    *_expressions(rules.constant, "", "jnp.full(({n}, {m}), 0.75)", "jnp.zeros(({n},))", "jnp.arange({n})", weight=0.4),
)  # fmt: skip

INDEXING = (
    *_expressions(rules.axis, "r", "jnp.sort({0}, axis={axis})", weight=2),
    *_expressions(rules.axis, "r", "jnp.argsort({0}, axis={axis})", "jnp.sort({0}, axis={axis}, descending=True)"),
    *_expressions(rules.alike, "ra", "lax.sort(({0}, {1}), num_keys=1)", results=2),
    *_expressions(rules.alike, "rr", "lax.sort(({0}, {1}), num_keys=2)", results=2, weight=0.5),
    *_expressions(rules.axis, "r", "lax.top_k({0}, 1)", results=2, weight=0.5),
    *_expressions(rules.indexed, "ai", "jnp.take({0}, jnp.abs({1}) % {n}, axis={axis})", weight=2, largest=5000),
    *_expressions(rules.indexed, "ai", "jnp.take({0}, {1}, axis={axis}, mode='{mode}')", largest=5000),
    *_expressions(rules.indexed_vector, "ni", "{0}.at[{1} % {n}].add(1)", "{0}.at[{1} % {n}].set(2)", largest=5000),
    *_expressions(rules.indexed_vector, "ni", "{0}.at[{1}].max(1)", "{0}.at[{1} % {n}].get()", largest=5000),
    *_expressions(rules.indexed_vector, "fi", "jax.ops.segment_sum({0}[:{1}.shape[0]], {1}[:{0}.shape[0]] % 4, 4)", growth=2),
    *_expressions(rules.indexed_vector, "ai", "lax.dynamic_slice_in_dim({0}, {1}[0], {half})", weight=1.5),
    *_expressions(rules.indexed_vector, "ai", "lax.dynamic_update_slice_in_dim({0}, {0}[:{half}], {1}[-1], 0)", weight=1.5),
    *_expressions(rules.indexed_vector, "ai", "lax.dynamic_index_in_dim({0}, {1}[0], 0, keepdims=False)"),
    *_expressions(rules.alike, "rr", "jnp.take_along_axis({0}, jnp.argsort({1}, axis=-1), axis=-1)", weight=0.7),
    *_expressions(rules.vector, "r", "jnp.searchsorted(jnp.sort({0}), {0})", "jnp.digitize({0}, jnp.sort({0}[:3]))", largest=5000),
    *_expressions(rules.vector, "r", "jnp.bincount(jnp.clip({0}, 0, 5).astype(int), length=6)", "jnp.histogram({0}, 4, (-2, 2))[0]"),
    *_expressions(rules.vector, "f", "jnp.interp({0}, jnp.linspace(-2, 2, 5), jnp.linspace(-2, 2, 5) ** 2)", weight=0.6),
    *_expressions(rules.vector, "r", "jnp.unique({0}, size=4)", "jnp.nonzero({0} > 0, size=3)[0]", weight=0.5),
    *_expressions(rules.one, "i", "jax.nn.one_hot({0} % 5, 5)", weight=0.7),
)  # fmt: skip

PRODUCTS = (
    *_expressions(rules.matrices, "nn", "{0} @ {1}", growth=4, weight=3, largest=70_000),
    *_expressions(rules.matrix, "n", "{0} @ {0}.T", "{0}.T @ {0}", growth=4, largest=_SMALL),
    *_expressions(rules.matrix, "n", "jnp.einsum('ij,kj->ik', {0}, {0})", growth=4, largest=_SMALL),
    *_expressions(rules.vector, "n", "jnp.outer({0}, {0})", growth=2, largest=100),
    *_expressions(rules.alike, "nn", "jnp.vdot({0}, {1})", "jnp.sum({0} * {1}, axis=-1)", growth=4),
    *_expressions(rules.matrix, "n", "jnp.einsum('ij->ji', {0})", "jnp.einsum('ij,j->i', {0}, {0}[0])", growth=3),
    *_expressions(rules.matrix, "n", "jnp.trace({0})", "jnp.kron({0}, jnp.ones((1, 2)))", growth=1, weight=0.5, largest=_SMALL),
    *_expressions(rules.vector, "f", "jnp.convolve({0}, {0}[:3], mode='same')", "jnp.correlate({0}, {0}[:2])", growth=3, largest=_SMALL),
    *_expressions(rules.matrix, "f", "jsp.signal.convolve2d({0}, {0}[:2, :2], mode='same')", growth=3, largest=_SMALL),
    *_expressions(rules.matrix, "f", "lax.conv_general_dilated({0}[None, None], jnp.ones((2, 1, 2, 2), {0}.dtype), (1, 1), 'SAME')[0, 0]", growth=2, largest=_SMALL),
    *_expressions(rules.matrix, "f", "lax.reduce_window({0}, 0., lax.add, (2, 2), (1, 2), 'SAME')", growth=2),
    *_expressions(rules.matrix, "f", "lax.reduce_window({0}, -jnp.inf, lax.max, (3, 1), (1, 1), 'VALID')"),
)  # fmt: skip

_SQUARE = "({0} + 3 * jnp.eye({n}, dtype={0}.dtype))"
_LIFTED = "({0} @ {0}.T.conj() + jnp.eye({n}, dtype={0}.dtype))"
LINEAR_ALGEBRA = (
    *_expressions(rules.matrix, "w", "jnp.linalg.svd({0}, compute_uv=False)", "jnp.linalg.svd({0} * 2, compute_uv=False)", largest=_SMALL),
    *_expressions(rules.matrix, "w", "(lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd({0}, full_matrices=False))", weight=2, largest=_SMALL),
    *_expressions(rules.matrix, "w", "(lambda q, r: q @ r)(*jnp.linalg.qr({0}))", "jnp.linalg.pinv({0})", largest=_SMALL),
    *_expressions(rules.matrix, "w", "jnp.abs(jnp.linalg.qr({0}, mode='r'))", "jnp.linalg.norm({0}, 2)", largest=_SMALL),
    *_expressions(rules.matrix, "w", "jnp.linalg.norm({0}, 'nuc')", "jnp.linalg.matrix_rank({0})", largest=_SMALL),
    *_expressions(rules.matrix, "w", "jnp.linalg.lstsq({0}, {0}[:, 0])[0]", "jnp.log(jnp.linalg.cond({0}))", largest=_SMALL),
    *_expressions(rules.square, "w", f"jnp.linalg.inv({_SQUARE})", f"jnp.linalg.det({_SQUARE})", growth=2, largest=_SMALL),
    *_expressions(rules.square, "w", f"jnp.linalg.solve({_SQUARE}, {{0}})", f"jnp.linalg.slogdet({_SQUARE})[1]", largest=_SMALL),
    *_expressions(rules.square, "w", f"jnp.linalg.cholesky({_LIFTED})", f"jnp.linalg.eigvalsh({_LIFTED})", largest=_SMALL),
    *_expressions(rules.square, "w", "(lambda w, v: (v * w) @ v.T.conj())(*jnp.linalg.eigh({0} + {0}.T.conj()))", weight=2, largest=_SMALL),
    *_expressions(rules.square, "w", f"jsp.linalg.solve_triangular({_SQUARE}, {{0}}, lower=True)", largest=_SMALL),
    *_expressions(rules.square, "w", f"jsp.linalg.cho_solve((jnp.linalg.cholesky({_LIFTED}), True), {{0}})", largest=_SMALL),
    *_expressions(rules.square, "w", f"(lambda p, l, u: p @ l @ u)(*jsp.linalg.lu({_SQUARE}))", "jsp.linalg.expm({0} / 8)", largest=400),
    *_expressions(rules.square, "w", "jnp.linalg.matrix_power({0} / 4, 3)", "jnp.sort(jnp.abs(jnp.linalg.eigvals({0})))", weight=0.5, largest=400),
    *_expressions(rules.vector, "v", "jnp.polyval(jnp.polyfit(jnp.arange({n}) / {n}, {0}, 2), 0.3)", weight=0.6, largest=100),
    *_expressions(rules.axis, "w", "jnp.fft.fft({0}, axis={axis}).real", "jnp.abs(jnp.fft.fft({0}, axis={axis}))", growth=3),
    *_expressions(rules.axis, "w", "jnp.fft.ifft({0}, axis={axis})", growth=1),
    *_expressions(rules.axis, "v", "jnp.fft.irfft(jnp.fft.rfft({0}, axis={axis}), axis={axis})", "jnp.fft.rfft({0}, axis={axis}).imag", growth=2),
    *_expressions(rules.matrix, "w", "jnp.fft.fft2({0}).real", "jnp.fft.fftshift({0})", growth=4),
)  # fmt: skip

_KEY = "jax.random.wrap_key_data({0})"
RANDOM = (
    *_expressions(rules.constant, "k", f"jax.random.normal({_KEY}, ({{n}}, {{m}}))", f"jax.random.uniform({_KEY}, ({{n}},))", weight=1.5),
    *_expressions(rules.constant, "k", f"jax.random.randint({_KEY}, ({{n}},), -9, 9)", f"jax.random.bernoulli({_KEY}, 0.4, ({{n}},))"),
    *_expressions(rules.constant, "k", f"jax.random.permutation({_KEY}, {{n}})", f"jax.random.bits({_KEY}, ({{n}},))", weight=0.5),
    *_expressions(rules.constant, "k", f"jax.random.exponential({_KEY}, ({{n}},))", f"jax.random.gumbel({_KEY}, ({{n}},))", weight=0.5),
    *_expressions(rules.constant, "k", f"jax.random.key_data(jax.random.fold_in({_KEY}, {{n}}))"),
    *_expressions(rules.constant, "k", f"jax.random.key_data(jax.random.split({_KEY}, 2))", results=2, weight=1.5),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    *ELEMENTWISE, *REDUCTIONS, *MOVEMENT, *INDEXING, *PRODUCTS, *LINEAR_ALGEBRA, *RANDOM
)  # fmt: skip
TAMING: dict[str, tuple[str, ...]] = {  # what brings grown values back to moderate ones, by kind
    "f": ("jnp.tanh({0})", "{0} / (1 + jnp.abs({0}))", "jnp.sin({0})", "jnp.clip({0}, -2, 2)", "jnp.arctan({0})"),
    "c": ("{0} / (1 + jnp.abs({0}))",),
    "i": ("{0} % 10", "jnp.clip({0}, -9, 9)"),
}
