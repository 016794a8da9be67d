"""Memory that tensors share, as values: a storage has one at a time, and views are functions of it.

Writing to a storage gives it another value. Writing to a view gives its base the value with that part replaced. A
view's value is made when it is read, and made again only after a write.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.tensor.array_type import ArrayType

_ADDRESSES = itertools.count(1 << 48, 1 << 40)
"""Further apart than memory is large, and where no process has any."""


class Storage:
    """What a tensor that is no view holds. Its value is row-major; the type's strides say how memory is ordered."""

    __slots__ = ("_address", "_value", "make", "notes", "readers", "type", "version")

    moves_only = True
    overlaps = False
    through: frozenset[Any] = frozenset()

    def __init__(self, type: ArrayType, value: Value | None = None, make: Callable[[], Value] | None = None):
        self.type = type
        self._value = value
        self.make = make
        """Makes the value that memory has before it is first written to."""
        self.version = 0
        self.readers: list[ref[View]] | None = None
        """The views that have made values of it, from when it was first given back on: who holds a value keeps it."""
        self.notes: Any = None
        """What was written to its stretches (views/stretches.py) since it was last read."""
        self._address = 0

    @property
    def address(self) -> int:
        """A number that tells this memory from all other, as an address does; there is nothing to be read at it."""
        if not self._address:
            self._address = next(_ADDRESSES)
        return self._address

    def read(self) -> Value:
        """The value now."""
        value = self._value
        if value is None:
            assert self.make is not None
            value = self._value = self.make()
        return value

    @property
    def is_untouched(self) -> bool:
        """Whether it has no value, as no operator has read or written it."""
        return self._value is None and self.__class__ is Storage and self.readers is None and self.notes is None

    @property
    def has_value(self) -> bool:
        """Whether it needs not be made."""
        return self._value is not None

    def taken(self) -> Callable[[], Value]:
        """What makes its value of now, which it no longer has itself."""
        value, make = self._value, self.make
        if value is None and make is not None:
            return _gone() if make is _gone else make
        assert value is not None
        self._value = None
        return lambda: value

    def ready(self) -> Value | None:
        """The value now, if it is in a buffer."""
        value = self._value
        return None if value is None or value.buffer is None else value

    def write(self, value: Value) -> None:
        """Replaces the value, by one of the same type."""
        self._value = value
        self.version += 1

    @property
    def is_given_back(self) -> bool:
        """Whether it has no memory now."""
        return self.make is _gone

    def give_back(self) -> None:
        """Has no value, nor do its views, until it is taken again."""
        for reader in self.readers or ():
            if (view := reader()) is not None:
                view.forget()
        self.readers = []
        self.make = _gone
        self._value = self.notes = None
        self.version += 1

    def take_again(self, make: Callable[[], Value]) -> None:
        """Has memory again, with what `make` makes."""
        self.make = make

    @property
    def storage(self) -> Storage:
        """Itself."""
        return self


def _gone() -> NoReturn:
    raise RuntimeError("this tensor's memory was given back: its storage was made 0 bytes large")


class Grown(Storage):
    """Memory that has grown since tensors were made over it: `inner` is what it was, in the memory that it is now."""

    __slots__ = ()

    def read(self) -> Value:
        """The value now."""
        return self._inner.read()

    def ready(self) -> Value | None:
        """None: where it lies in the larger memory is for a program."""
        return None

    def write(self, value: Value) -> None:
        """Replaces this part of the larger memory."""
        self._inner.write(value)

    @property
    def _inner(self) -> View:
        return self.make  # type: ignore[return-value]

    @property
    def version(self) -> int:  # type: ignore[override]
        """That of the larger memory, beyond all those from before."""
        return self._inner.storage.version + (1 << 40)

    @property
    def address(self) -> int:
        """That of the larger memory."""
        return self._inner.storage.address

    @property
    def storage(self) -> Storage:
        """The larger memory."""
        return self._inner.storage.storage


class View:
    """A part of `base`, or all of it in another order or shape: `forward` takes it out, `inverse` puts it back.

    What is made of elements that overlap goes back by `memory`, a view of the storage itself: the base has each of them
    many times, and would put back all of those.
    """

    __slots__ = (
        *("__weakref__", "_value", "_version", "base", "forward", "inverse", "memory", "moves_only"),
        *("overlaps", "storage", "through", "type"),
    )

    def __init__(
        self,
        base: Storage | View,
        type: ArrayType,
        forward: Callable[[Value], Value],
        inverse: Callable[[Alias, Value], Value],
        moves_only: bool = True,
        changes: Any = None,
    ):
        """`moves_only`: its elements are elements of the base, unchanged; `changes` is what is its own inverse."""
        self.base = base
        self.storage: Storage = base.storage
        self.type = type
        self.forward = forward
        self.inverse = inverse
        self.memory: Callable[[], View] | None = None
        self.overlaps = base.overlaps or type.overlaps
        """Whether it, or what it is made of, has several elements at one place."""
        self.through: frozenset[Any] = base.through if changes is None else base.through ^ {changes}
        """What is between the elements of memory and its own: conjugation and negation."""
        self.moves_only = moves_only and base.moves_only
        self._value: Value | None = None
        self._version = -1

    def read(self) -> Value:
        """The value now."""
        if self._version != self.storage.version or self._value is None:
            self._keep(self.forward(self.base.read()))
        return self._value  # type: ignore[return-value]

    def write(self, value: Value) -> None:
        """Replaces this part of the base."""
        if self.memory is None:
            self.base.write(self.inverse(self.base, value))
        else:
            self.memory().write(value)
        if not self.type.overlaps:
            self._keep(value)

    def forget(self) -> None:
        """Holds no value: it is made when it is next read."""
        self._value = None

    def _keep(self, value: Value) -> None:
        storage = self.storage
        self._value = value
        self._version = storage.version
        if storage.readers is not None:
            storage.readers.append(ref(self))


Alias = Storage | View
