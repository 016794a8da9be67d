"""The functions that sorts by vectors call, on any processor: LLVM makes of vectors what there is."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_conversion import conversion_module
from xloom.cpu.kernels.sort.key_scan import scan_module
from xloom.cpu.kernels.sort.numbered_keys import number_module, pair_module
from xloom.cpu.kernels.sort.quicksort import quicksort_module
from xloom.cpu.kernels.sort.signatures import NETWORK, network_symbol, sort_symbol
from xloom.hlo.dtype import DTYPES
from xloom.llvm import jit
from xloom.llvm.loop import loop
from xloom.llvm.masked_lanes import lane_count, leading_lanes, mask_bits
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import exported_function, read, write
from xloom.llvm.types import I64, POINTER, VOID

RNG = np.random.default_rng(5)
NANS = {"bf16": 0x7FC0, "f16": 0x7E00, "f32": 0x7FC00000, "f64": 0x7FF8 << 48}
POINTERS = {np.ndarray: ctypes.c_void_p, int: ctypes.c_int64, bool: ctypes.c_bool}


def call(library, symbol, *arguments, result=None):
    """A function of a library, on arrays, numbers (i64) and flags."""
    kinds = [POINTERS[type(a)] for a in arguments]
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    return library.function(symbol, ctypes.CFUNCTYPE(result, *kinds))(*values)


def linked(*texts, exports):
    return jit.Library([jit.process_code(text, PassPipeline.ROUTINES) for text in texts], exports)


def shell_sort(bits):
    """In the place of the network, which only some processors have instructions for."""
    module, kind = ir.Module(), ir.IntType(bits)
    out = exported_function(module, NETWORK, network_symbol(bits))
    b = ir.IRBuilder(out.append_basic_block("entry"))
    array, count = out.args
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        with loop(b, gap, count) as i, loop(b, 0, b.udiv(i, I64(gap))) as k:
            j = b.sub(i, b.mul(k, I64(gap)))
            before = b.sub(j, I64(gap))
            x, y = read(b, array, kind, before), read(b, array, kind, j)
            ordered = b.icmp_unsigned("<=", x, y)
            write(b, array, before, b.select(ordered, x, y))
            write(b, array, j, b.select(ordered, y, x))
    b.ret_void()
    return str(module)


@pytest.mark.parametrize(("bits", "apart"), [(16, False), (32, False), (64, False), (64, True)])
@pytest.mark.parametrize("values", ["any", "few", "one", "far apart"])
def test_quicksort(bits, apart, values):
    symbol = sort_symbol(bits, apart)
    library = linked(shell_sort(bits), quicksort_module(bits, apart), exports=[symbol])
    word = np.dtype(f"u{bits // 8}")
    for size in (5, 40_001):
        x = RNG.integers(0, 1 << bits, size, dtype=word, endpoint=False)
        if values == "few":
            x = x[RNG.integers(0, min(size, 9), size)]
        elif values == "one":
            x = np.full(size, x[0])
        elif values == "far apart":
            x >>= RNG.integers(0, bits, size).astype(word)
        half = np.dtype(f"u{bits // 16}")
        halves = np.stack([x >> word.type(bits // 2), x]).astype(half)
        for once in (True, False):
            memory = halves if apart else x
            distance = half.itemsize * size if apart else 0
            lesser = call(library, symbol, memory, distance, size, False, once, result=ctypes.c_int64)
            found = (halves[0].astype(word) << word.type(bits // 2)) | halves[1] if apart else memory
            if once and lesser:
                assert found[:lesser].max() < found[lesser:].min()
        np.testing.assert_array_equal(found, np.sort(x))


def keys(name):
    dtype = DTYPES[name]
    for descending in (False, True):
        yield ElementKey(dtype, descending)
        if dtype.is_float:
            yield ElementKey(dtype, descending, equal_zeros=True)
            yield ElementKey(dtype, descending, equal_zeros=True, nan=NANS[name])


def elements(name, size):
    """Of any bits, with zeros of both signs and NaNs."""
    dtype = DTYPES[name]
    width = 8 * dtype.bytes
    x = RNG.integers(0, 1 << width, size, dtype=f"u{dtype.bytes}", endpoint=False)
    x[::5], x[1::7] = 0, 1 << (width - 1)
    if dtype.is_float:
        x[2::7] = NANS[name] | 1
    return x


def expected(key, bits):
    sign = 1 << (key.dtype.bits - 1)
    if key.equal_zeros and bits == sign:
        bits = 0
    if key.nan is not None and bits % sign > sign - (1 << key.dtype.mantissa_bits):
        bits = key.nan
    return key.integer(bits)


@pytest.mark.parametrize("name", ["s8", "u16", "s32", "u64", "bf16", "f16", "f32", "f64"])
def test_keys_of_elements(name):
    for key in keys(name):
        library = linked(conversion_module(key), exports=[key.convert_symbol, key.back_symbol])
        for size in (3, 64, 1000):
            x = elements(name, size)
            made, back = np.zeros_like(x), np.zeros_like(x)
            changed = call(library, key.convert_symbol, x, made, size, result=ctypes.c_bool)
            assert made.tolist() == [expected(key, bits) for bits in x.tolist()]
            call(library, key.back_symbol, made, back, size)
            assert changed == (back != x).any()
            assert [expected(key, bits) for bits in back.tolist()] == made.tolist()
            assert changed == key.equal_zeros


@pytest.mark.parametrize("name", ["bf16", "f32", "f64"])
def test_equal_elements_are_restored_in_their_order(name):
    for key in keys(name):
        if not key.equal_zeros:
            continue
        library = linked(conversion_module(key), exports=[key.convert_symbol, key.back_symbol, key.restore_symbol])
        x = elements(name, 1000)
        made = np.zeros_like(x)
        call(library, key.convert_symbol, x, made, len(x), result=ctypes.c_bool)
        order = np.argsort(made, kind="stable")
        made = made[order]
        call(library, key.back_symbol, made, made, len(x))
        call(library, key.restore_symbol, x, len(x), made, 0, len(x))
        np.testing.assert_array_equal(made, x[order])


@pytest.mark.parametrize("name", ["s32", "u32", "f32"])
def test_numbered_keys(name):
    for key in keys(name):
        symbols = [key.number_symbol, key.pair_symbol, key.scan_symbol]
        library = linked(number_module(key), pair_module(key), scan_module(key), exports=symbols)
        x = elements(name, 100)
        wanted = np.array([expected(key, bits) for bits in x.tolist()], np.uint32)
        numbers = np.arange(100, dtype=np.uint32)
        records = np.zeros(100, np.uint64)
        call(library, key.number_symbol, x, records, 3, 97)
        np.testing.assert_array_equal(records[3:97], (wanted.astype(np.uint64) << 32 | numbers)[3:97])
        made, places = np.zeros_like(x), np.zeros_like(x)
        call(library, key.pair_symbol, x, made, places, 3, 97)
        np.testing.assert_array_equal(made[3:97], wanted[3:97])
        np.testing.assert_array_equal(places[3:97], numbers[3:97])
        assert not [a for a in (*records[:3], *records[97:], *made[:3], *made[97:]) if a]
        limit = np.sort(wanted)[1]
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32)
        found = library.function(key.scan_symbol, kind)(x.ctypes.data, 3, 100, limit)
        behind = [n for n in range(3, 100, 16) if (wanted[n : n + 16] < limit).any()]
        assert found == (behind[0] if behind else 100)


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_masks_of_leading_lanes(lanes):
    module = ir.Module()
    out = exported_function(module, ir.FunctionType(VOID, [I64, POINTER]), "mask")
    b = ir.IRBuilder(out.append_basic_block("entry"))
    mask = leading_lanes(b, lanes, out.args[0])
    write(b, out.args[1], I64(0), b.zext(mask_bits(b, mask), I64))
    write(b, out.args[1], I64(1), lane_count(b, mask))
    b.ret_void()
    library = linked(str(module), exports=["mask"])
    for count in (-(1 << 40), -1, 0, 1, lanes - 1, lanes, lanes + 1, 1 << 40):
        found = np.zeros(2, np.uint64)
        call(library, "mask", count, found)
        some = min(max(count, 0), lanes)
        assert found.tolist() == [(1 << some) - 1, some]
