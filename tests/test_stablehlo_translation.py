"""StableHLO by our own rules: the same values as by jaxlib's conversion, and where each instruction comes from."""

import re

import numpy as np
import pytest

import xloom as xl
from xloom.stablehlo import conversion
from xloom.stablehlo.translate.locations import Locations

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
ir = pytest.importorskip("jaxlib.mlir.ir")
mlir = pytest.importorskip("jax._src.interpreters.mlir")


def matrix(*dims, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def loop_that_reads_from_outside(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: y @ x + i, x)


def branches_that_read_from_outside(x):
    y = jnp.sin(x)
    return jax.lax.switch(x[0, 0].astype(int) % 3, [lambda: y, lambda: x * 2 + y, lambda: jnp.zeros_like(x)])


def loops_in_branches_in_loops(x):
    def body(i, y):
        z = y * i
        inner = lambda: jax.lax.while_loop(lambda s: s.sum() < 9, lambda s: s + jnp.abs(z) + 1, y)  # noqa: E731
        return jax.lax.cond(y[0, 0] > 0, inner, lambda: x - z)

    return jax.lax.fori_loop(0, 3, body, x)


def grow(x):
    return x[:, :1] + x[:1] + jnp.broadcast_to(x[:1, :1], x.shape), jnp.full((2, 0), 3.0)


def loops_with_columns_of_lapack(x):
    """What LAPACK gives lies by columns: as state, as what a region reads, and as a function's result."""
    solve = jax.jit(lambda a, b: jax.lax.linalg.triangular_solve(a + 9 * jnp.eye(4), b, left_side=True, lower=True))
    first = solve(x, x)
    y, z = jax.lax.fori_loop(0, 3, lambda i, s: (solve(x, s[1]) @ first, s[0]), (first, x))
    return jax.lax.cond(x[0, 0] > 0, lambda: first + y, lambda: solve(x, z)), first


def complex_functions(x):
    z = x + 1j * x.T
    return [f(z) for f in (jnp.exp, jnp.log, jnp.sin, jnp.tanh, jnp.sqrt, jnp.abs, jnp.sign, jnp.log1p)], z / (z + 1)


FUNCTIONS = {
    "elementwise": lambda x: (jnp.tanh(x) * jnp.floor(x) - jnp.where(x > 0, x, 1 / x), x.astype(jnp.bfloat16), x > 0),
    "chlo": lambda x: (jax.scipy.special.erfc(x), jax.scipy.special.gammaln(x), jnp.sinh(x), jnp.nextafter(x, x.T)),
    "complex": complex_functions,
    "layout": lambda x: (x.T, x[::2, 1:], jnp.pad(x, ((1, 2), (0, 1))), jnp.concatenate([x, x]), x[::-1]),
    "broadcasts": grow,
    "constants": lambda x: (
        x * np.arange(16, dtype=np.float32).reshape(4, 4),
        x.astype(jnp.bfloat16) + jnp.bfloat16(1.5),
    ),
    "narrow constants": lambda x: (x, np.array([1, -2, 3], "int4") + jnp.array(x[0, :3], "int4"), np.float16(2) * x),
    "complex constants": lambda x: x[0] * np.array([1 + 2j, np.inf, 3j, -1], np.complex64),
    "reductions": lambda x: (x.sum(0), x.max(), jnp.argmax(x, 1), jnp.cumsum(x, 0), jax.nn.softmax(x), jnp.any(x > 2)),
    "windows": lambda x: (
        jax.lax.reduce_window(x, -np.inf, jax.lax.max, (2, 2), (1, 2), "SAME"),
        jax.grad(lambda y: jax.lax.reduce_window(y, -np.inf, jax.lax.max, (2, 2), (2, 2), "VALID").sum())(x),
    ),
    "sorts": lambda x: (jnp.sort(x, 0), jnp.argsort(x), jax.lax.top_k(x, 2), jnp.median(x)),
    "indices": lambda x: (
        x[jnp.array([2, 0])],
        x.at[1].set(3.0),
        x.at[jnp.array([0, 0]), 1].add(x[0, 1]),
        x[x[0].argmax()],
    ),
    "products": lambda x: (x @ x, jnp.einsum("ab,cb->ac", x, x, precision="highest"), jnp.vdot(x, x)),
    "convolutions": lambda x: jax.lax.conv_general_dilated(
        x[None, None], x[None, None, :2, :3], (1, 2), ((1, 0), (2, 1)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)
    ),
    "linear algebra": lambda x: (
        jax.lax.linalg.triangular_solve(x + 9 * jnp.eye(4), x, lower=True, transpose_a=True),
        jnp.fft.fft(x),
        jnp.fft.irfft(jnp.fft.rfft(x)),
    ),
    "random": lambda x: (jax.random.normal(jax.random.key(3), (3,)), jax.random.permutation(jax.random.key(1), 5), x),
    "calls": lambda x: jax.jit(lambda a: (a + 1, a * 2))(x)[1] + jax.jit(jnp.linalg.norm)(x),
    "columns": loops_with_columns_of_lapack,
    "loops": loop_that_reads_from_outside,
    "branches": branches_that_read_from_outside,
    "nests": loops_in_branches_in_loops,
    "barriers": lambda x: jax.lax.optimization_barrier((x, x + 1)),
    "scans": lambda x: jax.lax.scan(lambda c, r: (c + r, jnp.dot(c, r)), x[0], x),
    "gradients": jax.grad(lambda x: jax.nn.gelu(x @ x, approximate=False).sum()),
}


def flat(value):
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_jaxlibs_conversion(name, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    x = matrix(4, 4)
    program = jax.jit(FUNCTIONS[name]).lower(x).as_text()
    exported = conversion._module(conversion.proto_of(program.encode(), "text"), "text")
    monkeypatch.setattr(conversion, "_exported", lambda *_: pytest.fail("not translated"))
    ours = xl.from_stablehlo(program)
    assert ours.parameter_shapes == exported.parameter_shapes
    assert ours.config.result_layout == exported.config.result_layout
    for a, b in zip(flat(xl.evaluate(ours, x)), flat(xl.evaluate(exported, x)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(np.complex128), b.astype(np.complex128), rtol=1e-5, atol=1e-6)


def test_a_custom_call_of_the_typed_ffi(monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    program = jax.jit(jnp.linalg.cholesky).lower(matrix(4, 4)).as_text()

    def of(module):
        (call,) = (i for i in module.instructions if i.opcode == "custom-call")
        return call.attrs, call.backend_config, call.frontend_attributes, call.shape, {str(u.shape) for u in call.users}

    assert of(xl.from_stablehlo(program)) == of(conversion._module(conversion.proto_of(program.encode(), "f"), "f"))


def test_donated_and_aliased_arguments(monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    for results in (1, 2):
        function = jax.jit(lambda x, y, n=results: (x + y, x - y)[:n] if n > 1 else x + y, donate_argnums=(1,))
        program = function.lower(matrix(4, 4), matrix(4, 4)).as_text()
        exported = conversion._module(conversion.proto_of(program.encode(), "f"), "f")
        ours = xl.from_stablehlo(program)
        assert ours.config.input_output_alias == exported.config.input_output_alias != []
        assert ours.config.buffer_donors == exported.config.buffer_donors


def test_instructions_know_their_python_lines():
    lowered = jax.jit(lambda x: jnp.tanh(x) @ x).lower(matrix(4, 4))
    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)
    module = xl.from_stablehlo(text)
    tanh = next(i for i in module.instructions if i.opcode == "tanh")
    assert tanh.metadata.op_name.endswith("/tanh") and tanh.name.startswith("tanh")
    place, _ = module.stack_frames.frames[tanh.metadata.stack_frame_id - 1]
    file, function, line, *_ = module.stack_frames.locations[place - 1]
    assert module.stack_frames.file_names[file - 1] == __file__
    assert "test_instructions_know_their_python_lines" in module.stack_frames.function_names[function - 1]
    assert line == test_instructions_know_their_python_lines.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "location",
    [
        '"f"("a.py":1:2 to :4)',
        '"a.py":1:2',
        "unknown",
        '"n"("a.py":3:4)',
        '"n"("f"("a.py":3:4 to 5:6))',
        '"n"(callsite("f"("x.py":1:2 to :4) at callsite("g"("y.py":3:4) at "h"("z.py":9:1))))',
        'callsite(callsite("a"("a.py":1:1) at "b"("b.py":2:2)) at "c"("c.py":3:3))',
        'callsite("f"(unknown) at "g"("y.py":3:4))',
        'callsite(unknown at callsite("a.py":1:2 at unknown))',
        '"n"(callsite(unknown at "g"("y.py":3:4)))',
        '"n"(fused<"x">["a.py":1:2, "b.py":3:4])',
        '"q\\"uo\\5Cte\\C3\\A9"("\\C3\\A9.py":1:2)',
    ],
)
def test_locations_say_what_mlir_prints(location):
    class Location:
        """As in versions that do not tell kinds apart."""

        attr = None

        def __str__(self):
            return str(place)

    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        (operation,) = ir.Module.parse(f'module {{ "a.b"() : () -> () loc({location}) }}').body.operations
        place = operation.location
        read, printed = Locations("file.mlir"), Locations("file.mlir")
        assert read.metadata(place) == printed.metadata(Location())
        assert read.frames() == printed.frames()


def test_instructions_of_a_text_know_its_lines():
    text = "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n  %0 = stablehlo.tanh %a : tensor<3xf32>\n  return %0 : tensor<3xf32>\n}"
    tanh = xl.from_stablehlo(text, "some.mlir").entry.root
    assert (tanh.metadata.source_file, tanh.metadata.source_line) == ("some.mlir", 2)


@pytest.mark.parametrize(
    "operation",
    [
        "stablehlo.tanh %a {mhlo.unheard_of = 1 : i32} : tensor<3xf32>",
        "stablehlo.tanh %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<3xf32>",
    ],
)
def test_what_no_rule_knows_is_left_to_jaxlib(operation, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    exported = []
    export = conversion._exported
    monkeypatch.setattr(conversion, "_exported", lambda *a: exported.append(a) or export(*a))
    text = (
        f"func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {{\n  %0 = {operation}\n  return %0 : tensor<3xf32>\n}}"
    )
    assert re.search("tanh", xl.from_stablehlo(text).to_text()) and exported


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@other(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }", "`main`"),
        ("private @main(%a: tensor<f32>) -> tensor<f32>", "@main has no body"),
        ("@main(%a: tensor<f32>) -> tensor<f32> { cf.br ^b\n ^b: return %a : tensor<f32> }", "@main has 2 blocks"),
    ],
)
def test_what_is_no_program_is_refused(text, message):
    with pytest.raises(xl.ParseError, match=message):
        xl.from_stablehlo(f"func.func {text}")


def test_calls_go_deep():
    depth = 3000
    functions = [
        f"func.func private @f{k}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"  %0 = call @f{k + 1}(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}}"
        for k in range(depth)
    ]
    functions[0] = functions[0].replace("private @f0", "public @main")
    functions.append(f"func.func private @f{depth}(%a: tensor<f32>) -> tensor<f32> {{\n  return %a : tensor<f32>\n}}")
    assert len(xl.from_stablehlo("\n".join(functions)).computations) == depth + 1
