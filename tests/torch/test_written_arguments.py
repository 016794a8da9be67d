"""Graphs that write their arguments: new values are made where the old ones lie, which the program may still need."""

from collections.abc import Callable

import pytest
import torch

from xloom.torch import compiled_graph

pytestmark = pytest.mark.filterwarnings("ignore")
X, Y = torch.rand(40, 40, generator=torch.Generator().manual_seed(0)), torch.arange(1600.0).reshape(40, 40)


def swapped(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def returned_as_it_was(x, y):
    old = x.clone()
    x.add_(y)
    return old, x[3], x.sum()


def put_in(x, y):
    x[3:5] = y[:2]
    x.index_copy_(1, torch.tensor([7]), y[:, 1:2])
    return x @ y


PROGRAMS: dict[str, Callable] = {
    "sum": lambda x, y: x.add_(y),
    "reversed": lambda x, y: x.copy_(x.flip(0)),
    "product": lambda x, y: x.copy_(x @ y),
    "unread": lambda x, y: x.zero_(),
    "scan": lambda x, y: x.copy_(x.cumsum(0))[::2],
    "row-to-all": lambda x, y: x.copy_(x[0].expand(40, 40)),
    "both": lambda x, y: (x.add_(y), y.mul_(x)),
    "swapped": swapped,
    "returned": returned_as_it_was,
    "put-in": put_in,
}
ORDERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "row-major": torch.clone,
    "column-major": lambda t: t.t().clone().t(),
    "strided": lambda t: torch.cat([t, t])[::2],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_values(program: str, order: str):
    function, place = PROGRAMS[program], ORDERS[order]
    theirs, ours = [place(X), Y.clone()], [place(X), Y.clone()]
    compiled = torch.compile(function, backend="xloom", fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*ours), function(*theirs))
            torch.testing.assert_close(ours, theirs)
    assert [t._version > 0 for t in ours] == [t._version > 0 for t in theirs]


def test_new_values_have_the_old_ones_memory(monkeypatch: pytest.MonkeyPatch):
    programs = []
    made = compiled_graph.CompiledGraph.__init__

    def kept(self, translated, **options):
        programs.append(translated)
        made(self, translated, **options)

    monkeypatch.setattr(compiled_graph.CompiledGraph, "__init__", kept)
    weights = [torch.nn.Parameter(torch.ones(30, 30)) for _ in range(3)]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    for weight in weights:
        weight.grad = torch.ones(30, 30)
    optimizer.step()
    torch.compile(optimizer.step, backend="xloom")()
    (translated,) = programs
    assert len(translated.written) == len(translated.module.config.input_output_alias) == 6
    assert len(translated.module.entry.root.shape.elements) == 6
    torch.testing.assert_close(weights[0].detach(), torch.full((30, 30), 1 - 0.1 - 0.19))


@pytest.mark.parametrize("program", ["sum", "reversed", "scan", "both", "returned", "swapped"])
def test_values_of_several_sizes(program: str):
    function = PROGRAMS[program]
    compiled = torch.compile(function, backend="xloom", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for size in (5, 7, 40, 9, 33, 7, 12, 40):
            theirs, ours = ([X[:size].clone(), Y[:size].clone()] for _ in range(2))
            results, expected = compiled(*ours), function(*theirs)
            torch.testing.assert_close(results, expected)
            torch.testing.assert_close(ours, theirs)
            if isinstance(results, torch.Tensor) and expected.data_ptr() == theirs[0].data_ptr():
                assert results.data_ptr() == ours[0].data_ptr()


def test_a_cache_of_one_size_beside_several():
    def put(cache, new):
        cache[: new.shape[0]] = new
        return cache.sum(0) + new[0]

    compiled = torch.compile(put, backend="xloom", fullgraph=True, dynamic=True)
    theirs, ours = torch.zeros(50, 40), torch.zeros(50, 40)
    with torch.no_grad():
        for size in (5, 7, 40, 9, 33, 2):
            torch.testing.assert_close(compiled(ours, X[:size] + size), put(theirs, X[:size] + size))
            torch.testing.assert_close(ours, theirs)


def written_after_a_copy(x, w):
    old = x.clone()
    x.mul_(3)
    return old * w


def written_by_what_has_a_gradient(x, w):
    x.mul_(w)
    return x * w


def read_after_it_was_written(x, w):
    with torch.no_grad():
        x.lerp_(w, 0.5)
    return x * w


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [written_after_a_copy, written_by_what_has_a_gradient, read_after_it_was_written])
def test_backward_sees_what_was_saved(function: Callable, dynamic: bool):
    def gradient(function: Callable) -> list[torch.Tensor]:
        x, w = X.clone(), Y.clone().requires_grad_()
        function(x, w).sum().backward()
        assert w.grad is not None
        return [x.detach(), w.grad]

    compiled = torch.compile(function, backend="xloom", dynamic=dynamic)
    torch.testing.assert_close(gradient(compiled), gradient(function))


def test_an_argument_stays_as_it_was_where_an_assertion_fails():
    @torch.compile(backend="xloom")
    def checked(x, y):
        torch.ops.aten._assert_async.msg(y.min() >= 0, "negative")
        return x.add_(y)

    x = X.clone()
    with torch.no_grad(), pytest.raises(RuntimeError, match="negative"):
        checked(x, Y - 1)
    assert x.equal(X)
    with torch.no_grad():
        checked(x, Y)
    assert x.equal(X + Y)


def at(*strided: int | tuple[int, ...] | None):
    def written(x):
        sizes, strides, place = strided
        x.as_strided(sizes, strides, place).add_(1)
        return x * 1

    return written


def twice_by_strides(x):
    x.as_strided((3,), (1,), 0).add_(1)
    x.as_strided((3,), (1,), 1).mul_(2)
    return x * 1


def read_beyond_and_written(x):
    return x.as_strided((12,), (1,), 0) * 2, x.add_(1)


MEMORY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "begins later": lambda m: m[3:],
    "transposed": lambda m: m[4:].view(5, 4).t(),
    "gaps": lambda m: m.view(6, 4)[:, :2],
    "every second": lambda m: m[::2],
    "all": lambda m: m,
}
BY_STRIDES: dict[str, Callable] = {
    "before": at((2, 2), (2, 1), 1),
    "its own place": at((2, 2), (2, 1), None),
    "inside": at((2, 2), (1, 2), 5),
    "twice": twice_by_strides,
    "read": read_beyond_and_written,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", BY_STRIDES)
@pytest.mark.parametrize("place", MEMORY)
def test_memory_that_is_written_by_strides(place: str, function: str, dynamic: bool):
    theirs, ours = torch.arange(24.0), torch.arange(24.0)
    compiled = torch.compile(BY_STRIDES[function], backend="xloom", dynamic=dynamic)
    with torch.no_grad():
        found, expected = compiled(MEMORY[place](ours)), BY_STRIDES[function](MEMORY[place](theirs))
    torch.testing.assert_close(found, expected)
    assert ours.equal(theirs)


def test_what_is_written_by_strides_lies_beside_another_argument():
    def both(x, y):
        y.mul_(3)
        x.as_strided((1, 2), (4, 1), 2).add_(1)
        return x * 2

    theirs, ours = (torch.arange(12.0).view(3, 4) for _ in range(2))
    with torch.no_grad():
        both(theirs[:, :2], theirs[1:2, 2:])
        torch.compile(both, backend="xloom")(ours[:, :2], ours[1:2, 2:])
    assert ours.equal(theirs)


def written_twice(x):
    x.as_strided((3,), (1,), 0).add_(1)
    x.add_(1)


def strided_after_it_was_written(x):
    x.add_(1)
    x.as_strided((3,), (1,), 4).add_(1)


def of_a_part(x):
    x[2:].as_strided((2, 2), (2, 1), 1).add_(1)


@pytest.mark.parametrize("function", [written_twice, strided_after_it_was_written, of_a_part])
def test_memory_that_a_graph_does_not_tell_is_an_error(function: Callable):
    compiled = torch.compile(function, backend="xloom")
    with torch.no_grad(), pytest.raises(Exception, match=r"written|writes memory"):
        compiled(torch.arange(12.0)[3:])


def test_another_place_in_memory_is_an_error():
    compiled = torch.compile(lambda x: x.as_strided((2, 2), (2, 1), 4).add_(1), backend="xloom", dynamic=False)
    memory = torch.arange(12.0)
    with torch.no_grad():
        compiled(memory[3:11])
        with pytest.raises(RuntimeError, match="at place 3 of its memory"):
            compiled(memory[4:])


def test_arguments_that_are_negated_as_they_are_read():
    compiled = torch.compile(lambda x: (x + 1, x.fill_(2)), backend="xloom")
    memory = torch.full((1,), 1j)
    with torch.no_grad():
        assert compiled(memory.conj().imag)[0].tolist() == [0]
    assert memory.tolist() == [-2j]


def made(x, y):
    x.data = y * 2
    return x + 1


def another_argument(x, y):
    y.add_(1)
    x.data = y
    return x * 2


def part_of_another(x, y):
    x.data = y[1:]
    return x


def exchanged(x, y):
    x.data, y.data = y.data, x.data
    return x - y


def transposed(x, y):
    product = y * torch.ones(4, 1)
    x.data = product.t()
    return product[1:]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [made, another_argument, part_of_another, exchanged, transposed])
def test_arguments_are_given_memory_as_in_eager_mode(function: Callable, dynamic: bool):
    said = []
    torch._dynamo.reset()
    for call in (function, torch.compile(function, backend="xloom", dynamic=dynamic)):
        with torch.no_grad():
            for size in (3, 5):
                x, y = torch.arange(float(size)), torch.arange(float(size)) + 4
                result = call(x, y)
                memory = [each.untyped_storage().data_ptr() for each in (x, y, result)]
                same = [memory[k] == memory[k - 1] for k in range(3)]
                said.append([x.tolist(), x.stride(), y.tolist(), result.tolist(), same])
    assert said[:2] == said[2:]


def test_a_parameter_is_given_memory_as_it_learns():
    losses = []
    torch._dynamo.reset()

    def step(x, y):
        loss = (x * y).sin().sum()
        x.data = x.data * 0.5
        return loss

    for call in (step, torch.compile(step, backend="xloom")):
        x, y = torch.arange(3.0).requires_grad_(), torch.ones(3)
        loss = [call(x, y) for _ in range(2)]
        losses.append(torch.stack([*loss, x.sum()]).detach())
    torch.testing.assert_close(*losses)
