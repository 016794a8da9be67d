"""Results of compiled graphs as tensors: they can be written to, lie as in eager mode, and their memory can be read."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="xloom")


@pytest.mark.parametrize("size", [3, 300], ids=["small", "of the pool"])
def test_results_are_written_in_place_under_autograd(size):
    function = compiled(lambda x: (x.t() * 3, x + 1))
    x = torch.ones(2 * size, size, requires_grad=True)
    results = function(x)
    for result in results:
        result.mul_(2)
    torch.stack([result.sum() for result in results]).sum().backward()
    assert (x.grad == 8).all()


@pytest.mark.parametrize("size", [3, 300], ids=["small", "of the pool"])
def test_results_without_a_gradient_take_one_in_place(size):
    weights = torch.ones(size, 2 * size, requires_grad=True)
    (result,) = compiled(lambda x: (x.t().exp(),))(torch.zeros(2 * size, size))
    result.add_(weights)
    (result * 3).sum().backward()
    assert (weights.grad == 3).all()


def strided(function, *arguments):
    """What `function` gives in eager mode and compiled, with strides."""
    theirs, ours = function(*[each.clone() for each in arguments]), compiled(function)(*arguments)
    return [(each.stride(), each.storage_offset(), each.resolve_conj().tolist()) for each in (theirs, ours)]


def test_a_view_that_leaves_gaps_is_returned_as_one():
    theirs, ours = strided(lambda x: x.exp().as_strided((2, 2), (1, 3)), torch.zeros(6))
    assert ours == theirs
    theirs, ours = strided(lambda x: x.exp()[:, ::2], torch.zeros(4, 5))
    assert ours == theirs


@pytest.mark.parametrize("learns", [False, True])
def test_results_beside_a_check_lie_as_in_eager_mode(learns):
    matrices = (torch.rand(2, 3, 3) + 2 * torch.eye(3)).requires_grad_(
        learns
    )  # inv() checks, which a token keeps in order
    eager, own = torch.linalg.inv(matrices), compiled(torch.linalg.inv)(matrices)
    assert own.stride() == eager.stride() == (9, 1, 3)
    torch.testing.assert_close(own, eager)


def test_memory_of_an_argument_is_read_between_its_elements_and_beyond_them():
    memory = torch.arange(12.0)
    between, beyond = memory.view(6, 2)[:, 0], memory[2:4]
    function = compiled(lambda a, b: (a.as_strided((3,), (3,)) + 1, b.as_strided((2, 2), (4, 1), 1) * 1))
    for found, wanted in zip(function(between, beyond), ([1, 4, 7], [[1, 2], [5, 6]]), strict=True):
        assert found.tolist() == wanted


def test_memory_that_has_grown_is_written_and_read():
    def function(x, y):
        view = y.transpose(0, 0)
        torch.mul(x, 0.25, out=view)  # which makes the memory of y larger
        y.mul_(3)
        return view + 1

    x, y = torch.arange(20.0).view(4, 5), torch.ones(4, 2)
    wanted = function(x, y.clone())
    assert torch.equal(compiled(function)(x, y.clone()), wanted)


def test_a_gradient_by_memory_beyond_the_view_that_was_saved():
    def function(x):
        view = (x * 2).split(3)[0].as_strided((2, 2), (1, 3))[1]
        return view.as_strided((2, 2), (2, 2), 1).sum() * view.sin().sum() * view.mean()

    gradients = []
    for each in (function, compiled(function)):
        x = torch.arange(8.0, requires_grad=True)
        each(x).backward()
        gradients.append(x.grad)
    assert torch.allclose(*gradients)


@pytest.mark.parametrize(
    "view",
    [lambda x: (x * 2).conj(), lambda x: x.conj(), lambda x: (x * 2).conj().imag],
    ids=["value", "argument", "imag"],
)
def test_strides_over_conjugates(view):
    x = torch.complex(torch.arange(4.0), torch.arange(4.0) + 5)
    theirs, ours = strided(lambda x: view(x).as_strided((2,), (2,), 1) * 1, x)
    assert ours == theirs


def test_a_result_that_is_there_twice_is_one_tensor():
    function = compiled(lambda x: (lambda y: (y, x + 1, y.to(x.dtype), y.contiguous()))(x.sin()))
    a, _, b, c = function(torch.ones(2))
    torch.ones(3, out=b)  # which makes it longer
    assert a is b and a is c
    assert a.tolist() == [1, 1, 1]
