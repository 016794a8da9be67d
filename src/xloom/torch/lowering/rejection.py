"""Random numbers by rejection: an element is proposed for as often as it is refused.

A round for all elements takes as long however few of them wait, and the unluckiest waits for many. So of many elements
only the first round is for all; those that it refuses are brought together, and the other rounds are for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.cumulative import running_sum
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.index import take_flat
from xloom.torch.lowering.loops import while_any
from xloom.torch.lowering.scatter import put_flat

Propose = Callable[[Graph, list[Instruction]], tuple[Instruction, Instruction]]
"""A value for each element, of the parameters', and whether it is refused (pred)."""
_MANY = 1 << 9
"""Elements among which those that are refused are worth being brought together."""
_SHARE = 3
"""One of so many elements is refused at the most, or else there is another round for all."""


def accepted_values(
    g: Graph, propose: Propose, parameters: Sequence[Instruction], done: Instruction, dtype: dt.DType
) -> Instruction:
    """The first value of each element that is not refused; anything where it is `done` to begin with."""
    count, dims = done.shape.size, done.shape.dims
    flat = [g.reshape_to(each, (count,)) for each in (done, *parameters)]
    state = [g.full((count,), 0, dtype), *flat]

    def round_of_all(h: Graph, state: list[Instruction]) -> list[Instruction]:
        value, done, *parameters = state
        proposed, refused = propose(h, parameters)
        return [h.select(done, value, proposed), h.or_(done, h.not_(refused)), *parameters]

    def rounds(h: Graph, state: list[Instruction]) -> list[Instruction]:
        return while_any(h, lambda h, state: h.not_(state[1]), round_of_all, state, draws=True)

    def round_and_rest(h: Graph, state: list[Instruction]) -> list[Instruction]:
        value, done, *parameters = round_of_all(h, state)
        places = _places(h, h.not_(done), count // _SHARE)
        rest = [take_flat(h, each, places) for each in (value, done, *parameters)]
        found, settled, *_ = rounds(h, rest)
        return [put_flat(h, value, places, found), put_flat(h, done, places, settled), *parameters]

    change = round_and_rest if count >= _MANY else round_of_all
    value = while_any(g, lambda h, state: h.not_(state[1]), change, state, draws=True)[0]
    return g.reshape_to(value, dims)


def _places(g: Graph, wanted: Instruction, most: int) -> Instruction:
    """Where the first elements are that are `wanted`, and beyond them all where there are fewer than `most`."""
    count = wanted.shape.size
    number = g.subtract(running_sum(g, g.cast(wanted, dt.s32), 0), g.full((count,), 1, dt.s32))
    number = g.select(wanted, number, g.full((count,), most, dt.s32))
    return put_flat(g, g.full((most,), count, dt.s32), number, g.iota_along((count,), 0, dt.s32))
