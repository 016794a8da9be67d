"""Programs deeper, wider and larger than anybody writes: a value, or an error that says where."""

import numpy as np
import pytest

import xloom as xl
from xloom.hlo.shape import tuple_shape

DEEP = 100_000
ENTRY = "ENTRY e { p = f32[4] parameter(0) "
NESTED = {
    "tuple shape": f"ENTRY e {{ ROOT p = {'(' * DEEP}f32[]{')' * DEEP} parameter(0) }}",
    "operands": f"{ENTRY} ROOT r = f32[4] {'negate(' * DEEP}p{')' * DEEP} }}",
    "metadata": f"{ENTRY} ROOT r = f32[4] negate(p), metadata={{{'{' * DEEP}{'}' * DEEP}}} }}",
    "constant": f"ENTRY e {{ ROOT c = {'(' * DEEP}f32[]{')' * DEEP} constant({'(' * DEEP}1{')' * DEEP}) }}",
}


@pytest.mark.parametrize("what", NESTED)
def test_nested_text(what):
    with pytest.raises(xl.ParseError, match="nested too deeply") as caught:
        xl.parse(NESTED[what])
    assert caught.value.span is not None


@pytest.mark.parametrize("depth", [10, 150])
def test_deep_tuples(depth):
    b = xl.Builder("deep")
    value = b.parameter(xl.f32[2])
    for _ in range(depth):
        value = b.tuple(value)
    module = b.build(value)
    given = np.array([1, 2], np.float32)
    again = xl.parse(str(module))
    assert str(again) == str(module) and again.entry.root.shape == module.entry.root.shape
    for result in (xl.evaluate(module, given), xl.compile(again)(given)):
        for _ in range(depth):
            (result,) = result
        assert np.array_equal(result, given)


@pytest.mark.parametrize("depth", [1000, DEEP])
def test_deeper_tuples(depth):
    shape = tuple_shape([])
    with pytest.raises(xl.ShapeError, match="nested too deeply"):
        for _ in range(depth):
            shape = tuple_shape([shape])


def test_many_operands_of_one_array():
    count = 20_000
    shape = ", ".join(["f32[4]"] * count)
    module = xl.parse(f"{ENTRY} ROOT r = ({shape}) tuple({', '.join(['p'] * count)}) }}")
    assert len(xl.evaluate(module, np.ones(4, np.float32))) == count


def test_more_dimensions_than_arrays_have():
    dims = ",".join(["1"] * 100)
    module = xl.parse(f"ENTRY e {{ p = f32[{dims}] parameter(0) ROOT n = f32[{dims}] negate(p) }}")
    with pytest.raises(xl.XloomError, match="100 dimensions"):
        xl.compile(module)


def test_a_literal_of_a_size_that_nothing_holds():
    with pytest.raises(xl.ParseError, match="expected 1000000000000 elements"):
        xl.parse("ENTRY e { ROOT c = f32[1000000000000] constant({1, 2, 3}) }")
