"""Loop nests as kernels, on the emulated GPU."""

import pytest

from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import softmax
from xloom.cuda.loops import row_kernel

ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
MAX = "max { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] maximum(x, y) }\n"


def test_elements_side_by_side_are_one_thread_s():
    executable = agrees(
        "ENTRY e { x = f32[64,128] parameter(0) y = f32[64,128] parameter(1) t = f32[64,128] tanh(x) "
        "ROOT z = f32[64,128] add(t, y) }"
    )
    assert strategies(executable) == ["a thread does 4 of 8192 elements"]


@pytest.mark.parametrize("dtype", ["pred", "s8", "u16", "s64", "bf16", "f16", "f64", "c64", "f8e4m3fn"])
def test_types(dtype):
    operator = "and" if dtype == "pred" else "add"
    agrees(
        f"ENTRY e {{ x = {dtype}[37] parameter(0) y = {dtype}[37] parameter(1) ROOT z = {dtype}[37] {operator}(x, y) }}"
    )


@pytest.mark.parametrize(
    ("dims", "dimension", "start"),
    [
        ((5, 7), 1, "a thread for each"),
        ((50, 100), 1, "16 lanes for each of 50"),
        ((50, 20), 1, "4 lanes for each of 50"),
        ((50, 101), 1, "32 lanes for each of 50"),
        ((3, 5000), 1, "1 blocks for each of 3"),
        ((3, 5001), 1, "1 blocks for each of 3"),
        ((2, 40000), 1, "9 blocks for each of 2"),
        ((100, 70), 0, "8 threads for each of 70 columns"),
        ((6000, 33), 0, "8 threads for each of 33 columns of 6000 elements, in 11 parts"),
        ((9, 70000), 0, "a thread for each of 70000"),
        ((300, 5), 0, "32 threads for each of 5 columns of 300 elements, in 1 parts"),
        ((9000, 8), 0, "32 threads for each of 8 columns of 9000 elements, in 4 parts"),
    ],
)
def test_reductions(dims, dimension, start):
    shape, left = f"f32[{dims[0]},{dims[1]}]", dims[1 - dimension]
    executable = agrees(
        f"{ADD}ENTRY e {{ x = {shape} parameter(0) i = f32[] constant(3) "
        f"ROOT r = f32[{left}] reduce(x, i), dimensions={{{dimension}}}, to_apply=add }}"
    )
    assert strategies(executable)[0].startswith(start)


def test_a_reduction_of_two_values():
    agrees(
        "best { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) "
        "g = pred[] compare(a, b), direction=GE v = f32[] maximum(a, b) k = s32[] select(g, i, j) "
        "ROOT t = (f32[], s32[]) tuple(v, k) }\n"
        "ENTRY e { x = f32[9,200] parameter(0) n = s32[9,200] iota(), iota_dimension=1 l = f32[] constant(-inf) "
        "z = s32[] constant(0) ROOT r = (f32[9], s32[9]) reduce(x, n, l, z), dimensions={1}, to_apply=best }"
    )


def test_rows_in_stages():
    executable = agrees(
        f"{ADD}{MAX}ENTRY e {{ x = f32[12,300] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0) "
        "m = f32[12] reduce(x, low), dimensions={1}, to_apply=max b = f32[12,300] broadcast(m), dimensions={0} "
        "d = f32[12,300] subtract(x, b) p = f32[12,300] exponential(d) "
        "s = f32[12] reduce(p, zero), dimensions={1}, to_apply=add c = f32[12,300] broadcast(s), dimensions={0} "
        "ROOT q = f32[12,300] divide(p, c) }"
    )
    assert strategies(executable) == ["a block for each of 12 rows, in 4 stages"]
    (launch,) = executable.program.launches
    assert launch.kernel.threads == 128
    assert launch.kernel.shared_bytes < 3000


def test_what_other_threads_write_before_a_barrier_is_read_after_it():
    """LLVM takes it that a barrier changes nothing behind a pointer that meets no other: those are read only."""
    executable = agrees(
        f"{ADD}ENTRY e {{ x = f32[12,300] parameter(0) zero = f32[] constant(0) p = f32[12,300] exponential(x) "
        "s = f32[12] reduce(p, zero), dimensions={1}, to_apply=add c = f32[12,300] broadcast(s), dimensions={0} "
        "q = f32[12,300] divide(p, c) ROOT t = (f32[12,300], f32[12]) tuple(q, s) }"
    )
    (launch,) = executable.program.launches
    (head,) = [line for line in launch.kernel.text.splitlines() if line.startswith("define ptx_kernel")]
    kinds = [allocation.kind for allocation in launch.arguments]
    apart = ["noalias" in argument for argument in head.partition("(")[2].split(",")]
    assert apart == [kind == "argument" for kind in kinds]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_few_long_rows_are_shared_by_more_blocks_than_there_are_rows(dtype):
    executable = agrees(softmax(dtype, 2, 20000))
    assert strategies(executable)[0] == "4 blocks for each of 2 results of 20000 elements"
    assert not any("a block for each of" in strategy for strategy in strategies(executable))


def test_rows_whose_values_have_no_room_in_shared_memory(monkeypatch):
    monkeypatch.setattr(row_kernel, "_LONG", 1 << 20)
    executable = agrees(
        f"{ADD}ENTRY e {{ x = f32[8,20000] parameter(0) zero = f32[] constant(0) p = f32[8,20000] sine(x) "
        "s = f32[8] reduce(p, zero), dimensions={1}, to_apply=add c = f32[8,20000] broadcast(s), dimensions={0} "
        "ROOT q = f32[8,20000] multiply(p, c) }"
    )
    assert len(strategies(executable)) >= 1


@pytest.mark.parametrize("dims", [(40, 70), (33, 64), (9, 100)])
def test_transposes_go_through_shared_memory(dims):
    rows, columns = dims
    executable = agrees(
        f"ENTRY e {{ x = bf16[{rows},{columns}] parameter(0) y = bf16[{columns},{rows}] parameter(1) "
        f"t = bf16[{columns},{rows}] transpose(x), dimensions={{1,0}} ROOT z = bf16[{columns},{rows}] add(t, y) }}"
    )
    assert strategies(executable) == ["tiles of 32 x 32 through shared memory"]


def test_bytes_are_transposed_in_larger_tiles():
    executable = agrees("ENTRY e { x = s8[70,130] parameter(0) ROOT t = s8[130,70] transpose(x), dimensions={1,0} }")
    assert strategies(executable) == ["tiles of 64 x 64 through shared memory"]


def test_what_is_gathered_padded_and_updated():
    agrees(
        "ENTRY e { x = f32[20,8] parameter(0) i = s32[6] parameter(1) "
        "g = f32[6,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,8} zero = f32[] constant(0) p = f32[9,8] pad(g, zero), padding=1_2x0_0 "
        "k = s32[] constant(3) o = s32[] constant(0) ROOT u = f32[20,8] dynamic-update-slice(x, p, k, o) }"
    )


@pytest.mark.parametrize(("columns", "width"), [((100, 28), 4), ((64, 64), 4), ((102, 26), 2), ((101, 27), 1)])
def test_neighbours_have_no_guard_between_them(columns, width):
    left, right = columns
    executable = agrees(
        f"ENTRY e {{ x = f32[64,{left}] parameter(0) y = f32[64,{right}] parameter(1) s = f32[] parameter(2) "
        f"c = f32[64,128] concatenate(x, y), dimensions={{1}} p = f32[64,128] pad(y, s), padding=0_0x{left}_0 "
        "ROOT r = f32[64,128] add(c, p) }"
    )
    start = f"a thread does {width} of 8192 elements" if width > 1 else "a thread for each of 8192"
    assert strategies(executable) == [start]


def test_indices_are_loaded_where_a_guard_holds_only():
    """Those of what is gathered for the first elements of a concatenation have nothing for the others."""
    agrees(
        "ENTRY e { x = f64[3,3,3] parameter(0) i = u32[2,3] parameter(1) y = f64[1] parameter(2) g = f64[3] gather(x, i), "
        "offset_dims={}, collapsed_slice_dims={0,1,2}, start_index_map={2,0}, index_vector_dim=0, slice_sizes={1,1,1} "
        "ROOT c = f64[8] concatenate(g, y, g, y), dimensions={0} }"
    )


def test_loops_and_branches():
    agrees(
        "body { t = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(t), index=0 "
        "x = f32[40] get-tuple-element(t), index=1 one = s32[] constant(1) j = s32[] add(i, one) "
        "y = f32[40] add(x, x) ROOT r = (s32[], f32[40]) tuple(j, y) }\n"
        "test { t = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(5) "
        "ROOT c = pred[] compare(i, n), direction=LT }\n"
        "minus { x = f32[40] parameter(0) ROOT n = f32[40] negate(x) }\n"
        "sine { x = f32[40] parameter(0) ROOT n = f32[40] sine(x) }\n"
        "ENTRY e { x = f32[40] parameter(0) k = s32[] parameter(1) z = s32[] constant(0) "
        "t = (s32[], f32[40]) tuple(z, x) w = (s32[], f32[40]) while(t), condition=test, body=body "
        "y = f32[40] get-tuple-element(w), index=1 "
        "ROOT r = f32[40] conditional(k, y, y), branch_computations={minus, sine} }"
    )


def test_arrays_of_dynamic_size():
    agrees("ENTRY e { x = f32[<=9] parameter(0) ROOT y = f32[<=9] negate(x) }")
