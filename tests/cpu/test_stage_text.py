"""Printers of the compiler's stages: what they say is what was compiled."""

import re

import llvmlite.binding as llvm
import pytest

import xloom as xl
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import asm_text, llvm_text, loops_text, memory_text, schedule_text
from xloom.cpu.printers.names import bytes_text, element_text, index_text
from xloom.llvm import jit
from xloom.llvm.target import process_target


def body(text: str) -> str:
    """Without the legend, and with what heuristics choose left open."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return re.sub(r"\d+ or more", "N or more", re.sub(r"\bk[0-9a-f]{24}\b", "KERNEL", "\n".join(lines))).strip()


def loops(text: str) -> str:
    return body(loops_text(xl.parse(text)))


def schedule(text: str) -> str:
    return body(schedule_text(xl.parse(text)))


ROW, COLUMN = Var("i", 8, None, 1), Var("j", 4, None, 2)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Affine(), "0"),
        (Affine(-3), "-3"),
        (Affine(0, ((ROW, 1),)), "i"),
        (Affine(-1, ((ROW, 2), (COLUMN, 1))), "2*i + j - 1"),
        (Affine(7, ((ROW, -1),)), "-i + 7"),
        (Affine(0, ((ROW, -2), (COLUMN, 1))), "j - 2*i"),
    ],
)
def test_index(index, text):
    assert index_text(index) == text


def test_element_is_an_index_of_each_dimension_where_it_can_be():
    b = xl.Builder("m")
    x = b.parameter(xl.f32[8, 4], name="x")
    assert element_text((x, 0), Affine(0, ((ROW, 4), (COLUMN, 1)))) == "%x[i, j]"
    assert element_text((x, 0), Affine(4, ((ROW, 4), (COLUMN, 1)))) == "%x[i + 1, j]"
    assert element_text((x, 0), Affine(1, ((ROW, 4), (COLUMN, 1)))) == "%x[4*i + j + 1]", "it may be in the next row"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")])
def test_bytes(count, text):
    assert bytes_text(count) == text


def test_loops_of_a_map_with_what_is_fused():
    text = loops("""HloModule m
ENTRY main {
  x = f32[8,300] parameter(0)
  y = f32[300] parameter(1)
  wide = f32[8,300] broadcast(y), dimensions={1}
  sum = f32[8,300] add(x, wide)
  ROOT square = f32[8,300] multiply(sum, sum)
}""")
    expected = """ENTRY %main:

  # makes %square f32[8,300]
  # with %wide, %sum computed where used
  for i1 in 0..8:
    for i2 in 0..300:
      v1 = %x[i1, i2] + %y[i2]
      %square[i1, i2] = v1 * v1
  return %square"""
    assert text == expected


def test_loops_that_threads_share_and_loops_that_are_one():
    text = loops("""HloModule m
ENTRY main {
  x = f32[512,512] parameter(0)
  ROOT y = f32[512,512] exponential(x)
}""")
    assert re.search(r"# shared among threads: \d+ blocks of \d+ items \(i2\), N or more at a time", text)
    assert "parallel for i2 in 0..262144:\n    %y[i2] = exponential(%x[i2])" in text


def test_loops_of_a_fold():
    text = loops("""HloModule m
%sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4,20] parameter(0)
  zero = f32[] constant(0)
  y = f32[4,20] multiply(x, x)
  ROOT r = f32[4] reduce(y, zero), dimensions={1}, to_apply=%sum
}""")
    expected = """  for i1 in 0..4:
    acc1 = 0.0
    for k2 in 0..20:
      v1 = %x[i1, k2]
      acc1 += v1 * v1
    %r[i1] = acc1"""
    assert expected in text and "with %y computed where used" in text


def test_loops_of_a_fold_with_two_values():
    text = loops("""HloModule m
%best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  first = pred[] compare(a, b), direction=GE
  v = f32[] select(first, a, b)
  n = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(v, n)
}
ENTRY main {
  x = f32[20] parameter(0)
  n = s32[20] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[], s32[]) reduce(x, n, low, zero), dimensions={0}, to_apply=%best
}""")
    assert "acc1 = -inf\n  acc2 = 0\n" in text
    assert "v2 = acc1 >= v1\n    acc1, acc2 = select(v2, acc1, v1), select(v2, acc2, s32(k1))" in text
    assert "%r{0} = acc1\n  %r{1} = acc2" in text


def test_loops_without_elements():
    text = loops("""HloModule m
%sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4,0] parameter(0)
  zero = f32[] constant(0)
  z = f32[4] reduce(x, zero), dimensions={1}, to_apply=%sum
  y = f32[4,0] negate(x), control-predecessors={z}
  ROOT r = (f32[4,0], f32[4]) tuple(y, z)
}""")
    assert "# makes %y f32[4,0]\n  nothing: there are no elements\n" in text
    assert "acc1 = 0.0\n    for k2 in 0..0:\n      acc1 += %x[" in text


def test_loops_guard_what_lies_outside():
    text = loops("""HloModule m
ENTRY main {
  x = f32[10] parameter(0)
  zero = f32[] constant(0)
  ROOT y = f32[13] pad(x, zero), padding=1_2
}""")
    expected = """  for i1 in 0..13:  # in pieces: 0..1, 1..11, 11..13
    if 0 <= i1 - 1 < 10:
      v1 = %x[i1 - 1]
    else:
      v1 = 0.0
    %y[i1] = v1"""
    assert expected in text


def test_loops_around_others_are_cut_too():
    text = loops("""HloModule m
ENTRY main {
  x = f32[100,40] parameter(0)
  zero = f32[] constant(0)
  ROOT y = f32[103,43] pad(x, zero), padding=1_2x2_1
}""")
    assert "for i1 in 0..103:  # in pieces: 0..1, 1..101, 101..103\n" in text
    assert "for i2 in 0..43:  # in pieces: 0..2, 2..42, 42..43\n" in text


def test_loops_over_arrays_put_together_are_cut_whatever_is_around_them():
    text = loops("""HloModule m
ENTRY main {
  x = f32[1,40,30] parameter(0)
  y = f32[40,1,30] parameter(1)
  zero = f32[] constant(0)
  a = f32[1,40,30] reverse(x), dimensions={1}
  b = f32[1,40,30] reshape(y)
  c = f32[1,40,30] negate(x)
  d = f32[3,40,30] concatenate(a, b, c), dimensions={0}
  ROOT z = f32[3,44,30] pad(d, zero), padding=0_0x2_2x0_0
}""")
    assert "for i1 in 0..3:  # in pieces: 0..1, 1..2, 2..3\n" in text


def test_loops_do_short_rows_in_each_step():
    text = loops("""HloModule m
ENTRY main {
  x = f32[100,2] parameter(0)
  ROOT y = f32[100,2] reverse(x), dimensions={1}
}""")
    expected = """  for i1 in 0..100:
    for i2 in 0..2:
      %y[i1, i2] = %x[i1, -i2 + 1]"""
    assert expected in text


def test_loops_of_a_transpose():
    text = loops("""HloModule m
ENTRY main {
  x = f32[200,300] parameter(0)
  ROOT y = f32[300,200] transpose(x), dimensions={1,0}
}""")
    expected = """  # in square tiles of i1 and i2, transposed in registers
  for i1 in 0..300:
    for i2 in 0..200:
      %y[i1, i2] = %x[i2, i1]"""
    assert "items (columns, rows)" in text and expected in text


def test_loops_with_indices_from_data():
    text = loops("""HloModule m
ENTRY main {
  x = f32[100] parameter(0)
  start = s32[] parameter(1)
  ROOT y = f32[8] dynamic-slice(x, start), dynamic_slice_sizes={8}
}""")
    start = re.search(r"(d\d+) = clamp\(0, %start, 92\)", text)
    assert start and re.search(rf"%y\[(i\d+)\] = %x\[\1 \+ {start[1]}\]", text)


CONTROL = """HloModule m
%more { s = (s32[], f32[100]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)  ROOT c = pred[] compare(i, n), direction=LT }
%next { t = (s32[], f32[100]) parameter(0)  j = s32[] get-tuple-element(t), index=0
  v = f32[100] get-tuple-element(t), index=1
  one = s32[] constant(1)
  k = s32[] add(j, one)
  w = f32[100] sine(v)
  ROOT u = (s32[], f32[100]) tuple(k, w) }
%yes { p = f32[100] parameter(0)  ROOT a = f32[100] negate(p) }
%no { q = f32[100] parameter(0)  ROOT b = f32[100] cosine(q) }
ENTRY main {
  x = f32[100] parameter(0)
  flag = pred[] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[100]) tuple(zero, x)
  loop = (s32[], f32[100]) while(init), condition=%more, body=%next
  last = f32[100] get-tuple-element(loop), index=1
  ROOT r = f32[100] conditional(flag, last, last), true_computation=%yes, false_computation=%no
}"""


def test_loops_of_control_flow():
    expected = """ENTRY %main:
  %zero = 0
  %t{0}, %t{1} = %zero, %x
  while true:  # condition %more
    %s{0}, %s{1} = %t{0}, %t{1}

    # makes %c pred[]
    %c = %s{0} < 10
    if not %c: break
    # body %next

    # makes %k s32[]
    %k = %t{0} + 1

    # makes %w f32[100]
    for i1 in 0..100:
      %w[i1] = sine(%t{1}[i1])
    %t{0}, %t{1} = %k, %w
  %loop{0}, %loop{1} = %t{0}, %t{1}
  switch %flag:
    case true:  # %yes
      %p = %loop{1}

      # makes %a f32[100]
      for i1 in 0..100:
        %a[i1] = negate(%p[i1])
      %r = %a
    case false:  # %no
      %q = %loop{1}

      # makes %b f32[100]
      for i1 in 0..100:
        %b[i1] = cosine(%q[i1])
      %r = %b
  return %r"""
    assert loops(CONTROL) == expected


def test_schedule_of_control_flow():
    text = schedule(CONTROL)
    assert re.search(r"state   %loop\{1\} f32\[100\]  result 0  starts as a copy of %x f32\[100\]  argument 0", text)
    assert "writes  %w f32[100]  result 0  in place of %t{1}" in text
    assert "next    %w f32[100]  result 0\n" in text, "a state in place is not copied"
    assert re.search(r"branch 0 %yes\n +\d+ loops for %a\n +reads   %p f32\[100\]  result 0\n", text)
    assert text.endswith("return  %r f32[100]  result 0")


def test_schedule_names_memory_kernels_and_copies():
    text = schedule("""HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  e = f32[64,64] exponential(x)
  y = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64] negate(y)
  ROOT r = (f32[64,64], f32[64,64], f32[64,64]) tuple(y, z, x)
}""")
    steps = re.split(r"\n +\d+ ", text)
    assert steps[0].startswith("ENTRY %main  arena 16.0 KiB, ")
    assert steps[1].startswith("loops for %e\n")
    assert "reads   %x f32[64,64]  argument 0" in steps[1] and "writes  %e f32[64,64]  arena 0..16384" in steps[1]
    assert steps[2].startswith("dot %y\n") and "code    KERNEL: " in steps[2]
    assert "reads   %e f32[64,64]  arena 0..16384" in steps[2] and "writes  %y f32[64,64]  result 0" in steps[2]
    assert "return  %x f32[64,64]  argument 0  copied to result 2" in text


def test_update_of_an_argument_is_a_copy_first():
    program = """HloModule m
ENTRY main {
  x = f32[100] parameter(0)
  u = f32[10] parameter(1)
  n = s32[] constant(5)
  ROOT y = f32[100] dynamic-update-slice(x, u, n)
}"""
    assert "writes  %y f32[100]  result 0  starts as a copy of %x, argument 0" in schedule(program)
    assert "%y = %x  # a copy\n  for i1 in 0..10:\n    %y[i1 + 5] = %u[i1]" in loops(program)


def test_numbers_of_steps_are_those_of_lifetimes():
    elsewhere = CONTROL.replace("negate(p)", "reverse(p), dimensions={0}").replace(
        "cosine(q)", "reverse(q), dimensions={0}"
    )
    module = xl.parse(elsewhere)
    _, assignment, _ = lowered(prepared(module), process_target())
    (arena,) = assignment.arena
    first = re.search(r"(\d+) while %loop", schedule_text(module))
    last = re.search(r"(\d+) loops for %b\b", schedule_text(module))
    assert first and int(first[1]) == arena.first
    assert last and int(last[1]) <= arena.last
    assert re.search(rf"400 B  arena 0\.\.400 +thunks {arena.first} to {arena.last} +%loop\{{1\}}", memory_text(module))


def test_memory_adds_up():
    module = xl.parse(
        """HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  c = f32[100] constant({NUMBERS})
  e = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[64,64], f32[100]) tuple(y, c)
}""".replace("NUMBERS", ", ".join(map(str, range(100))))
    )
    memory = xl.compile(module).memory
    text = memory_text(module)
    for name in ("argument", "result", "constant", "temporary"):
        shown = re.search(rf"{name.removesuffix('y')}\w+ +([\d.]+ \w+)\n", text)
        assert shown and shown[1] == bytes_text(getattr(memory, f"{name}_bytes"))
    assert memory.constant_bytes == 400 and memory.argument_bytes == 16384 and memory.result_bytes == 16384 + 400
    assert f"peak{bytes_text(memory.peak_bytes):>20}" in text and re.search(r"aliased +0 B", text)
    donated = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
    alone = donated + "\nENTRY main { x = f32[64] parameter(0) ROOT y = f32[64] exponential(x) }"
    assert re.search(r"aliased +256 B\npeak +256 B", memory_text(xl.parse(alone)))


PROGRAM = """HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  e = f32[64,64] exponential(x)
  ROOT y = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def test_llvm_of_each_kernel_parses():
    module = xl.parse(PROGRAM)
    _, _, program = lowered(prepared(module), process_target())
    parts = re.split(r"^; (?=xloom_main: |k[0-9a-f]{24}: )", llvm_text(module), flags=re.MULTILINE)[1:]
    assert [p.split(":")[0] for p in parts] == ["xloom_main", *program.modules]
    assert [p.splitlines()[0].split(": ")[1] for p in parts] == ["the entry function", "%e", "%y"]
    jit.target_machine(process_target())
    for part in parts:
        llvm.parse_assembly("; " + part).verify()


def test_asm_has_each_function():
    module = xl.parse(PROGRAM)
    _, _, program = lowered(prepared(module), process_target())
    text = asm_text(module)
    for symbol in ("xloom_main", *(p.symbol for u in program.modules.values() for p in u.phases)):
        assert re.search(rf"^{re.escape(symbol)}:", text, re.MULTILINE), symbol


def test_divisions_types_and_comparisons():
    text = loops("""HloModule m
ENTRY main {
  x = f32[9,4] parameter(0)
  y = s32[10] parameter(1)
  z = s32[10] parameter(2)
  turned = f32[4,9] transpose(x), dimensions={1,0}
  odd = f32[6,6] reshape(turned)
  low = bf16[6,6] convert(odd)
  other = pred[10] compare(y, z), direction=NE
  ROOT r = (bf16[6,6], pred[10]) tuple(low, other)
}""")
    assert "%other[i1] = %y[i1] != %z[i1]" in text
    quotient = re.search(r"(q\d+) = i2 // 9\n", text)
    remainder = re.search(r"(r\d+) = i2 % 9\n", text)
    assert quotient and remainder
    assert f"%low[i2] = bf16(%x[{remainder[1]}, {quotient[1]}])" in text
