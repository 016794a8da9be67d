import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from tests.cpu.test_reduce_window import check
from xloom.errors import LoweringError


def program(dims, dimension, reverse="false"):
    """Running sums, and each with the number of steps."""
    sizes = [int(d) for d in dims.split(",")]
    part = ",".join(str(d) for k, d in enumerate(sizes) if k != dimension)
    return f"""HloModule m
body {{ x = f32[{part}] parameter(0) y = f32[{part}] parameter(1) sum = f32[{part}] parameter(2) n = s32[{part}] parameter(3)
  one = s32[] constant(1) ones = s32[{part}] broadcast(one), dimensions={{}} m = s32[{part}] add(n, ones)
  z = f32[{part}] multiply(x, y) new = f32[{part}] add(sum, z) c = bf16[{part}] convert(new)
  ROOT t = (bf16[{part}], s32[{part}], f32[{part}], s32[{part}]) tuple(c, m, new, m) }}
ENTRY e {{ x = f32[{dims}] parameter(0) y = f32[{dims}] parameter(1) a = f32[{part}] parameter(2) b = s32[{part}] parameter(3)
  ROOT s = (bf16[{dims}], s32[{dims}], f32[{part}], s32[{part}]) scan(x, y, a, b), dimensions={{{dimension}}},
    num_carries=2, is_reverse={reverse}, to_apply=body }}"""


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize(("dims", "dimension"), [("7", 0), ("7,5", 0), ("7,5", 1), ("2,6,200", 1), ("0,3", 0)], ids=str)
def test_scans(dims, dimension, reverse):
    check(program(dims, dimension, reverse))


def test_other_computations_are_refused():
    text = program("7,5", 0).replace("new = f32[5] add(sum, z)", "new = f32[5] reverse(z), dimensions={0}")
    xl.parse(text)
    with pytest.raises(LoweringError, match="reverse inside the computation of a scan"):
        run_kernel(text, *[np.zeros(1)] * 4)


def test_carries_of_another_shape_are_refused():
    text = """HloModule m
body { x = f32[5] parameter(0) n = s32[] parameter(1) ROOT t = (f32[5], s32[]) tuple(x, n) }
ENTRY e { x = f32[7,5] parameter(0) b = s32[] parameter(1)
  ROOT s = (f32[7,5], s32[]) scan(x, b), dimensions={0}, num_carries=1, to_apply=body }"""
    with pytest.raises(LoweringError, match="parameter inside the computation of a scan"):
        run_kernel(text, np.zeros((7, 5), np.float32), np.int32(0))


BODIES = {  # of slices x = f32[5] and a carry c, by the carry's shape
    "reversed": ("f32[5]", "r = f32[5] reverse(x), dimensions={0} m = f32[5] add(r, c) y = f32[5] negate(m)"),
    "a scalar carry": ("f32[]", "m = f32[] negate(c) n = f32[5] broadcast(m), dimensions={} y = f32[5] add(x, n)"),
    "a scalar result": ("f32[5]", "m = f32[5] add(x, c) y = f32[] constant(3)"),
    "a product": (
        "f32[5]",
        "m = f32[5] copy(c) y = f32[] dot(x, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "an array in it": ("f32[5]", "k = f32[5] constant({1,2,3,4,5}) m = f32[5] add(c, k) y = f32[5] multiply(m, x)"),
}


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("size", [0, 7])
@pytest.mark.parametrize("name", BODIES)
def test_computations_that_are_not_elementwise(name, size, reverse):
    carry, body = BODIES[name]
    result = "f32[]" if "y = f32[] " in body else "f32[5]"
    stacked = f"f32[{size}]" if result == "f32[]" else f"f32[{size},5]"
    module = xl.parse(f"""HloModule m
body {{ x = f32[5] parameter(0) c = {carry} parameter(1) {body} ROOT t = ({result}, {carry}) tuple(y, m) }}
ENTRY e {{ x = f32[{size},5] parameter(0) c = {carry} parameter(1)
  ROOT s = ({stacked}, {carry}) scan(x, c), dimensions={{0}}, num_carries=1, is_reverse={reverse}, to_apply=body }}""")
    x = np.arange(5 * size, dtype=np.float32).reshape(size, 5)
    c = np.full(() if carry == "f32[]" else 5, 2, np.float32)
    for a, b in zip(xl.compile(module)(x, c), xl.evaluate(module, x, c), strict=True):
        np.testing.assert_array_equal(a, b)
