"""`xloom opt --explain memory | kernel | compile-time`: answers of the decisions themselves."""

import re

import pytest

import xloom as xl
from xloom.cpu.printers.compile_times import compile_times_text
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.cpu.printers.memory_places import memory_places_text
from xloom.errors import XloomError
from xloom.llvm.target import target_named

TARGET = target_named("x86-64-v4")
TEXT = """HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[64,128] parameter(0)
  w = f32[128,128] parameter(1)
  zero = f32[] constant(0)
  p = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,128] exponential(p)
  q = f32[64,128] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[64,128] multiply(q, p)
  t = f32[128,64] transpose(g), dimensions={1,0}
  h = f32[128,64] sort(t), dimensions={1}, to_apply=less
  r = f32[128] reduce(h, zero), dimensions={1}, to_apply=sum
  u = f32[128,128] add(w, w)
  small = f32[4] slice(r), slice={[0:4]}
  n = f32[4] sort(small), dimensions={0}, to_apply=less
  m = f32[4] negate(n)
  ROOT out = (f32[128], f32[128,128], f32[4]) tuple(r, u, m)
}"""


def memory(*names):
    return memory_places_text(xl.parse(TEXT), names, TARGET)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", r"%x f32\[64,128\], 32.0 KiB: argument 0\n  an argument, which the caller does not give away"),
        ("w", "result 1\n  an argument that the caller gives away, in whose memory result 1 is made"),
        ("u", "one after another in the same memory: %w"),
        ("e", "not in place of %p: it is read again, by %t"),
        ("p", r"temporary array of more than 256 bytes.*\n  in use from thunk \d+ \(%p\) to thunk"),
        ("r", "result 0\n  it is result 0"),
        ("n", r"stack \d+\n  a temporary array of at most 256 bytes"),
        ("g", "%g: no array in memory, see --explain fusion:g"),
    ],
)
def test_why_an_array_is_where_it_is(name, said):
    assert re.search(said, memory(name)), memory(name)


def test_what_else_is_in_memory_then():
    assert re.search(r"beside %e.*32.0 KiB, in use from thunk", memory("p"))


def test_all_arrays():
    assert {"%x", "%p", "%e", "%n"} <= set(re.findall(r"^(%\w+) ", memory(), re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("p", "read where they lie: the right operand has 65536 bytes, which are read from the second cache"),
        ("t", "transposed in registers, block by block: %p, %q lies along"),
        ("h", "quicksort by vectors of the elements themselves: there is one operand"),
        ("r", "one result after another, along rows: neighbours in memory belong to one result"),
        ("u", "one loop, in blocks of whole vectors: 16384 elements have no remainder"),
        ("n", r"%n sort f32\[4\]"),
        ("x", "%x: no kernel, see --explain fusion:x"),
    ],
)
def test_why_a_kernel_is_as_it_is(name, said):
    text = kernel_choices_text(xl.parse(TEXT), [name], TARGET)
    assert re.search(said, text), text


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ("f32[512,1024]", "packed first: the right operand has 2097152 bytes, more than the 262144"),
        ("f32[512,8]", "read where they lie: the right operand fits the first cache"),
        ("f32[512,1]", "a matrix times few vectors: one of the operands is a vector"),
    ],
)
def test_products(dims, said):
    columns = dims.split(",")[1].rstrip("]")
    text = f"""HloModule m
    ENTRY e {{ a = f32[64,512] parameter(0) b = {dims} parameter(1)
      ROOT c = f32[64,{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    found = kernel_choices_text(xl.parse(text), ["c"], TARGET)
    assert said in found, found


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("{size=8 pad=7_0}", "in linear time"),
        ("{size=3 pad=1_1}", "axis by axis|window by window: windows meet an element 3.0 times"),
        ("{size=2 stride=4 pad=0_0}", "window by window: windows are dilated, or do not touch"),
    ],
)
def test_windows(window, said):
    size = 2 if "stride" in window else 8
    text = f"""HloModule m
    sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
    ENTRY e {{ a = f32[8] parameter(0) z = f32[] constant(0)
      ROOT c = f32[{size}] reduce-window(a, z), window={window}, to_apply=sum }}"""
    found = kernel_choices_text(xl.parse(text), ["c"], TARGET)
    assert re.search(said, found), found


def test_rows_are_as_long_as_the_dimensions_that_are_one_loop():
    """Four channels lie together with what is reduced around them, however one number of each row is spread."""
    text = """HloModule m
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[256,10,10,4] parameter(0) mean = f32[256] parameter(1) z = f32[] constant(0)
      spread = f32[256,10,10,4] broadcast(mean), dimensions={0} d = f32[256,10,10,4] subtract(x, spread)
      ROOT r = f32[256] reduce(d, z), dimensions={1,2,3}, to_apply=sum }"""
    assert "one result after another, along rows" in kernel_choices_text(xl.parse(text), ["r"], TARGET)


def test_where_the_time_of_a_compilation_goes():
    text = compile_times_text(xl.parse(TEXT), (), TARGET)
    assert re.search(r"ms +\d+\.\d% +machine code by LLVM", text) and "algebraic-simplification" in text
    assert re.search(r"LLVM's time for the kernel of\n(.*\n)*.*%[pq]\b", text)
    asked = compile_times_text(xl.parse(TEXT), ("cse", "h"), TARGET)
    assert re.search(r"pass cse: .* ms in 1 runs\nkernel of %h: .* of LLVM's", asked)


@pytest.mark.parametrize("ask", [memory_places_text, kernel_choices_text, compile_times_text])
def test_a_name_that_there_is_not(ask):
    with pytest.raises(XloomError, match="nothing"):
        ask(xl.parse(TEXT), ["nothing"], TARGET)


ALGORITHMS = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
step { x = f32[64] parameter(0) c = f32[64] parameter(1) s = f32[64] add(x, c) ROOT t = (f32[64], f32[64]) tuple(s, s) }
ENTRY main {
  table = f32[1000,128] parameter(0) at = s32[32,1] parameter(1) rows = f32[32,128] parameter(2)
  owned = f32[1000,128] scatter(table, at, rows), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  few = f32[4,128] parameter(3)
  pieces = f32[4,128] scatter(few, at, rows), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  bins = f32[1000] parameter(4) ones = f32[32] parameter(5)
  single = f32[1000] scatter(bins, at, ones), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  first = f32[64] parameter(6) lines = f32[32,64] parameter(12)
  scan = (f32[32,64], f32[64]) scan(lines, first), dimensions={0}, num_carries=1, is_associative=false, to_apply=step
  signal = c64[16,101] parameter(7) prime = c64[16,101] fft(signal), fft_type=FFT, fft_length={101}
  line = f32[8192] parameter(8) long = c64[4097] fft(line), fft_type=RFFT, fft_length={8192}
  a = f32[256,256] parameter(9) factor = f32[256,256] cholesky(a), lower=true
  b = f32[256,8] parameter(10)
  solved = f32[256,8] triangular-solve(factor, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  state = u64[2] parameter(11) bits = (u64[2], u32[100]) rng-bit-generator(state), algorithm=rng_three_fry
  zero = f32[] constant(0) one = f32[] constant(1)
  normal = f32[100] rng(zero, one), distribution=rng_normal
  ROOT out = (f32[1000,128], f32[4,128], f32[1000], (f32[32,64], f32[64]), c64[16,101], c64[4097], f32[256,8],
    (u64[2], u32[100]), f32[100]) tuple(owned, pieces, single, scan, prime, long, solved, bits, normal)
}"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("owned", "those of its own indices: updates are of 128 adjacent elements, and there are 1000 indices"),
        ("pieces", "its piece of every update: updates are of 128 adjacent elements, at fewer than 16 indices"),
        ("single", "one thread, update by update: updates of 1 adjacent elements, in less than 512 bytes, may meet"),
        ("scan", "step by step, 64 adjacent columns side by side: 1 rows of 64 columns are independent"),
        ("prime", "101 points by a convolution of 2[0-9]+: a prime factor of 101 is so great"),
        ("long", "8192 real points as 4096 complex ones: their number is even"),
        ("long", "lines of 4096 points as matrices of 64 x 64: a line at once would leave the near cache"),
        ("long", r"64 points by passes of [248 x]+: \d+ transforms side by side"),
        ("factor", "the diagonal block, then strips beside it, .*: it is a single matrix of more than 192 rows"),
        ("solved", "substitution in strips of 8 right sides, .*: right sides are independent"),
        ("bits", "Threefry of 16 counters side by side"),
        ("normal", "Philox of 16 counters side by side, and Box and Muller's transform"),
    ],
)
def test_why_an_algorithm_is_as_it_is(name, said):
    text = kernel_choices_text(xl.parse(ALGORITHMS), [name], TARGET)
    assert re.search(said, text), text
