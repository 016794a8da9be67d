"""Writes through views of which several elements lie at one place: what the CPU writes, or its error."""

from itertools import product

import pytest
import torch

import xloom.torch  # noqa: F401

MAKES = {
    "unfold": lambda x: x.unfold(0, 3, 1),
    "as_strided": lambda x: x.as_strided((4, 3), (1, 1), 1),
    "expand": lambda x: x[:4, None].expand(4, 3),
    "unfold of a part": lambda x: x[1:].unfold(0, 3, 2),
    "two dimensions": lambda x: x.view(2, 4).unfold(1, 3, 1)[0],
    "of bits": lambda x: x.view(torch.int32).unfold(0, 3, 1).view(torch.float32),
    "of a conjugate": lambda x: torch.view_as_complex(x.view(4, 2)).conj().unfold(0, 2, 1).imag,
    "of real parts": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 2)).unfold(0, 2, 1))[..., 1],
}
THEN = {
    "all": lambda u: u,
    "select": lambda u: u[1],
    "column": lambda u: u[:, 1],
    "steps": lambda u: u[::2],
    "diagonal": lambda u: u.diagonal(),
    "transpose": lambda u: u.t()[0],
    "narrow, unsqueeze": lambda u: u.narrow(0, 1, 1).unsqueeze(0),
    "split": lambda u: u.split(1)[1],
    "detach, alias": lambda u: u.detach().movedim(0, 1)[1:],
}
WRITES = {
    "fill_": lambda v: v.fill_(7),
    "zero_": lambda v: v.zero_(),
    "add_": lambda v: v.add_(1),
    "mul_": lambda v: v.mul_(torch.arange(2.0, v.numel() + 2, device=v.device).view(v.shape)),
    "copy_": lambda v: v.copy_(torch.arange(float(v.numel())).view(v.shape)),
    "masked_fill_": lambda v: v.masked_fill_(torch.arange(v.shape[-1], device=v.device) > 0, 9.0),
    "index_put_": lambda v: v.index_put_((torch.tensor([0], device=v.device),), torch.tensor(5.0, device=v.device)),
    "scatter_": lambda v: v.scatter_(0, torch.zeros((1,) * v.dim(), dtype=torch.int64, device=v.device), 3.0),
    "cumsum_": lambda v: v.cumsum_(0),
    "out=": lambda v: torch.add(torch.ones(v.shape, device=v.device), 1, out=v),
    "setitem": lambda v: v.__setitem__(0, 4.0),
}


def after(device, make, then, write):
    x = torch.arange(1.0, 9.0, device=device)
    try:
        write(then(make(x)))
    except RuntimeError as error:
        return str(error)[:60]
    return x.tolist()


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("make", MAKES)
def test_a_view_is_written_as_on_the_cpu(make):
    for k, (then, write) in enumerate(product(THEN, WRITES)):
        case = MAKES[make], THEN[then], WRITES[write]
        if k % 4 == list(MAKES).index(make) % 4:
            assert after("xla", *case) == after("cpu", *case), (then, write)


def test_operands_that_lie_across_the_target():
    found = []
    for device in ("cpu", "xla"):
        x = torch.arange(1.0, 9.0, device=device)
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            x[1:].add_(x[:-1])
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            x.view(2, 4)[:, :2].mul_(1).copy_(x[:4].view(2, 2)), x[:4].view(2, 2).mul_(x[:4].view(2, 2).t())
        x[4:].add_(x[:4]).mul_(x[4:])
        found.append(x.tolist())
    assert found[1] == found[0]


def test_strides_over_memory_of_another_dtype():
    x = torch.zeros(4, device="xla")
    x.view(torch.int32).as_strided((2,), (2,), 1).fill_(0x3F800000)
    assert x.tolist() == [0, 1, 0, 1]


def test_a_part_of_an_overlapping_view_in_a_graph():
    def write(x):
        x.as_strided((3, 2), (1, 1))[1].add_(1)
        return x + 0

    compiled = torch.compile(write, backend="xloom")
    for dtype in (torch.float64, torch.int64, torch.complex64, torch.bfloat16):
        assert compiled(torch.arange(4).to(dtype)).tolist() == [0, 2, 3, 3]


def test_a_copy_of_a_view_begins_where_that_does():
    from copy import copy

    assert copy(torch.arange(4.0, device="xla")[2:]).as_strided((2,), (1,)).tolist() == [2, 3]


def test_out_resizes_a_view_in_the_memory_that_it_is_of():
    found = []
    for device in ("cpu", "xla"):
        x = torch.arange(8.0, device=device)
        part, rows = x[1:3], x.view(2, 4)[1]
        with pytest.warns(UserWarning, match="was resized"):
            torch.mul(torch.arange(5.0, device=device), 2, out=part)
        beyond = x[6:]
        with pytest.warns(UserWarning, match="was resized"):
            torch.add(torch.arange(4.0, device=device), 1, out=beyond)  # more than the memory has
        x.add_(10), beyond.mul_(2), rows.sub_(1), part.neg_()
        found.append([each.tolist() for each in (x, part, rows, beyond)])
    assert found[1] == found[0]


def test_out_resizes_parts_of_complex_memory():
    found = []
    for device in ("cpu", "xla"):
        z = torch.zeros(3, dtype=torch.complex64, device=device)
        with pytest.warns(UserWarning, match="was resized"):
            torch.add(torch.arange(7.0, device=device), 1, out=z.imag)
        found.append(z.tolist())
    assert found[1] == found[0]


def test_lists_of_which_one_tensor_lies_across_another():
    found = []
    for device in ("cpu", "xla"):
        x = torch.arange(6.0, device=device)
        torch.ops.aten._foreach_add_([x[::2], x[1::2]], [x[1::2], x[::2]])
        torch.ops.aten._foreach_mul_([x[:3], x[2:]], [2.0, 3.0])
        torch.ops.aten._foreach_addcmul_([x[:3], x[3:]], [x[3:], x[:3]], [x[:3], x[3:]], 0.5)
        found.append(x.tolist())
    assert found[1] == found[0]
