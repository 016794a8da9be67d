"""What is wrong is told where it is written, in torch's words: the device's errors are those of the CPU."""

import pytest
import torch

import xloom as xl
import xloom.torch as xt


def convolved(device, **options):
    return torch.conv1d(torch.ones(1, 1, 4, device=device), torch.ones(1, 1, 3, device=device), **options)


def into_itself(device, function, *dim):
    indices = torch.zeros(3, dtype=torch.int64, device=device)
    return function(indices, *dim, indices, out=indices)


WRONG = {
    "broadcast": lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
    "in place, larger": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "in place, of another category": lambda d: torch.ones(3, dtype=torch.int64, device=d).add_(1.5),
    "product": lambda d: torch.ones(3, 4, device=d) @ torch.ones(3, 4, device=d),
    "in place, expanded": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "dimension": lambda d: torch.ones(3, 4, device=d).sum(5),
    "dimension of an order": lambda d: torch.ones(3, 4, device=d).argsort(5),
    "flip": lambda d: torch.ones(3, device=d).flip(0, 0),
    "copy": lambda d: torch.ones(3, device=d).copy_(torch.ones(2, device=d)),
    "mask": lambda d: torch.ones(3, 4, device=d)[torch.ones(3, 3, dtype=torch.bool, device=d)],
    "too many indices": lambda d: torch.ones(3, device=d)[torch.ones(3, 2, dtype=torch.bool, device=d)],
    "indices": lambda d: torch.ones(3, 4, device=d)[torch.zeros(2).long().to(d), torch.zeros(3).long().to(d)],
    "rows by a matrix": lambda d: torch.ones(3, 4, device=d).index_select(0, torch.zeros(1, 2).long().to(d)),
    "rows by bytes": lambda d: torch.ones(3, 4, device=d).index_select(0, torch.zeros(2, dtype=torch.int8, device=d)),
    "copies by short indices": lambda d: torch.ones(3, device=d).index_copy(
        0, torch.zeros(1, dtype=torch.int32, device=d), torch.ones(1, device=d)
    ),
    "numbers by floats": lambda d: torch.ones(3, device=d).index_fill_(0, torch.zeros(1, device=d), 2.0),
    "indices of nothing": lambda d: torch.ones(3, 0, device=d)[:, torch.zeros(2).long().to(d)],
    "made of other operators": lambda d: torch.nn.ReflectionPad2d(2)(torch.ones(3, 0, 5, device=d)),
    "out of another type": lambda d: torch.add(
        torch.ones(3, device=d), 1.5, out=torch.empty(3, dtype=torch.int64, device=d)
    ),
    "out of a wider type": lambda d: torch.neg(
        torch.ones(1, dtype=torch.float64, device=d), out=torch.empty(0, dtype=torch.complex128, device=d)
    ),
    "bounds of random numbers": lambda d: torch.empty(3, dtype=torch.int8, device=d).random_(0, 1000),
    "samples of another batch": lambda d: torch.nn.FractionalMaxPool2d(
        2, 1, _random_samples=torch.ones(0, 2, 2, device=d)
    )(torch.ones(1, 2, 4, 4, device=d)),
    "integers": lambda d: torch.nn.AdaptiveMaxPool2d(2)(torch.ones(2, 4, 4, dtype=torch.int32, device=d)),
    "two types": lambda d: torch.heaviside(torch.ones(2, device=d), torch.ones(2, dtype=torch.int8, device=d)),
    "a mask of bytes": lambda d: torch.ones(2, device=d).masked_scatter_(
        torch.ones(2, dtype=torch.uint8, device=d), torch.ones(2, device=d)
    ),
    "too many samples": lambda d: torch.multinomial(torch.ones(2, device=d), 3),
    "a number for a slice": lambda d: torch.ones(3, device=d).index_add(
        0, torch.tensor([1], device=d), torch.tensor(2.0, device=d)
    ),
    "bounds in the wrong order": lambda d: torch.empty(7, 1, device=d).uniform_(3, 1),
    "boundaries": lambda d: torch.bucketize(torch.ones(2, device=d), torch.ones(2, 2, device=d)),
    "difference of booleans, in place": lambda d: torch.ones(2, dtype=torch.bool, device=d).sub_(
        torch.ones(2, dtype=torch.bool, device=d)
    ),
    "a boolean less a number": lambda d: torch.ones(2, dtype=torch.bool, device=d) - 1,
    "bits of floats": lambda d: torch.ones(2, device=d) << 1,
    "divisors of floats": lambda d: torch.gcd(torch.ones(2, device=d), torch.ones(2, device=d)),
    "floor of complex numbers": lambda d: torch.floor(torch.ones(2, dtype=torch.complex64, device=d)),
    "weights of another type": lambda d: torch.nn.functional.embedding_bag(
        torch.zeros(1, 2).long().to(d),
        torch.ones(3, 2, device=d),
        mode="sum",
        per_sample_weights=torch.ones(1, 2, device=d).double(),
    ),
    "dilation": lambda d: convolved(d, dilation=0),
    "padding": lambda d: convolved(d, padding=-1),
    "output padding": lambda d: torch.conv_transpose1d(
        torch.ones(1, 1, 4, device=d), torch.ones(1, 1, 3, device=d), output_padding=2
    ),
    "a filter of another type": lambda d: torch.conv1d(
        torch.ones(1, 1, 4, device=d), torch.ones(1, 1, 3, device=d).double()
    ),
    "classes weighted by another type": lambda d: torch.nn.functional.nll_loss(
        torch.ones(2, 3, device=d).double(), torch.zeros(2, dtype=torch.int64, device=d), torch.ones(3, device=d)
    ),
    "a mask times a matrix": lambda d: torch.nn.functional.linear(
        torch.ones(2, 3, dtype=torch.bool, device=d), torch.ones(4, 3, device=d)
    ),
    "vectors of another type": lambda d: torch.linalg.cross(torch.ones(2, 3, device=d), torch.ones(2, 3).long().to(d)),
    "probabilities of integers": lambda d: torch.nn.functional.binary_cross_entropy(
        torch.ones(3, device=d), torch.ones(3).long().to(d)
    ),
    "places of another type": lambda d: torch.nn.functional.grid_sample(
        torch.ones(1, 1, 2, 2, device=d), torch.zeros(1, 1, 1, 2, device=d).double(), align_corners=False
    ),
    "a copy of another type": lambda d: torch.ones(3, device=d).index_copy(
        0, torch.zeros(1).long().to(d), torch.ones(1, device=d).double()
    ),
    "a place outside": lambda d: torch.ones(1, 5, device=d).select_scatter(torch.ones(5, device=d), 0, 2),
    "a part of another size": lambda d: torch.as_strided_scatter(
        torch.ones(3, 3, device=d), torch.ones(2, device=d), (2, 2), (1, 2)
    ),
    "biases in a matrix": lambda d: convolved(d, bias=torch.ones(1, 1, device=d)),
    "gather into itself": lambda d: into_itself(d, torch.gather, 0),
    "index_select into itself": lambda d: into_itself(d, torch.index_select, 0),
    "take into itself": lambda d: into_itself(d, torch.take),
    "one of two results into itself": lambda d: (lambda x: torch.kthvalue(x, 2, out=(x, torch.empty_like(x))))(
        torch.arange(3, device=d)
    ),
    "indices that are written": lambda d: (lambda x: x.index_put_((x.clone(),), x))(torch.arange(3, device=d)),
    "indices that are written, as another view": lambda d: (lambda x: x.view(3).index_fill_(0, x, 1))(
        torch.arange(3, device=d)
    ),
    "masked_select into itself": lambda d: (lambda mask: torch.masked_select(mask, mask, out=mask))(
        torch.ones(3, dtype=torch.bool, device=d)
    ),
    "dimension of a softmax": lambda d: torch.ones(3, 4, device=d).softmax(5),
    "values for indices": lambda d: torch.ones(3, device=d).index_put_(
        (torch.zeros(2).long().to(d),), torch.ones(3, device=d)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_cpu(name):
    said = []
    for device in ("cpu", "xla"):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            WRONG[name](device)
        said.append((caught.type, str(caught.value)))
    assert said[1] == said[0]


OF_KERNELS = [
    name for name in WRONG if name.endswith(("type", "types", "integers", "bytes", "short indices", "a matrix"))
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    sorted(
        {*OF_KERNELS, *["a place outside", "boundaries", "divisors of floats"]}
        - {"out of another type", "a filter of another type"}
    ),
)
def test_compiled_graphs_raise_what_only_kernels_do(name):
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        WRONG[name]("cpu")
    torch._dynamo.reset()
    with pytest.raises((RuntimeError, IndexError)) as caught:
        torch.compile(lambda: WRONG[name]("cpu"), backend="xloom")()
    assert str(wanted.value) in str(caught.value)


BYTES = torch.ones(2, 3, dtype=torch.int8)


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (lambda d, v: torch.ones(3, device=d).uniform_(0.0, v), 2.5, -1.5),
        (lambda d, v: torch.ones(3, device=d).bernoulli_(v), 0.5, 1.5),
        (lambda d, v: torch.native_dropout(torch.ones(3, device=d), v, True), 0.5, 1.5),
        (lambda d, v: torch.celu(torch.ones(3, device=d), v), 0.5, 0.0),
        (
            lambda d, v: torch.nn.functional.smooth_l1_loss(torch.ones(3, device=d), torch.ones(3, device=d), beta=v),
            1,
            -1,
        ),
        (lambda d, v: torch.histc(torch.ones(3, device=d), 4, 0.5, v), 1.5, 0.25),
        (lambda d, v: BYTES.to(d) ** v, 2, -1),
        (lambda d, v: BYTES.to(d).fill_(v), 2, 300),
        (lambda d, v: BYTES.to(d).__setitem__(0, v), 2, 300),
        (lambda d, v: BYTES.to(d).masked_fill(BYTES.to(d) > 0, v), 2, 300),
        (lambda d, v: torch.where(BYTES.to(d) > 0, BYTES.to(d), v), 2, 300),
        (lambda d, v: BYTES.to(d).scatter(0, torch.zeros(1, 1).long().to(d), v), 2, 300),
        (lambda d, v: BYTES.to(d).clamp(max=v), 2, 300),
        (lambda d, v: BYTES.to(d) % v, 2, 0),
        (lambda d, v: torch.nn.functional.pad(BYTES.to(d), (1, 1), value=v), 2, 300),
        (lambda d, v: BYTES.to(d).new_full((2,), v), 2, 300),
        (lambda d, v: BYTES.to(d).add_(BYTES.to(d), alpha=v), 2, 300),
        (lambda d, v: torch.sub(BYTES.to(d), BYTES.to(d), alpha=v), 2, True),
        (lambda d, v: torch.addmm(BYTES.to(d), BYTES.to(d)[:, :2], BYTES.to(d), beta=v), 2, 300),
        (lambda d, v: BYTES.to(d) // v, 2, 0),
        (lambda d, v: torch.div(BYTES.to(d), v, rounding_mode="floor"), 2, 256),
        (lambda d, v: BYTES.to(d).half().fill_(v), 2, 70000),
        (lambda d, v: torch.full((2, 3), v, dtype=torch.bfloat16, device=d), 2.0, 1e39),
    ],
)
def test_numbers_are_checked_at_each_call(function, right, wrong):
    said = []
    for device in ("cpu", "xla"):
        for number in (right, right * 1.25 if isinstance(right, float) else right + 1):
            function(device, number)
        with pytest.raises((RuntimeError, IndexError)) as caught:
            function(device, wrong)
        said.append((caught.type, str(caught.value)))
    assert said[1] == said[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda d, out: torch.multinomial(torch.tensor([0.0, 1.0, 0.0], device=d), 1, out=out),
        lambda d, out: torch.bernoulli(torch.tensor([0.0, 1.0], device=d), out=out),
        lambda d, out: torch.remainder(torch.tensor([5, 7], device=d), torch.tensor([2, 3], device=d), out=out),
        lambda d, out: torch.floor_divide(torch.tensor([5, 7], device=d), torch.tensor([2, 3], device=d), out=out),
        lambda d, out: torch.cholesky_inverse(torch.eye(3, device=d) * 2, out=out.float()),
        lambda d, out: torch.scatter(torch.ones(2, 3, device=d), 0, out, 0.5),  # no indices, of another rank
    ],
)
def test_what_only_zeros_would_raise_is_not_raised(function):
    found, wanted = [function(device, torch.empty(0, dtype=torch.int64, device=device)) for device in ("xla", "cpu")]
    assert found.cpu().equal(wanted)


def test_what_is_wrong_leaves_nothing_behind():
    x = torch.zeros(2, 3, device="xla")
    before = x + 1
    with pytest.raises(RuntimeError):
        x[0] = torch.ones(5, 1, 3, device="xla")
    assert before.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_an_index_of_bytes_warns_as_on_the_cpu():
    x = torch.arange(3, device="xla")
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated"):
        assert x[torch.tensor([1, 0, 1], dtype=torch.uint8, device="xla")].tolist() == [0, 2]


def test_asking_for_errors_draws_no_random_numbers_of_the_host():
    before = torch.get_rng_state()
    torch.empty(7, 3, dtype=torch.int16, device="xla").random_(0, 13)
    torch.randint_like(torch.ones(5, 3, dtype=torch.int32, device="xla"), 11)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def failing(monkeypatch):
    """An operator whose custom call fails."""
    with torch.library._scoped_library("test_device_errors", "FRAGMENT") as library:
        library.define("fails(Tensor x) -> Tensor")
        library.impl("fails", torch.clone, "CompositeExplicitAutograd")

        @xl.custom_call("test_device_errors.fails")
        def kernel(out, x):
            raise ValueError("no")

        operator = torch.ops.test_device_errors.fails.default
        torch.library.register_fake("test_device_errors::fails", torch.empty_like, lib=library)
        xt.custom_call(operator, "test_device_errors.fails")
        yield operator


def test_a_program_that_fails_is_not_run_again(failing):
    result = failing(torch.rand(3, device="xla"))
    for _ in range(2):
        with pytest.raises(xl.CustomCallError, match="ValueError: no"):
            result.cpu()
    assert (torch.ones(3, device="xla") * 2).tolist() == [2, 2, 2]
    assert torch.rand(3, device="xla").cpu().isfinite().all()


def test_complex_halves_are_not_supported():
    with pytest.raises(xl.errors.UnsupportedError, match=r"complex32 has no HLO element type"):
        torch.complex(torch.ones(2, device="xla").half(), torch.ones(2, device="xla").half())


def test_a_tensor_may_be_written_with_what_is_made_of_itself():
    for _ in range(2):
        x = torch.ones(3, device="xla")
        assert torch.add(x, x, out=x) is x and x.tolist() == [2, 2, 2]
