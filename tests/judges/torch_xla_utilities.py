"""What pytorch/xla's tests use of that package's own utilities, for the child of torch_suites.py."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any


def as_list(value: Any) -> list[Any]:
    """A tuple or list as a list, anything else as the one element of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def getenv_as(name: str, type: Callable[[str], Any], defval: Any = None) -> Any:
    """A variable of the environment, converted."""
    given = os.environ.get(name)
    return defval if given is None else type(given)


def timed(function: Callable[[], Any], msg: str = "", printfn: Callable[[str], Any] | None = print) -> Any:
    """Calls a function and prints how long it took."""
    with TimedScope(msg, printfn):
        return function()


class TimedScope:
    """Prints how long a block took."""

    def __init__(self, msg: str = "", printfn: Callable[[str], Any] | None = print):
        self.msg = msg
        self.printfn = printfn

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: Any) -> None:
        if self.printfn is not None:
            self.printfn(f"{self.msg}{time.perf_counter() - self.start:.3f}s")


class SampleGenerator:
    """The same data, so many times."""

    def __init__(self, data: Any, sample_count: int):
        self._data = data
        self._count = sample_count

    def __iter__(self) -> Iterator[Any]:
        return iter([self._data] * self._count)

    def __len__(self) -> int:
        return self._count


class FnDataGenerator:
    """Batches of what `gen_tensor` makes, with what `function` makes of them."""

    def __init__(
        self, function: Callable[[Any], Any], batch_size: int, gen_tensor: Any, dims: Any = None, count: int = 1
    ):
        self._pairs = []
        for _ in range(count):
            data = gen_tensor(batch_size, *(dims or []))
            self._pairs.append((data, function(data)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)
