"""Loops that become vectors before LLVM reads them: every count, type and kind of sum; and those that stay."""

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

import xloom as xl
from xloom.hlo.dtype import dtype as named
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import SCALAR, allocate, loop
from xloom.llvm.module_text import module_text
from xloom.llvm.target import target_named
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import FLOAT, I32, I64, POINTER, VOID
from xloom.llvm.vectorizer.rewriting import bind, vectorized

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 515, 4099)
INTEGERS, FLOATS = ("s8", "u16", "s32", "u32", "s64"), ("bf16", "f16", "f32", "f64")


def numbers(dtype, *dims):
    return np.random.default_rng(sum(dims)).integers(0, 5, dims).astype(named(dtype).numpy)


def compare(text, *arguments):
    module = xl.parse(text)
    for got, expected in zip(xl.compile(module)(*arguments), xl.evaluate(module, *arguments), strict=True):
        wide = np.complex128 if np.iscomplexobj(expected) else np.float64
        np.testing.assert_allclose(np.asarray(got, wide), np.asarray(expected, wide), rtol=1e-2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_elements(dtype, size):
    """Of several widths: indices, numbers, predicates, and a number for all."""
    shape = f"{dtype}[{size}]"
    compare(
        f"ENTRY e {{ a = {shape} parameter(0) n = {dtype}[] parameter(1) i = {shape} iota(), iota_dimension=0 "
        f"b = {shape} broadcast(n), dimensions={{}} c = {shape} multiply(a, b) d = {shape} maximum(c, a) "
        f"p = pred[{size}] compare(d, b), direction=GT s = {shape} select(p, a, d) w = f64[{size}] convert(s) "
        f"j = s32[{size}] convert(i) ROOT r = (f64[{size}], pred[{size}], s32[{size}]) tuple(w, p, j) }}",
        numbers(dtype, size),
        numbers(dtype)[()],
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "part"), [("c64", "f32"), ("c128", "f64")])
def test_complex_elements(dtype, part, size):
    """Parts go together and apart, in loops of other elements too, and where they lie."""
    shape, parts = f"{dtype}[{size}]", f"{part}[{size}]"
    compare(
        f"ENTRY e {{ a = {parts} parameter(0) b = {parts} parameter(1) n = {dtype}[] parameter(2) "
        f"c = {shape} complex(a, b) m = {shape} broadcast(n), dimensions={{}} d = {shape} multiply(c, m) "
        f"r = {parts} real(d) i = {parts} imag(d) s = {shape} complex(i, r) t = {shape} add(s, c) "
        f"q = {parts} abs(t) p = pred[{size}] compare(q, a), direction=GT u = {shape} select(p, t, m) "
        f"ROOT o = ({shape}, {shape}, {parts}, {parts}, {shape}) tuple(c, u, r, i, s) }}",
        numbers(part, size),
        numbers(part, size + 1)[1:],
        np.asarray(2 - 3j, named(dtype).numpy),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_elements_in_turn(dtype, size):
    """Of bytes, a vector of both has more lanes than a word has bits."""
    shape, one, two = (f"{dtype}[{size},8{more}]" for more in ("", ",1", ",2"))
    compare(
        f"ENTRY e {{ a = {shape} parameter(0) b = {shape} add(a, a) c = {one} reshape(a) d = {one} reshape(b) "
        f"ROOT r = {two} concatenate(c, d), dimensions={{2}} }}",
        numbers(dtype, size, 8),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["u8", "bf16", "s32", "f64"])
@pytest.mark.parametrize("index", ["u8", "s32", "s64"])
def test_elements_from_anywhere(index, dtype, size):
    """Indices below 0 and past the end are clamped."""
    compare(
        f"ENTRY e {{ a = {dtype}[3,7] parameter(0) i = {index}[{size},2] parameter(1) b = {dtype}[{size}] gather(a, i), "
        f"offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, "
        f"slice_sizes={{1,1}} c = {dtype}[{size}] add(b, b) "
        f"ROOT r = ({dtype}[{size}], {dtype}[{size}]) tuple(b, c) }}",
        numbers(dtype, 3, 7),
        numbers(index, size, 2) * 3 - (0 if index == "u8" else 4),
    )


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "opcode", "start"), [
    ("f32", "add", "0"), ("f64", "multiply", "1"), ("bf16", "add", "0"), ("f32", "maximum", "-inf"),
    ("f16", "minimum", "inf"), ("s8", "add", "3"), ("s32", "multiply", "1"), ("u16", "maximum", "0"),
    ("s64", "minimum", "100"), ("s32", "xor", "7"), ("pred", "or", "false"), ("pred", "and", "true"),
])  # fmt: skip
def test_sums(dtype, opcode, start, size, rows):
    x = numbers(dtype, rows, size)
    if opcode == "multiply":
        x = np.where(x > 0, 1, -1).astype(x.dtype)
    if dtype == "bf16":  # the interpreter rounds each sum
        x = np.where(np.arange(size) < 40, x, 0).astype(x.dtype)
    compare(
        f"sum {{ x = {dtype}[] parameter(0) y = {dtype}[] parameter(1) ROOT z = {dtype}[] {opcode}(x, y) }}\n"
        f"ENTRY e {{ a = {dtype}[{rows},{size}] parameter(0) s = {dtype}[] constant({start}) "
        f"b = {dtype}[{rows}] reduce(a, s), dimensions={{1}}, to_apply=sum "
        f"c = {dtype}[{size}] reduce(a, s), dimensions={{0}}, to_apply=sum "
        f"ROOT r = ({dtype}[{rows}], {dtype}[{size}]) tuple(b, c) }}",
        x,
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("apart", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u16"])
def test_elements_apart(dtype, apart, size):
    """The last of which is the array's last."""
    whole = (size - 1) * apart + 2
    shape = f"{dtype}[{size}]"
    compare(
        f"sum {{ x = {dtype}[] parameter(0) y = {dtype}[] parameter(1) ROOT z = {dtype}[] add(x, y) }}\n"
        f"ENTRY e {{ a = {dtype}[{whole}] parameter(0) s = {shape} slice(a), slice={{[1:{whole}:{apart}]}} "
        f"m = {shape} multiply(s, s) n = {dtype}[] constant(0) "
        f"t = {dtype}[] reduce(m, n), dimensions={{0}}, to_apply=sum ROOT r = ({shape}, {dtype}[]) tuple(m, t) }}",
        numbers(dtype, whole),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "c64"])
def test_rows_that_differ(dtype, size):
    """What a row has depends on which one it is; rows around are of one number, or of another array's first one."""
    shape, more, around = f"{dtype}[8,5,{size}]", f"{dtype}[16,10,{size}]", f"{dtype}[10,7,{size}]"
    compare(
        f"ENTRY e {{ a = {shape} parameter(0) n = {dtype}[] parameter(1) "
        f"b = {more} pad(a, n), padding=1_0_1x0_1_1x0_0 c = {more} pad(a, n), padding=0_1_1x1_0_1x0_0 "
        f"d = {more} multiply(b, c) e = {more} add(d, c) f = {around} pad(a, n), padding=1_1x1_1x0_0 "
        f"g = {around} pad(a, n), padding=2_0x0_2x0_0 h = {around} multiply(f, g) "
        f"r = {around} reverse(h), dimensions={{2}} ROOT o = ({more}, {around}, {around}) tuple(e, h, r) }}",
        numbers(dtype, 8, 5, size),
        numbers(dtype)[()],
    )


def function(emit, level="x86-64-v4", arrays=2, end=None, every=False):
    """LLVM IR of a loop from 0 to an argument whose body `emit(b, arrays, i)` writes; None where it stays as it is."""
    target = target_named(level)
    module = TargetModule(target)
    made = ir.Function(module, ir.FunctionType(VOID, [*[POINTER] * arrays, I64]), "f")
    for argument in made.args[:-1]:
        argument.add_attribute("noalias")
    b = ir.IRBuilder(made.append_basic_block("entry"))
    total = allocate(b, FLOAT, name="total")
    start = made.append_basic_block("start")
    b.position_at_end(start)
    with loop(b, 0, end or made.args[-1], hints=emit.hints if hasattr(emit, "hints") else ()) as i:
        emit(b, [*made.args[:-1], total], i)
    b.ret_void()
    b.position_at_end(made.entry_basic_block)
    b.branch(start)
    return module_text(module) if vectorized([made], target, short=False, every=every) else None


def at(b, pointer, i):
    return b.gep(pointer, [i], inbounds=True, source_etype=FLOAT)


def read(b, pointer, i):
    return b.load(at(b, pointer, i), typ=FLOAT)


def squares(b, arrays, i):
    x = read(b, arrays[0], i)
    b.store(b.fmul(x, x), at(b, arrays[1], i))


def in_place(b, arrays, i):
    b.store(b.fneg(read(b, arrays[0], i)), at(b, arrays[0], i))


def from_the_element_before(b, arrays, i):
    b.store(read(b, arrays[0], i), at(b, arrays[0], b.add(i, I64(1), flags=["nsw"])))


def rows_of_opposite_choices(b, arrays, i):
    rows = []
    for comparison in ("<", ">"):
        first = b.select(b.icmp_signed(comparison, b.function.args[-1], I64(5)), I64(0), I64(1))
        rows.append(at(b, at(b, arrays[0], first), i))
    b.store(b.fneg(b.load(rows[0], typ=FLOAT)), rows[1])


def every_second(b, arrays, i):
    b.store(read(b, arrays[0], b.mul(i, I64(2), flags=["nsw"])), at(b, arrays[1], i))


def squares_of_every_third(b, arrays, i):
    x = read(b, arrays[0], b.mul(i, I64(3), flags=["nsw"]))
    b.store(b.fmul(x, x), at(b, arrays[1], i))


def squares_of_every_fifth(b, arrays, i):
    x = read(b, arrays[0], b.mul(i, I64(5), flags=["nsw"]))
    b.store(b.fmul(x, x), at(b, arrays[1], i))


def backwards(b, arrays, i):
    b.store(read(b, arrays[0], b.sub(I64(99), i, flags=["nsw"])), at(b, arrays[1], i))


def few(b):
    return b.icmp_signed("<", b.function.args[-1], I64(5))


def by_choice(b, arrays, i):
    with b.if_else(few(b)) as (yes, no):
        with yes:
            x = b.fneg(read(b, arrays[0], i))
            of_few = b.block
        with no:
            y = read(b, arrays[0], b.add(i, I64(3), flags=["nsw"]))
            of_many = b.block
    chosen = b.phi(FLOAT)
    chosen.add_incoming(x, of_few)
    chosen.add_incoming(y, of_many)
    b.store(chosen, at(b, arrays[1], i))


def from_one_of_two_places(b, arrays, i):
    place = b.select(few(b), b.add(i, I64(1), flags=["nsw"]), b.add(i, I64(3), flags=["nsw"]))
    b.store(b.fneg(read(b, arrays[0], place)), at(b, arrays[1], i))


def where_it_may(b, arrays, i):
    with b.if_then(few(b)):
        b.store(b.fadd(read(b, arrays[0], i), read(b, arrays[0], I64(7))), at(b, arrays[1], i))


def by_element(b, arrays, i):
    x = read(b, arrays[0], i)
    with b.if_then(b.fcmp_ordered("<", x, ir.Constant(FLOAT, 0.0))):
        b.store(b.fneg(x), at(b, arrays[1], i))


def by_place(b, arrays, i):
    with b.if_then(b.icmp_signed("<", i, I64(5))):
        squares(b, arrays, i)


def total_of_some(b, arrays, i):
    with b.if_then(few(b)):
        total(b, arrays, i)


def parts_of_which_one_may_be_left_out(b, arrays, i):
    pair = b.gep(arrays[1], [i], inbounds=True, source_etype=ir.ArrayType(FLOAT, 2))
    x = read(b, arrays[0], i)
    b.store(x, pair)
    with b.if_then(few(b)):
        b.store(b.fneg(x), at(b, pair, I64(1)))


def to_one_place(b, arrays, i):
    b.store(read(b, arrays[0], i), arrays[1])


def from_one_place_by_steps_that_cancel(b, arrays, i):
    b.store(read(b, at(b, arrays[0], i), b.sub(I64(0), i)), at(b, arrays[1], i))


def a_difference_that_stays(b, arrays, i):
    nothing = b.sitofp(b.sub(b.trunc(i, I32), b.trunc(i, I32)), FLOAT)
    b.store(b.fadd(read(b, arrays[0], i), nothing), at(b, arrays[1], i))


def total(b, arrays, i, flags=("reassoc",)):
    b.store(b.fadd(b.load(arrays[-1], typ=FLOAT), read(b, arrays[0], i), flags=flags), arrays[-1])


def total_in_order(b, arrays, i):
    total(b, arrays, i, ())


def running_total(b, arrays, i):
    total(b, arrays, i)
    b.store(b.load(arrays[-1], typ=FLOAT), at(b, arrays[1], i))


def a_call_of_others(b, arrays, i):
    known = b.module.globals.get("others")
    b.store(b.call(known or ir.Function(b.module, ir.FunctionType(FLOAT, []), "others"), []), at(b, arrays[1], i))


def by_constants(b, arrays, i):
    """A function reads a table of constants."""
    module = b.module
    table = module.globals.get("table") or constant_table(module, "table", FLOAT, [FLOAT(k) for k in (1, 2, 4, 8)])
    times = module.globals.get("times")
    if times is None:
        times = ir.Function(module, ir.FunctionType(FLOAT, [FLOAT]), "times")
        inside = ir.IRBuilder(times.append_basic_block("entry"))
        place = inside.zext(inside.and_(inside.bitcast(times.args[0], I32), I32(3)), I64)
        factor = inside.load(inside.gep(table, [place], inbounds=True, source_etype=FLOAT), typ=FLOAT)
        inside.ret(inside.fmul(times.args[0], factor))
    b.store(b.call(times, [read(b, arrays[0], i)]), at(b, arrays[1], i))


def squares_and_what_was_there(b, arrays, i):
    squares(b, arrays, i)
    b.store(b.load(arrays[-1], typ=FLOAT), arrays[-1])


def copies(b, arrays, i):
    b.store(read(b, arrays[0], i), at(b, arrays[1], i))


def zeros(b, arrays, i):
    b.store(ir.Constant(FLOAT, 0.0), at(b, arrays[1], i))


def negative_zeros(b, arrays, i):
    b.store(ir.Constant(FLOAT, -0.0), at(b, arrays[1], i))


def exchange(b, arrays, i):
    first, second = (read(b, array, i) for array in arrays[:2])
    b.store(second, at(b, arrays[0], i))
    b.store(first, at(b, arrays[1], i))


def scalar(b, arrays, i):
    squares(b, arrays, i)


scalar.hints = SCALAR


def parts_side_by_side(b, arrays, i):
    x = read(b, arrays[0], i)
    pair = b.gep(arrays[1], [i], inbounds=True, source_etype=ir.ArrayType(FLOAT, 2))
    b.store(b.fneg(x), at(b, pair, I64(1)))
    b.store(x, pair)


def one_part_of_two(b, arrays, i):
    b.store(read(b, arrays[0], i), at(b, arrays[1], b.mul(i, I64(2), flags=["nsw"])))


def parts_read_after_one_is_written(b, arrays, i):
    pair = b.gep(arrays[1], [i], inbounds=True, source_etype=ir.ArrayType(FLOAT, 2))
    b.store(read(b, arrays[0], i), pair)
    b.store(b.fneg(b.load(pair, typ=FLOAT)), at(b, pair, I64(1)))


def add_to_rows(b, arrays, i, columns):
    for row in range(2):
        place = at(b, arrays[1], b.add(i, I64(row * columns), flags=["nsw"]))
        b.store(b.fadd(b.load(place, typ=FLOAT), read(b, arrays[0], i)), place)


def add_to_rows_far_apart(b, arrays, i):
    add_to_rows(b, arrays, i, 64)


def add_to_rows_that_meet(b, arrays, i):
    add_to_rows(b, arrays, i, 63)


def entry(b, table, number):
    with b.goto_block(b.function.entry_basic_block):
        pointer = b.load(b.gep(table, [I64(number)], inbounds=True, source_etype=POINTER), typ=POINTER)
        pointer.set_metadata("invariant.load", b.module.add_metadata([]))
    return pointer


def anywhere(b, arrays, i):
    number = b.load(b.gep(arrays[0], [i], inbounds=True, source_etype=I32), typ=I32)
    return b.add(b.sext(number, I64), b.mul(b.function.args[-1], I64(3)), flags=["nsw"])


def from_anywhere(b, arrays, i):
    b.store(read(b, arrays[0], anywhere(b, arrays, i)), at(b, arrays[1], i))


def from_anywhere_in_what_is_written(b, arrays, i):
    b.store(read(b, arrays[1], anywhere(b, arrays, i)), at(b, arrays[1], i))


def to_anywhere(b, arrays, i):
    b.store(read(b, arrays[0], i), at(b, arrays[1], anywhere(b, arrays, i)))


def from_a_table(b, arrays, i):
    chosen = b.select(b.icmp_signed("<", b.function.args[-1], I64(5)), entry(b, arrays[0], 0), entry(b, arrays[0], 1))
    b.store(b.fneg(read(b, chosen, i)), at(b, arrays[1], i))


def from_a_table_to_itself(b, arrays, i):
    b.store(b.fneg(read(b, entry(b, arrays[0], 0), i)), at(b, entry(b, arrays[0], 1), i))


@pytest.mark.parametrize(
    "body",
    [
        squares,
        squares_of_every_third,
        every_second,
        in_place,
        total,
        squares_and_what_was_there,
        parts_side_by_side,
        add_to_rows_far_apart,
        from_a_table,
        from_anywhere,
        by_constants,
        backwards,
        by_choice,
        where_it_may,
    ],
)
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_what_becomes_vectors(body, level):
    text = function(body, level) or ""
    assert " x float>" in text
    assert ("masked.load" in text) == (level == "x86-64-v4")


def test_what_stays_of_values_that_change_is_made_in_the_loop():
    text = function(a_difference_that_stays) or ""
    assert " x float>" in text
    llvm.parse_assembly(text).verify()


def test_one_of_two_places_that_go_on_alike_is_not_anywhere():
    assert "gather" not in (function(from_one_of_two_places) or "gather")


def test_what_may_not_be_read_is_not_read_before_the_loop():
    text = function(where_it_may) or ""
    assert 0 < text.index("br i1", text.index("vector.body:")) < text.index("load float")
    llvm.parse_assembly(text).verify()


@pytest.mark.parametrize(
    "body",
    [
        from_the_element_before,
        rows_of_opposite_choices,
        one_part_of_two,
        parts_read_after_one_is_written,
        add_to_rows_that_meet,
        from_a_table_to_itself,
        from_anywhere_in_what_is_written,
        to_anywhere,
        squares_of_every_fifth,
        by_element,
        by_place,
        total_of_some,
        parts_of_which_one_may_be_left_out,
        to_one_place,
        from_one_place_by_steps_that_cancel,
        total_in_order,
        running_total,
        a_call_of_others,
        exchange,
    ],
)
def test_what_stays(body):
    assert function(body) is None


@pytest.mark.parametrize(("body", "called", "loops"), [(copies, "memcpy", 1), (zeros, "memset", 0)])
def test_what_the_c_library_does(body, called, loops):
    """Copies in pieces, for processors that are slow at the whole where it lies badly."""
    text = function(body) or ""
    assert f'call void @"llvm.{called}' in text
    assert text.count(" phi ") == loops


def test_what_is_written_is_no_zero_of_bytes():
    assert "memset" not in (function(negative_zeros) or "")


def test_what_is_to_stay_scalar_keeps_nothing_else_from_it():
    assert " x float>" not in (function(scalar) or " x float>")


def test_what_is_to_stay_scalar_keeps_others_from_it_if_every_loop_counts_and_it_is_long():
    assert function(scalar, every=True) is None
    assert function(scalar, end=1000, every=True) is None


def test_a_known_count_leaves_no_loop_for_what_is_left():
    target = target_named("x86-64-v4")
    module = TargetModule(target)
    made = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]), "f")
    b = ir.IRBuilder(made.append_basic_block("entry"))
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    with loop(b, made.args[2], made.args[3]) as i:
        squares(b, made.args, i)
    b.ret_void()
    bind(made, {2: 0, 3: 20})
    assert vectorized([made], target, short=False)
    text = module_text(module)
    assert " phi " not in text
    assert text.count("load <16 x float>") == 2, "the second vector begins early enough to end with the last element"
    assert "masked" not in text


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_parts_of_a_known_count_from_anywhere_are_well_formed(level):
    target = target_named(level)
    module = TargetModule(target)
    made = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64]), "f")
    b = ir.IRBuilder(made.append_basic_block("entry"))
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    with loop(b, made.args[2], b.add(made.args[2], I64(315), flags=["nsw"])) as i:
        squares(b, made.args, i)
    b.ret_void()
    assert vectorized([made], target, short=False)
    text = module_text(module)
    assert " x float>" in text
    llvm.parse_assembly(text).verify()
