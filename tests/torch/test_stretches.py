"""Many tensors in one memory, as gradients in a bucket: what is written and read is what the CPU has, at a low price."""

import pytest
import torch

import xloom.torch  # noqa: F401
from xloom.torch.metrics import METRICS

SIZES = [(2, 3), (4,), (1, 5), (3, 2, 2), (3,)]


def in_bucket(device):
    bucket = torch.zeros(30, device=device)
    starts = [0, 6, 10, 15, 27]
    parts = [bucket[at : at + torch.Size(s).numel()].view(s) for at, s in zip(starts, SIZES, strict=True)]
    return bucket, [bucket.as_strided(p.shape, p.stride(), p.storage_offset()) for p in parts]


def gradients(device):
    return [torch.arange(float(torch.Size(s).numel()), device=device).view(s) + k for k, s in enumerate(SIZES)]


def all_of_it(bucket, parts, given):
    for part, x in zip(parts, given, strict=True):
        torch.mul(x, 0.3, out=part)


def a_part(bucket, parts, given):
    all_of_it(bucket, parts, given)
    bucket.add_(1)
    parts[1].copy_(given[1])
    torch.mul(given[3], 1 / 3, out=parts[3])


def one_again(bucket, parts, given):
    all_of_it(bucket, parts, given)
    parts[2].add_(1)
    parts[2].mul_(2)
    parts[0].zero_()


def across(bucket, parts, given):
    all_of_it(bucket, parts, given)
    bucket.as_strided((2, 4), (1, 2), 3).copy_(torch.ones(2, 4, device=bucket.device))
    parts[0].add_(parts[0])


def all_after_a_part(bucket, parts, given):
    parts[0].copy_(given[0])
    bucket.fill_(4)
    parts[1].copy_(given[1])


def larger(bucket, parts, given):
    all_of_it(bucket, parts, given)
    bucket.resize_(40)
    parts[4].add_(1)
    torch.mul(given[1], 0.5, out=parts[1])


def other_factors(bucket, parts, given):
    for k, (part, x) in enumerate(zip(parts, given, strict=True)):
        torch.mul(x, 1 / (k + 1), out=part)


@pytest.mark.parametrize(
    "write", [all_of_it, a_part, one_again, across, all_after_a_part, larger, other_factors], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("whole_first", [True, False])
def test_as_on_the_cpu(write, whole_first):
    found = []
    for device in ("cpu", "xla"):
        bucket, parts = in_bucket(device)
        for _ in range(2):
            write(bucket, parts, gradients(device))
            whole = [bucket.tolist()[:30]] if whole_first else []
            found.append([[part.tolist() for part in parts], bucket.tolist()[:30], *whole])
            bucket.mul_(2)
            found.append([part.tolist() for part in reversed(parts)])
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_all_are_one_operator_in_and_one_out():
    import torch.distributed

    bucket, parts = in_bucket("xla")
    given = gradients("xla")
    targets = [torch.zeros_like(x) for x in given]
    all_of_it(bucket, parts, given)
    bucket.add_(0)
    before = METRICS.operators
    all_of_it(bucket, parts, given)
    bucket.add_(1)
    for target, part in zip(targets, parts, strict=True):
        target.copy_(bucket.as_strided(part.shape, part.stride(), part.storage_offset()))
    assert METRICS.operators - before == 3
    for x, target in zip(given, targets, strict=True):
        torch.testing.assert_close(target.cpu(), x.cpu() * 0.3 + 1)


def test_memory_that_was_given_back_is_not_written():
    bucket, parts = in_bucket("xla")
    parts[0].fill_(1)
    bucket.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="given back"):
        parts[1].copy_(gradients("xla")[1])
    bucket.untyped_storage().resize_(bucket.numel() * 4)
    assert bucket.tolist() == [0.0] * 30
