"""Views share memory: what is written to one is seen by all."""

import pytest
import torch

import xloom.torch
from xloom.pjrt import Client
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.memory_statistics import memory_allocated
from xloom.torch.lazy.runtime.streams import current_stream
from xloom.torch.metrics import METRICS


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """What is compiled is tested elsewhere."""
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)


VIEWS = {
    "transpose": lambda t: t.transpose(0, 1),
    "permute": lambda t: t.permute(2, 0, 1),
    "view": lambda t: t.view(4, 6),
    "slice": lambda t: t[:, 1:3],
    "strided slice": lambda t: t[..., ::2],
    "select": lambda t: t[1],
    "negative select": lambda t: t[:, -1],
    "unsqueeze": lambda t: t.unsqueeze(1),
    "diagonal": lambda t: t.diagonal(0, 1, 2),
    "unfold": lambda t: t.unfold(2, 2, 2),
    "unfold of a number": lambda t: t[1, 0, 2].unfold(0, 1, 1),
    "slice_inverse": lambda t: torch.slice_inverse(t[1:3], t, 0, 1, 3),
    "as_strided": lambda t: t.as_strided((3, 2), (5, 2), 1),
    "split": lambda t: t.split(2, 1)[1],
    "unbind": lambda t: t.unbind(2)[3],
    "chain": lambda t: t[1:].transpose(1, 2)[0, ::2].view(2, 3),
    "detach": lambda t: t.detach(),
    "nothing repeated": lambda t: t.expand(2, 3, 4)[0],
    "one of repeated": lambda t: t[:, :1].expand(2, 5, 4)[:, 2],
    "one of repeated, transposed": lambda t: t.unsqueeze(0).expand(3, 2, 3, 4).transpose(1, 3)[1, :, 1:],
    "view of storage": lambda t: t[1].as_strided((2, 2), (4, 1), 3),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_go_both_ways(name):
    view = VIEWS[name]
    results = []
    for device in ("cpu", "xla"):
        base = torch.arange(24.0, device=device).reshape(2, 3, 4).clone()
        part = view(base)
        before = part.clone()
        part.mul_(10)  # through the view
        base.add_(1)  # through the base
        part[0] = -1.0
        results.append([before, base, part, torch.tensor([*part.stride(), part.storage_offset()])])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_gradients_through_views_in_place():
    found = []
    for device in ("cpu", "xla"):
        x = torch.arange(6.0, device=device).reshape(2, 3).clone().requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y.t()[1] = 0
        (y**2).sum().backward()
        assert x.grad is not None
        found.append(x.grad.cpu())
    torch.testing.assert_close(*found)


def test_tensors_that_change_their_shape():
    x = torch.arange(6.0, device="xla").reshape(2, 3)
    assert x.unsqueeze_(0).shape == (1, 2, 3) and x.squeeze_(0).shape == (2, 3)
    assert x.t_().shape == (3, 2) and x.cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
    out = torch.empty(0, device="xla")
    torch.add(x, 1, out=out)
    assert out.shape == (3, 2) and out.sum().item() == 21


def test_what_torch_refuses_is_refused():
    x = torch.ones(3, 1, device="xla")
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(3, 2).add_(1)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.ones(2, 3, device="xla").t().view(6)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(torch.ones(3, 2, device="xla"))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, dtype=torch.int64, device="xla").add_(1.5)


def test_setting_data():
    x, y = torch.zeros(2, device="xla"), torch.ones(3, 2, device="xla")
    x.data = y
    assert x.shape == (3, 2) and x.sum().item() == 6
    y.zero_()
    assert x.sum().item() == 0


def test_memory_is_told_from_other_memory():
    x, y = torch.zeros(2, 3, device="xla"), torch.zeros(2, 3, device="xla")
    assert x.data_ptr() == x.t().data_ptr() == x[0].data_ptr() == x.detach().data_ptr()
    assert x[1].data_ptr() == x.data_ptr() + 3 * 4
    assert x.data_ptr() != y.data_ptr()
    assert x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr() == x.data_ptr()
    assert {x.untyped_storage(), x[1].untyped_storage()} == {x.untyped_storage()} != {x.clone().untyped_storage()}
    assert (x[1].untyped_storage().nbytes(), str(x.untyped_storage().device)) == (24, "xla:0")
    y.set_(x.untyped_storage(), 1, (2,), (3,))
    y.fill_(5)
    assert x.tolist() == [[0, 5, 0], [0, 5, 0]]


def test_memory_is_given_back_and_taken_again():
    x = torch.ones(256, 1024, device="xla") * 2
    part = x[1:3]
    assert (part + 1).sum().item() == 6144
    held = memory_allocated()
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == part.untyped_storage().nbytes() == 0
    assert memory_allocated() <= held - (1 << 20)
    with pytest.raises(RuntimeError, match="given back"):
        x.neg()
    with pytest.raises(RuntimeError, match="given back"):
        part.neg()
    with pytest.raises(NotImplementedError, match="8 bytes"):
        x.untyped_storage().resize_(8)
    x.untyped_storage().resize_(1 << 20)
    part.fill_(3)
    assert x.untyped_storage().size() == 1 << 20
    assert x.sum().item() == 6144
    x.record_stream(current_stream())  # type: ignore[arg-type]


def test_out_of_several_results_and_of_sizes_that_depend_on_values():
    x = torch.arange(6.0, device="xla")
    parts = [torch.empty(3, device="xla") for _ in range(2)]
    torch.split_copy(x, 3, out=parts)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    places = torch.empty(0, dtype=torch.int64, device="xla")
    torch.nonzero(x > 3, out=places)
    assert places.tolist() == [[4], [5]]


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: torch.linspace(0, 3, 4, out=out),
        lambda out: torch.arange(4, out=out),
        lambda out: torch.arange(0, 8, 2, out=out),
    ],
)
def test_ranges_are_written_to_parts_in_their_shape(fill):
    found = []
    for device in ("cpu", "xla"):
        x = torch.zeros(2, 3, device=device)
        fill(x[:, 1:])
        found.append(x.tolist())
    assert found[1] == found[0]
    assert fill(torch.empty(0, device="xla")).shape == (4,)


def test_the_parts_of_nothing():
    assert list(torch.empty(0, 3, device="xla")) == []


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("size", [0, 4, 9])
def test_out_that_is_resized_has_the_strides_that_a_kernel_chooses(size):
    def run(device):
        columns, memory = torch.arange(4.0, device=device).reshape(2, 2).t(), torch.zeros(size, device=device)
        out = memory[:]
        torch.add(columns, 1, out=out)
        return out, memory

    (out, memory), expected = run("xla"), run("cpu")
    assert out.stride() == expected[0].stride() == (1, 2)
    assert torch.equal(out.cpu(), expected[0])
    assert torch.equal(memory.cpu(), expected[1])


def _below_the_diagonal(x, w):
    t = x * 2
    view = t.view_as(x)
    t.transpose_(0, 1)
    view.tril_()  # autograd makes this view again, of what `t` was
    t.mul_(w)
    return (view * view).sum() + t.cos().sum()


def _of_a_view(x, w):
    t = (x * 2).view(9)[2:5]
    before = t * 1
    t.unsqueeze_(0)
    t.mul_(w)
    return t.sum() + before.sum()


def _permuted(x, w):
    t = x.exp().mean(0)
    view = t.permute(0)
    t.unsqueeze_(-1)
    return (view * view * w).sum() + t.sum()


def _saved(x, w):
    t = x * w
    y, view = t * t, t[0]
    t.t_()
    return y.sum() + view.sum()


def _of_a_leaf(x, w):
    view = x.t()
    view.unsqueeze_(0)
    return view.sum()


def _one_of_several(x, w):
    part = (x * w).split(2)[0]
    part.unsqueeze_(0)
    return part.sum()


@pytest.mark.parametrize("function", [_below_the_diagonal, _of_a_view, _permuted])
def test_views_have_gradients_after_their_base_has_other_dimensions(function):
    gradients = []
    for device in ("cpu", "xla"):
        x = (torch.arange(9.0).reshape(3, 3) / 4).to(device).requires_grad_()
        w = torch.tensor([1.0, -2.0, 3.0]).to(device).requires_grad_()
        gradients.append([each.cpu() for each in torch.autograd.grad(function(x, w), (x, w))])
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.allclose(ours, theirs)


@pytest.mark.parametrize("function", [_saved, _of_a_leaf, _one_of_several])
def test_what_autograd_forbids_of_bases_and_views_is_forbidden(function):
    messages = []
    for device in ("cpu", "xla"):
        x, w = (torch.ones(3, 3).to(device).requires_grad_() for _ in range(2))
        with pytest.raises(RuntimeError) as error:
            function(x, w).backward()
        messages.append(str(error.value)[:60])
    assert messages[0] == messages[1]


def test_memory_that_tensors_divide_takes_one_program():
    xloom.torch.sync()
    memory = torch.empty(10, device="xla")
    parts = [memory.as_strided((2, 3), (3, 1), 0), memory.as_strided((4,), (1,), 6)]
    programs = []
    for k in range(2):
        for part in parts:
            part.copy_(torch.full(part.shape, k + 0.5, device="xla"))
        xloom.torch.sync()
        programs.append(METRICS.programs)
    assert memory.tolist() == [1.5] * 10
    assert programs[0] == programs[1]


def test_memory_that_tensors_divide_is_zeros_where_nothing_was_written():
    memory = torch.empty(5, device="xla")
    memory.as_strided((2,), (1,), 1).fill_(3)
    assert memory.tolist() == [0, 3, 3, 0, 0]


def test_a_base_is_not_read_where_all_of_it_is_overwritten():
    x = torch.ones(2, 3).to("xla")
    memory = torch.empty(6, device="xla")
    before = METRICS.operators
    memory.view(2, 3).copy_(x)
    assert METRICS.operators == before + 1  # a reshape
    assert memory.tolist() == [1.0] * 6


@pytest.mark.parametrize("view", [torch.as_strided, torch.as_strided_copy])
def test_strides_that_reach_beyond_memory_are_an_error(view):
    def complaint(device):
        with pytest.raises(RuntimeError, match="out of bounds for storage of size") as caught:
            view(torch.ones(6, device=device)[2:], (2, 2), (2, 1), 3)
        return str(caught.value)

    assert complaint("xla") == complaint("cpu")
    assert view(torch.arange(6.0, device="xla")[:0], (2,), (2,), 1).tolist() == [1, 3]


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view_as(x),
        lambda x: x[1:],
        lambda x: x.reshape(2, 3),
        lambda x: x.split(2)[1],
        lambda x: x.expand(2, 6),
        lambda x: x.unflatten(0, (2, 3)),
    ],
)
def test_views_of_ordinary_tensors_are_ordinary_in_inference_mode(view, device):
    x = torch.ones(6, device=device)
    with torch.inference_mode():
        seen, of_others = view(x), view(x * 2)
        assert (seen.is_inference(), seen._is_view(), of_others.is_inference()) == (False, True, True)
        x.zero_()
        of_inference = x * 2
    assert seen.abs().sum() == 0
    assert (seen * 2).is_inference() is False
    assert view(of_inference).is_inference() and not view(of_inference).clone().is_inference()
    for change in (lambda x: x.add_(1), lambda x: view(x).unsqueeze_(0), lambda x: x.t_()):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            change(of_inference)
