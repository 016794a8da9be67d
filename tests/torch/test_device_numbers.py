"""Numbers that change are arguments of programs, not other programs."""

import pytest
import torch

import xloom.torch as xt
from xloom.torch.lazy.tensor.geometry import geometry
from xloom.torch.lazy.views.ranges import of_range
from xloom.torch.metrics import METRICS


@pytest.fixture(autouse=True)
def fresh():
    xt.sync(wait=True)
    xt.metrics.clear()


@pytest.mark.parametrize(
    "run",
    [
        lambda x, k: x * k,
        lambda x, k: x - k,
        lambda x, k: torch.add(x, x, alpha=k),
        lambda x, k: x.clamp(max=k),
        lambda x, k: torch.where(x > k, x, -k),
        lambda x, k: torch.full_like(x, k),
        lambda x, k: x.clone().fill_(k),
        lambda x, k: x / k,
        lambda x, k: x[k],
        lambda x, k: x[:, k - 8],
        lambda x, k: x[k : k + 2] + 1,
        lambda x, k: x[k : k + 5 : 2],
        lambda x, k: x.narrow(1, k % 5, 3),
        lambda x, k: x.clone().narrow(0, k, 1).zero_().sum() + x,
        lambda x, k: x.unbind(1)[k],
        lambda x, k: x.split(2)[k - 2],
        lambda x, k: x.split([1] * 5 + [3, 3, 1])[k - 2],
        lambda x, k: x.T.unbind()[k].sum(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_loop_over_numbers_compiles_twice(run, dtype):
    host = torch.arange(96).reshape(12, 8).to(dtype)
    x = host.to("xla")
    for k in range(2, 7):
        found = run(x, k) + 0
        xt.sync()
        torch.testing.assert_close(found.cpu(), run(host, k) + 0)
    assert METRICS.programs <= 2


def test_elements_that_are_looked_at_one_by_one_have_few_programs():
    x = torch.arange(40.0).to("xla")
    assert max(each for each in x if each >= 5) == 39
    assert METRICS.programs <= 5


def test_rows_are_written_at_a_place_that_changes():
    cache, host = torch.zeros(9, 4).to("xla"), torch.zeros(9, 4)
    new = torch.ones(4).to("xla")
    for k in range(6):
        cache[k] += new
        host[k] += 1
        cache[k : k + 3, 1] = host[k : k + 3, 1] = -1
        xt.sync()
    assert cache.cpu().equal(host)
    assert "arguments of the program from now on" in xt.recompiles()[-1]
    assert METRICS.programs <= 3  # the host's number is put into an array in the first one only


def test_numbers_within_one_program_are_its_own():
    x = torch.arange(12.0).reshape(4, 3)
    found = []
    for _ in range(3):
        found = [x.to("xla")[k] * (k + 2) for k in range(4)]
        xt.sync()
    assert METRICS.programs == 1
    for k in range(4):
        assert found[k].cpu().equal(x[k] * (k + 2))


def test_large_and_small_ints_are_exact():
    x = torch.tensor([1, -3, 2**40])
    for k in (3, 2**31 - 1, -(2**31), 2**31 + 7, 2**62):
        assert (x.to("xla") + k).cpu().equal(x + k)
        assert (x.to("xla") * k).cpu().equal(x * k)
    narrow = torch.tensor([1, -3], dtype=torch.int32)
    for k in (2**31 - 1, -(2**31), 2**31):
        assert (narrow.to("xla") + k).cpu().equal(narrow + k)
    small = torch.tensor([1, 200], dtype=torch.uint8)
    for k in (3, 5, 127, 250, -3, 300):
        assert (small.to("xla") * k).cpu().equal(small * k)
    for k in (3, 5, 70000):
        half = torch.tensor([1.5], dtype=torch.float16)
        assert (half.to("xla") * k).cpu().equal(half * k)


def test_short_powers_stay_products():
    x = torch.tensor([1.5, -2.0, 3.0])
    for exponent in (2.0, 3.0, 2, 3, 2.5, 4):
        torch.testing.assert_close((x.to("xla") ** exponent).cpu(), x**exponent, equal_nan=True)
    text = str(xt.hlo(lambda a: a**2.0 + a**3.0, x))
    assert "power(" not in text and "multiply(" in text


def test_the_kind_of_a_number_decides_the_type():
    x = torch.tensor([1, 2])
    for k in (2, 3, 2.5, 3.5, True, 2 + 1j):
        ours, theirs = (x.to("xla") * k).cpu(), x * k
        assert ours.dtype is theirs.dtype and ours.equal(theirs)


@pytest.mark.parametrize("dims", [(5,), (3, 4), (1, 6), (2, 0), ()])
def test_ranges_lie_where_torch_says(dims):
    host = torch.arange(64.0)[: torch.Size(dims).numel()].reshape(dims).t() if len(dims) == 2 else torch.ones(dims)
    source = geometry(host)
    calls = [(torch.ops.aten.select.int, (d, i)) for d in range(-3, 3) for i in range(-8, 8)]
    places = range(-8, 8, 3)
    calls += [
        (torch.ops.aten.slice.Tensor, (d, a, b, s)) for d in (-1, 0, 1) for a in places for b in places for s in (1, 3)
    ]
    calls += [(torch.ops.aten.slice.Tensor, (0, 2)), (torch.ops.aten.slice.Tensor, (0, 1, 3))]
    for op, rest in calls:
        found = of_range(op, source, rest, {})
        try:
            wanted = geometry(op(host, *rest))
        except IndexError:
            wanted = None
        assert found == wanted


def test_errors_of_ranges_are_torchs():
    x = torch.ones(3, 4)
    for wrong in (lambda t: t[3], lambda t: t[:, -5], lambda t: t.select(2, 0), lambda t: t.narrow(0, 2, 2)):
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            wrong(x)
        with pytest.raises(theirs.type) as ours:
            wrong(x.to("xla"))
        assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]


@pytest.mark.parametrize("name", ["sum", "cumsum", "prod"])
@pytest.mark.parametrize(("own", "out"), [(torch.float64, torch.float32), (torch.int64, torch.float32)])
def test_sums_are_in_the_dtype_of_what_they_fill(name, own, out):
    x = torch.tensor([[1 + 2.0**-30, 3.0], [-1.0, 5.0]], dtype=torch.float64).to(own)
    expected, found = torch.empty(0, dtype=out), torch.empty(0, dtype=out, device="xla")
    getattr(torch, name)(x, 0, out=expected)
    getattr(torch, name)(x.to("xla"), 0, out=found)
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize(
    "number",
    [
        torch.tensor(0.1, dtype=torch.float64),
        torch.tensor(-0.0),
        torch.tensor(float("nan"), dtype=torch.bfloat16),
        torch.tensor(3.5, dtype=torch.float16),
        torch.tensor(2**53 + 1),
        torch.tensor(-7, dtype=torch.int8),
        torch.tensor(True),
        torch.tensor(1 + 2j),
    ],
)
def test_a_tensor_of_the_host_is_a_number(number):
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.complex64):
        host = torch.arange(1, 7).to(dtype)
        x = host.to("xla")
        for run in (torch.mul, torch.add, lambda a, b: torch.where(a == a, b, a), lambda a, b: torch.stack((b + a, a))):
            torch.testing.assert_close(run(x, number).cpu(), run(host, number), equal_nan=True)


def test_tensors_of_the_host_take_no_buffers_and_one_program():
    x = torch.arange(6.0).to("xla")
    for k in range(5):
        found = torch.mul(x, torch.tensor(k + 0.25), out=torch.empty_like(x))
        torch.testing.assert_close(found.cpu(), torch.arange(6.0) * (k + 0.25))
    assert METRICS.programs == 1
    assert METRICS.bytes_to_device == 6 * 4  # those of x
