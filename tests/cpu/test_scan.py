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
