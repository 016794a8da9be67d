"""The functions that sorts by vectors call, each in a module that depends on no shape.

What writes them is imported where that has to be done, which is seldom: it takes longer than to read what was written.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.signatures import (
    BACK,
    CONVERT,
    NETWORK,
    NUMBER,
    PAIR,
    RESTORE,
    SORT,
    bound_type,
    network_symbol,
    scan_type,
    sort_symbol,
)


def network(kernel: Kernel, bits: int) -> ir.Function:
    """The bitonic network."""

    def write() -> str:
        from xloom.cpu.kernels.sort.bitonic import network_module

        return network_module(bits)

    return kernel.need_routine(network_symbol(bits), NETWORK, write)


def quicksort(kernel: Kernel, bits: int, apart: bool = False) -> ir.Function:
    """The quicksort, which calls the network."""

    def write() -> str:
        from xloom.cpu.kernels.sort.quicksort import quicksort_module

        return quicksort_module(bits, apart)

    network(kernel, bits)
    return kernel.need_routine(sort_symbol(bits, apart), SORT, write)


def conversions(kernel: Kernel, key: ElementKey) -> tuple[ir.Function, ir.Function, ir.Function | None]:
    """`convert` and `back`, and `restore` where that can be needed."""

    def write() -> str:
        from xloom.cpu.kernels.sort.key_conversion import conversion_module

        return conversion_module(key)

    convert = kernel.need_routine(key.convert_symbol, CONVERT, write)
    back = ir.Function(kernel.module, BACK, key.back_symbol)
    return convert, back, ir.Function(kernel.module, RESTORE, key.restore_symbol) if key.equal_zeros else None


def scan(kernel: Kernel, key: ElementKey) -> ir.Function:
    """`scan` of elements with such keys."""

    def write() -> str:
        from xloom.cpu.kernels.sort.key_scan import scan_module

        return scan_module(key)

    return kernel.need_routine(key.scan_symbol, scan_type(key.dtype.bits), write)


def bound(kernel: Kernel, key: ElementKey, vectors: int) -> ir.Function:
    """`bound` of elements with such keys, by the lanes of so many vectors."""

    def write() -> str:
        from xloom.cpu.kernels.sort.key_bound import bound_module

        return bound_module(key, vectors)

    return kernel.need_routine(key.bound_symbol(vectors), bound_type(key.dtype.bits), write)


def number(kernel: Kernel, key: ElementKey) -> ir.Function:
    """`number` of elements with such keys."""

    def write() -> str:
        from xloom.cpu.kernels.sort.numbered_keys import number_module

        return number_module(key)

    return kernel.need_routine(key.number_symbol, NUMBER, write)


def pair(kernel: Kernel, key: ElementKey) -> ir.Function:
    """`pair` of elements with such keys."""

    def write() -> str:
        from xloom.cpu.kernels.sort.numbered_keys import pair_module

        return pair_module(key)

    return kernel.need_routine(key.pair_symbol, PAIR, write)
