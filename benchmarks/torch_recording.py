"""What it takes to record an operator on the device `xla`, and where that time goes, against eager mode.

    python -m benchmarks.torch_recording [--calls 2000] [--rounds 15]

Times are of the process, medians of rounds in which all rows take turns; nothing that is recorded is run meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import xloom.torch
from xloom.torch.lazy.recording.table import HANDLERS
from xloom.torch.lazy.tensor.tensor import DEVICE, tensor_of

_make = torch.Tensor._make_wrapper_subclass  # type: ignore[attr-defined]


def _new(kind: type) -> Any:
    return _make(kind, (4,), None, None, None, torch.float32, torch.strided, DEVICE)


class _Given(torch.Tensor):
    """Whatever is done with it, the result is one that is there."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    result: Any = None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls.result


class _Made(torch.Tensor):
    """Whatever is done with it, the result is a new one."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _new(_Made)


def measured(rows: dict[str, Callable[[], Any]], calls: int, rounds: int) -> dict[str, float]:
    """Microseconds a call, of each row."""
    found: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, call in rows.items():
            gc.disable()
            start = time.process_time()
            for _ in range(calls):
                call()
            found[name].append((time.process_time() - start) / calls * 1e6)
            gc.enable()
            xloom.torch.sync()
    return {name: statistics.median(times) for name, times in found.items()}


def product() -> dict[str, Callable[[], Any]]:
    """A product of two small tensors: on the host, up to Python, and on the device."""
    a, b = torch.ones(4), torch.ones(4)
    x, y = a.to(DEVICE), b.to(DEVICE)
    given, made = (_new(_Given), _new(_Given)), (_new(_Made), _new(_Made))
    _Given.result = given[0]
    _ = x * y
    handler, value = HANDLERS[id(torch.ops.aten.mul.Tensor)], x._alias.read()  # type: ignore[attr-defined]
    mul = torch.mul
    return {
        "eager mode": lambda: mul(a, b),
        "a tensor subclass, up to Python and back": lambda: mul(*given),
        "the same, and a new tensor": lambda: mul(*made),
        "the device": lambda: mul(x, y),
        "  of which it records and makes a tensor": lambda: handler((x, y), None),
        "    of which it makes a tensor": lambda: tensor_of(value),
        "  an empty loop's call": lambda: None,
    }


def with_new_numbers() -> dict[str, Callable[[int], Any]]:
    """Operators with a number that another call need not have had."""
    x, whole = torch.ones(4096, 4).to(DEVICE), torch.ones(4, dtype=torch.int64).to(DEVICE)
    return {
        "x[i]": lambda i: x[i],
        "x[i] + 1": lambda i: x[i] + 1,
        "x.narrow(0, i, 2)": lambda i: x.narrow(0, i, 2),
        "x * (i + 0.5)": lambda i: x * (i + 0.5),
        "x * i": lambda i: x * i,
        "whole > i": lambda i: whole > i,
        "whole.clamp(max=i)": lambda i: whole.clamp(max=i),
        "x[i] = 1": lambda i: x[i].fill_(1),
        "x.roll(i)": lambda i: whole.roll(i),
    }


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("a product of two tensors of 4 elements, microseconds")
    for name, microseconds in measured(product(), options.calls, options.rounds).items():
        print(f"  {name:44} {microseconds:6.2f}")
    print("an operator with another number each time, microseconds: the first 100 times, and again")
    for name, call in with_new_numbers().items():
        times: list[list[float]] = [[], []]
        for number in range(3):
            call(number)
            xloom.torch.sync()
        for again in times:
            for number in range(3, 103):
                start = time.process_time()
                result = call(number)
                again.append((time.process_time() - start) * 1e6)
                del result
                xloom.torch.sync()
        print(f"  {name:44} {statistics.median(times[0]):6.1f} {statistics.median(times[1]):6.1f}")


if __name__ == "__main__":
    main()
