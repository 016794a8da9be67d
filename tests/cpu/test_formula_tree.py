"""Formulas that begin alike, and are kept as a tree."""

import random

from xloom.llvm.formula_tree import FormulaTree
from xloom.llvm.symbolic_dimension import SymbolicDimensions, least


def written(values):
    """The formula of a rule that decides by its sizes, as rules do: early and late, by ranges and by single numbers."""
    sizes = SymbolicDimensions(values)
    a, b, c = sizes.symbols
    tall = -(-a // -(-a // 14))
    kind = int(tall) if a > 40 else 0
    sizes.row([17, kind, a * 3])
    if b % 4 == 0:
        sizes.row([least(b, 100 + kind)])
    pieces = -(-c // (int(least(b // 16, 5)) if b >= 16 else 3))
    return sizes.formula([pieces, 1000 + kind], [least(a, c)] if c < a else [])


def test_a_tree_finds_what_its_formulas_say():
    numbers = random.Random(0)
    tree, formulas = FormulaTree(), []
    for _ in range(400):
        shape = tuple(numbers.randint(1, 120) for _ in "abc")
        serving = [k for k, formula in enumerate(formulas) if formula.of(shape) is not None]
        if not serving:
            assert FormulaTree(tree.data).find(shape) is None
            serving = [len(formulas)]
            formulas.append(written(shape))
            tree.add(formulas[-1], serving[0])
        assert FormulaTree(tree.data).find(shape) == (written(shape).of(shape), serving[0])
    assert 10 < len(formulas) < 200 and len(tree) < 3 * len(formulas)


def test_a_formula_replaces_one_of_the_same_steps():
    tree = FormulaTree()
    for content in ("first", "second"):
        tree.add(written((50, 20, 30)), content)
    assert tree.find((50, 20, 30)) == (written((50, 20, 30)).of((50, 20, 30)), "second")


def test_a_formula_without_steps():
    tree = FormulaTree()
    assert tree.find((5,)) is None
    tree.add(SymbolicDimensions([3]).formula([7]), "served")
    assert tree.find((5,)) == ([[], [7]], "served")


def test_a_threshold_is_no_float_where_it_is_the_integer_of_a_result():
    sizes = SymbolicDimensions([2])
    assert sizes.symbols[0] > 1.0
    tree = FormulaTree()
    tree.add(sizes.formula([1]), "served")
    assert str(tree.find((2,))) == "([[], [1]], 'served')"
