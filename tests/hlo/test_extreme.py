"""Programs deeper, wider and larger than anybody writes: a value, or an error that says where."""

import numpy as np
import pytest

import xloom as xl

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
