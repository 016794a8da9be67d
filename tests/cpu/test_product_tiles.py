"""Tiles of products, by the registers that there are."""

from __future__ import annotations

import re

import pytest

import xloom as xl
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.packed_pairs import PairArithmetic
from xloom.cpu.kernels.matmul.tile import extent
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.hlo.dtype import DType, c64, f32, s32
from xloom.llvm.target import target_named


@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (16, 512, (4, 3)),
        (32, 512, (4, 3)),
        (30, 512, (6, 2)),
        (128, 512, (6, 2)),
        (8, 512, (4, 3)),
        (16, 32, (6, 2)),
        (28, 128, (6, 2)),
        (28, 192, (4, 3)),
    ],
)
def test_tiles_of_sixteen_registers_leave_little_over(rows: int, columns: int, tile: tuple[int, int]):
    arithmetic = Arithmetic(f32, target_named("x86-64-v3"))
    assert extent(arithmetic, rows, columns, arithmetic.few_sums) == tile


def test_pairs_of_products_have_a_register_before_they_are_added():
    arithmetic = PairArithmetic(s32, target_named("x86-64-v3"))
    assert extent(arithmetic, 16, 512, arithmetic.few_sums) == (6, 2)


@pytest.mark.parametrize("dtype", [f32, c64])
def test_a_tile_and_what_is_added_to_it_fit_the_registers(dtype: DType):
    arithmetic = Arithmetic(dtype, target_named("x86-64-v3"))
    parts = arithmetic.parts
    for rows, columns in ((128, 128), (4, 256), (300, 70)):
        tall, vectors = extent(arithmetic, rows, columns, arithmetic.few_sums)
        kept = min(tall, vectors)
        # the fewer ones of either operand, one of the other, and a negated part
        assert parts * (tall * vectors + kept + 1) + (parts - 1) <= arithmetic.target.registers.count


@pytest.mark.parametrize("size", [700, 1000, 1500, 2000])
def test_two_threads_have_as_many_blocks_of_a_product(size: int):
    text = f"""HloModule m
    ENTRY e {{ a = f64[{size},{size}] parameter(0) b = f64[{size},{size}] parameter(1)
      ROOT c = f64[{size},{size}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    found = re.search(r"(\d+) items shared", kernel_choices_text(xl.parse(text), ["c"], target_named("x86-64-v3")))
    assert found is not None
    assert int(found[1]) % 2 == 0
