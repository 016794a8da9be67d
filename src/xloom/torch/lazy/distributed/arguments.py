"""What a collective requires of its tensors, said before anything is sent: others would wait, or read anything."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def check_root(root: int, size: int) -> None:
    """It is a member."""
    if not 0 <= root < size:
        raise ValueError(f"the root of a collective is {root}, in a group of {size} processes")


def check_peer(peer: int, own: int, size: int) -> None:
    """It is another member: for one that is none Gloo waits as long as it may, and the next time ends the process."""
    if peer == own or not 0 <= peer < size:
        raise ValueError(f"rank {own} of a group of {size} processes cannot send to rank {peer}, nor receive from it")


def check_list(tensors: Sequence[Tensor], size: int) -> None:
    """There is a tensor for each member."""
    if len(tensors) != size:
        raise ValueError(f"a collective of {size} processes takes a list of a tensor for each, found {len(tensors)}")


def check_parts(whole: Tensor, part: Tensor, count: int = 1) -> None:
    """The whole has as many elements as so many parts, and their type."""
    if whole.dtype is not part.dtype or whole.numel() != count * part.numel():
        raise ValueError(
            f"a tensor of {whole.numel()} elements of {whole.dtype} is to be {count} of {part.numel()} of {part.dtype}"
        )


def rows_of(tensor: Tensor, counts: Sequence[int], size: int) -> list[int]:
    """How many of its rows belong to each member: as many to all where nothing is said."""
    rows = tensor.shape[0]
    if not counts:
        if rows % size:
            raise ValueError(f"{rows} rows are not as many for each of {size} processes: say how many each has")
        return [rows // size] * size
    if len(counts) != size:
        raise ValueError(f"{len(counts)} sizes of parts, for {size} processes")
    if min(counts) < 0 or sum(counts) != rows:
        raise ValueError(f"parts of {', '.join(map(str, counts))} rows are not the {rows} of the tensor")
    return list(counts)
