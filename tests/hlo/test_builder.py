import numpy as np
import pytest

import xloom as xl


def test_builds_regions_and_infers_shapes():
    b = xl.Builder("sums")
    add = b.computation("add")
    root = add.add(add.parameter(xl.f32[()]), add.parameter(xl.f32[()]))
    summed = add.finish(root)
    x = b.parameter(xl.f32[3, 4])
    r = b.reduce(x, b.constant(0.0), dimensions=(1,), to_apply=summed)
    module = b.build(b.tuple(r, b.iota(shape=xl.s32[3], iota_dimension=0)))
    xl.verify(module)
    assert r.shape == xl.f32[3]
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    total, counted = xl.evaluate(module, value)
    assert np.array_equal(total, value.sum(1))
    assert np.array_equal(counted, [0, 1, 2])
    assert xl.parse(str(module)).to_text() == str(module)


def test_metadata_has_the_callers_line():
    b = xl.Builder("m")
    x = b.parameter(xl.f32[()])
    assert x.metadata.source_file == __file__


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda b, x: b.add(x), "takes 2 operands, found 1"),
        (lambda b, x: b.add(x, b.parameter(xl.f32[3])), "different dimensions"),
        (lambda b, x: b.transpose(x), "needs dimensions"),
        (lambda b, x: b.transpose(x, dims=(0,)), "no attribute 'dims'"),
        (lambda b, x: b.bitcast(x), "cannot be inferred"),
    ],
)
def test_mistakes_are_shape_errors(make, message):
    b = xl.Builder("m")
    with pytest.raises(xl.ShapeError, match=message):
        make(b, b.parameter(xl.f32[2]))


def test_unknown_opcode_has_a_hint():
    with pytest.raises(AttributeError, match="'reduce'"):
        xl.Builder("m").reduec()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda b, x: b.transpose(x, dimensions=(0.5,)), "dimensions is a tuple of integers"),
        (lambda b, x: b.compare(x, x, direction="LESS"), "direction cannot be 'LESS'"),
        (lambda b, x: b.add(x, 1.0), "takes instructions, found 1.0"),
        (lambda b, x: b.reduce(x, x, dimensions=(0,), to_apply="add"), "to_apply is a Computation"),
    ],
)
def test_attribute_values_are_checked(make, message):
    b = xl.Builder("m")
    x = b.parameter(xl.f32[4])
    with pytest.raises(xl.ShapeError, match=message):
        make(b, x)


def test_numpy_integers_are_integers():
    b = xl.Builder("m")
    y = b.transpose(b.parameter(xl.f32[4, 2]), dimensions=np.array([1, 0]))
    assert y["dimensions"] == (1, 0)
    assert xl.parse(str(b.build())).entry.root.shape.dims == (2, 4)


def test_operands_and_shapes_come_one_by_one_or_in_lists():
    b = xl.Builder("m")
    x, y = b.parameter(xl.f32[4]), b.parameter(xl.s32[()])
    pair = xl.tuple_shape(xl.f32[4], xl.s32[()])
    assert xl.tuple_shape([xl.f32[4], xl.s32[()]]) == pair
    made = [b.tuple(x, y), b.tuple([x, y]), b.emit("tuple", x, y), b.emit("tuple", (x, y))]
    shapes = [pair, [xl.f32[4], xl.s32[()]]]
    made += [b.custom_call("t", *operands, shape) for operands in ([x, y], [[x, y]]) for shape in shapes]
    made += [b.custom_call("t", *operands, shape=pair) for operands in ([x, y], [[x, y]])]
    for instruction in made:
        assert instruction.operands == (x, y) and instruction.shape == pair
    assert b.custom_call("t", [], xl.f32[4]).operands == () and b.custom_call("t", x, xl.f32[4]).operands == (x,)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda b, x: b.add(x, "x"), "found 'x'(.|\n)*a method of the builder returns, not its name"),
        (lambda b, x: b.add(x, xl.f32[4]), r"found f32\[4\](.|\n)*a parameter is b.parameter\(shape\)"),
        (lambda b, x: b.add(x, b.computation("f")), "found a ComputationBuilder(.|\n)*to_apply="),
        (lambda b, x: b.get_tuple_element(b.tuple(x), 0), "attributes have names: index=0"),
        (lambda b, x: b.transpose(x, (0,)), r"attributes have names: dimensions=\(0,\)"),
        (lambda b, x: b.add(x, x, shape=(4,)), r"add's result has a shape, found \(4,\)(.|\n)*xl.f32\[2, 3\]"),
        (lambda b, x: b.custom_call("t", [x, 3], xl.f32[4]), r"found 3(.|\n)*constants: b.constant"),
        (lambda b, x: b.custom_call("t", [x]), "needs the shape of its result"),
        (lambda b, x: b.custom_call("t", [x], xl.f32), r"found f32(.|\n)*a scalar's is xl.f32\[\(\)\]"),
        (lambda b, x: b.custom_call("t", [x], "f32[4]"), "found 'f32"),
        (lambda b, x: b.custom_call(len, [x], xl.f32[4]), "name of a target(.|\n)*registered under a name"),
        (lambda b, x: b.custom_call("t", x, xl.f32[4], opaque={}), "text or bytes as opaque, found {}"),
        (lambda b, x: b.custom_call("t", x, xl.f32[4], backend_config=""), "it is opaque="),
        (lambda b, x: b.custom_call("t", x, xl.f32[4], api_version="typed-ffi"), "mean 'API_VERSION_TYPED_FFI'"),
        (lambda b, x: b.custom_call("t", x, xl.f32[4], output_to_operand_aliasing={(): 0}), "tuple of Alias"),
        (lambda b, x: b.parameter(np.zeros((2, 3), np.int8)), r"the shape of this array is xl.s8\[2, 3\]"),
        (lambda b, x: b.build((x, x)), r"several results: b.tuple\(x, y\)"),
        (lambda b, x: xl.tuple_shape([xl.f32, xl.s32]), r"found f32(.|\n)*xl.f32\[2, 3\]"),  # type: ignore
    ],
)
def test_wrong_uses_have_hints_that_fit(make, message):
    b = xl.Builder("m")
    with pytest.raises(xl.ShapeError, match=message):
        make(b, b.parameter(xl.f32[4]))
