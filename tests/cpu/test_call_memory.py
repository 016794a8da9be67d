"""The memory that custom calls in native code see: alignment, aliasing, layouts, tuples, lifetime."""

import numpy as np
import pytest

import xloom as xl
from tests.cpu.call_programs import X, compare, loop

pytestmark = pytest.mark.usefixtures("forget")


def test_native_results_feed_native_code_in_a_loop(c):
    c("c_add_one")
    text = loop('z = f32[4] custom-call(x), custom_call_target="c_add_one" y = f32[4] multiply(z, z)', count=3)
    text += "ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }"
    compare(text, (np.int32(0), X))


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("source", ["p", "n"])
@pytest.mark.parametrize("result", [1, 100])
def test_everything_is_aligned(c, offset, source, result):
    c("c_alignment")
    executable = xl.compile(
        xl.parse(f"""ENTRY e {{ p = f32[100] parameter(0) n = f32[100] abs(p) o = f32[100] multiply(p, p)
      r = u32[{result}] custom-call({source}), custom_call_target="c_alignment"
      ROOT t = (u32[{result}], f32[100]) tuple(r, o) }}""")
    )
    p = np.full(104, 7, np.float32)[offset : offset + 100]
    kept = [executable(p)[0] for _ in range(8)]  # memory is reused: other results are at other addresses
    assert all(r[0] == 0 for r in kept)


def test_constants_are_aligned(c):
    c("c_alignment")
    sizes = range(65, 85)
    lines = "".join(
        f"""k{n} = f32[{n}] constant({{{", ".join(map(str, [7, *range(n - 1)]))}}})
        r{n} = u32[] custom-call(k{n}), custom_call_target="c_alignment"\n"""
        for n in sizes
    )
    text = f"""ENTRY e {{ {lines} ROOT t = ({", ".join(["u32[]"] * len(sizes))}) tuple({", ".join(f"r{n}" for n in sizes)}) }}"""
    assert not any(xl.compile(xl.parse(text))())


@pytest.mark.parametrize("size", [1, 1000])
def test_aliased_state_of_a_loop_is_changed_in_place(c, size):
    seen = set()

    @xl.custom_call("t")
    def t(out, x):
        seen.add(x.ctypes.data)  # of both calls
        assert np.shares_memory(out, x)
        out += 1

    c("c_increment")
    text = loop(
        f'w = f32[{size}] custom-call(x), custom_call_target="t", output_to_operand_aliasing={{{{}}: (0, {{}})}}\n'
        f'z = f32[{size}] custom-call(w), custom_call_target="t", output_to_operand_aliasing={{{{}}: (0, {{}})}}\n'
        f'y = f32[{size}] custom-call(z), custom_call_target="c_increment", '
        "output_to_operand_aliasing={{}: (0, {})}",
        dims=str(size),
    )
    text += f"""ENTRY e {{ p = (s32[], f32[{size}]) parameter(0)
      ROOT w = (s32[], f32[{size}]) while(p), condition=c, body=b }}"""
    x = np.zeros(size, np.float32)
    _, found = xl.compile(xl.parse(text))((np.int32(0), x))
    expected = np.full(size, 18, np.float32)
    expected[0] = 27
    assert np.array_equal(found, expected) and not x.any()
    if size == 1000:
        assert len(seen) == 1


def test_a_chain_of_aliases_is_the_results_memory():
    seen = set()

    @xl.custom_call("t")
    def t(out, x):
        seen.add(x.ctypes.data)
        out += 1

    text = """ENTRY e { p = f32[1000] parameter(0) x = f32[1000] negate(p)
      a = f32[1000] custom-call(x), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}
      ROOT b = f32[1000] custom-call(a), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})} }"""
    found = xl.compile(xl.parse(text))(np.zeros(1000, np.float32))
    assert (found == 2).all() and seen == {found.ctypes.data}


def test_an_aliased_operand_that_is_needed_later_is_copied():
    @xl.custom_call("t")
    def t(out, x, same):
        out += 1
        assert not np.shares_memory(same, out)

    for use in ("x", "p"):
        compare(
            f"""ENTRY e {{ p = f32[1000] parameter(0) x = f32[1000] exponential(p)
          y = f32[1000] custom-call(x, x), custom_call_target="t", output_to_operand_aliasing={{{{}}: (0, {{}})}}
          ROOT s = f32[1000] subtract(y, {use}) }}""",
            np.zeros(1000, np.float32),
        )


def test_nested_tuples_and_tokens_in_c(c):
    c("c_nested")
    text = """ENTRY e { p = ((f32[1], f32[0]), f32[1]) parameter(0) k = token[] after-all()
      y = (f32[1], (f32[1], f32[0,3])) custom-call(p, k), custom_call_target="c_nested"
      a = f32[1] get-tuple-element(y), index=0 b = (f32[1], f32[0,3]) get-tuple-element(y), index=1
      d = f32[1] get-tuple-element(b), index=0 ROOT r = f32[1] subtract(a, d) }"""
    assert compare(text, ((np.ones(1, np.float32), np.ones(0, np.float32)), np.full(1, 5, np.float32))) == 4


@pytest.mark.parametrize(
    "dims, layout", [((3, 5), "1,0"), ((3, 5), "0,1"), ((4, 3, 2), "1,2,0"), ((1, 300), "0,1"), ((0, 3), "0,1")]
)
def test_layouts(dims, layout):
    seen = []

    @xl.custom_call("t")
    def t(out, x):
        assert not out.any()
        seen.append((x.strides, out.strides))
        out[...] = x * 2

    shape = f"f32[{','.join(map(str, dims))}]"
    row_major = ",".join(map(str, reversed(range(len(dims)))))
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    compare(
        f"""ENTRY e {{ p = {shape} parameter(0) n = {shape} negate(p)
      y = {shape}{{{layout}}} custom-call(n), custom_call_target="t", operand_layout_constraints={{{shape}{{{layout}}}}}
      ROOT z = {shape}{{{row_major}}} negate(y) }}""",
        x,
    )
    if not x.size:
        assert len(seen) == 1, "by the interpreter alone: no code is called for no elements"
        return
    assert seen[1][0] == seen[1][1] == seen[0][1]


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["p", "n"])
@pytest.mark.parametrize("dtype", ["s8", "bf16", "f32", "f64", "c128"])
@pytest.mark.parametrize("batch, n", [("", 17), ("", 24), ("3,", 18), ("2,2,", 21), ("", 100), ("70,", 16)])
def test_square_matrices_are_turned_where_they_lie(c, batch, n, dtype, source):
    """The call leaves them as they are: what was turned for it is turned back."""
    c("c_nothing")
    shape, rank = f"{dtype}[{batch}{n},{n}]", batch.count(",") + 2
    order = ",".join(map(str, [rank - 2, rank - 1, *reversed(range(rank - 2))]))
    module = xl.parse(f"""ENTRY e {{ p = {shape} parameter(0) n = {shape} negate(p)
      y = {shape}{{{order}}} custom-call({source}), custom_call_target="c_nothing",
        operand_layout_constraints={{{shape}{{{order}}}}}, output_to_operand_aliasing={{{{}}: (0, {{}})}}
      ROOT r = {shape} copy(y) }}""")
    p = np.arange(module.entry.root.shape.size).reshape(module.entry.root.shape.dims)
    p = p.astype(module.entry.root.shape.dtype.numpy)
    executable = xl.compile(module)
    np.testing.assert_array_equal(executable(p), p if source == "p" else -p)
    assert executable.memory.temporary_bytes == 0


def test_unused_results_are_scratch_memory():
    @xl.custom_call("t")
    def t(out, x):
        result, scratch = out
        scratch[...] = x[0]
        result[...] = scratch.sum()

    text = """ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p)
      y = (f32[], f32[1000]) custom-call(n), custom_call_target="t" r = f32[] get-tuple-element(y), index=0
      s = f32[4] broadcast(r), dimensions={} ROOT a = f32[4] add(n, s) }"""
    compare(text, X + 1)


def test_views_that_are_kept_keep_their_memory():
    kept = []

    @xl.custom_call("t")
    def t(out, x):
        kept.append(x)
        out[...] = x

    executable = xl.compile(
        xl.parse("""ENTRY e { p = f32[100000] parameter(0) n = f32[100000] negate(p)
      y = f32[100000] custom-call(n), custom_call_target="t" ROOT z = f32[100000] abs(y) }""")
    )
    for k in range(3):
        executable(np.full(100000, k, np.float32))
    assert [v[5] for v in kept] == [0, -1, -2]


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("readers", [0, 1, 2])
@pytest.mark.parametrize("many", [1, 10])
def test_an_aliased_output_that_nobody_reads_lies_in_columns(c, rows, readers, many):
    """A dying operand is laid out anew for its call: not where it is read from."""
    c("c_as_it_lies")
    dims = f"{many},{rows},{12 // rows}"
    also = ", ".join(["abs(n)", "a"][:readers])
    text = f"""ENTRY e {{ p = f32[{dims}] parameter(0) n = f32[{dims}] multiply(p, p)
      k = (f32[{dims}]{{0,1,2}}, f32[12]) custom-call(n), custom_call_target="c_as_it_lies",
        operand_layout_constraints={{f32[{dims}]{{0,1,2}}}}, output_to_operand_aliasing={{{{0}}: (0, {{}})}}
      a = f32[{dims}] get-tuple-element(k), index=0 s = f32[12] get-tuple-element(k), index=1
      ROOT t = ({", ".join(["f32[12]", *[f"f32[{dims}]"] * readers])}) tuple(s{", " * bool(readers)}{also}) }}"""
    x = np.arange(many * 12, dtype=np.float32).reshape(many, rows, 12 // rows)
    seen, *others = xl.compile(xl.parse(text))(x)
    assert np.array_equal(seen, (x * x).ravel(order="F")[:12])
    assert all(np.array_equal(other, x * x) for other in others)
