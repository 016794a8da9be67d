"""Strides of tensors on the device are those that torch gives on the CPU, and views of memory see them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import xloom.torch  # noqa: F401
from xloom.pjrt import Client
from xloom.torch.lazy.runtime import device_client, device_module


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """What is compiled is tested elsewhere."""
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)


def images(device, dims=(2, 3, 4, 6)):
    x = torch.arange(float(torch.Size(dims).numel())).reshape(dims)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.to(device=device, memory_format=formats[len(dims)])


FUNCTIONS = {
    "sum with itself": lambda x: x + x.clone(),
    "sum with row-major": lambda x: x + x.contiguous(),
    "row-major with it": lambda x: x.contiguous() - x,
    "times a vector": lambda x: torch.arange(6.0, device=x.device) * x,
    "quotients": lambda x: [x.contiguous().floor_divide(x + 1), torch.floor_divide(x, x.contiguous() + 1), x // 2],
    "quotients of numbers": lambda x: [torch.floor_divide(2, x.exp()), x // 2.5],
    "products with logarithms": lambda x: [torch.xlogy(x, x.contiguous().exp()), torch.special.xlog1py(x, x.exp())],
    "a row before columns": lambda x: [
        f(x[0, 0, 0], x[0, 0].T.clone().T)
        for f in (torch.heaviside, torch.logaddexp, torch.logaddexp2, torch.logical_and, torch.logical_xor, torch.ldexp)
    ],
    "powers of numbers": lambda x: [2.0**x, torch.float_power(2, x)],
    "in a set": lambda x: [torch.isin(x, x[0, 0]), torch.isin(x, 3)],
    "logarithms of sigmoids": F.logsigmoid,
    "drawn": lambda x: [
        f(x).isnan() for f in (lambda x: torch.normal(x, x), torch.poisson, lambda x: F.rrelu(x, training=True))
    ],
    "signs": lambda x: torch.copysign(x, x.contiguous() - 3),
    "number": lambda x: x.mul(2).relu(),
    "of a transpose": lambda x: x.transpose(1, 3).exp(),
    "of a part": lambda x: x[:, 1:, ::2].abs(),
    "comparison": lambda x: x > 3,
    "another dtype": lambda x: x.to(torch.int32),
    "dequantized": lambda x: [x.dequantize(), (x > 3).dequantize()],
    "half as row-major": lambda x: x.to(torch.bfloat16, memory_format=torch.contiguous_format),
    "where": lambda x: torch.where(x > 3, x, -x),
    "copy": lambda x: x.clone(),
    "copy of a part": lambda x: x[:, :, 1].clone(),
    "row-major copy": lambda x: x.clone(memory_format=torch.contiguous_format),
    "like it": torch.ones_like,
    "new beside it": lambda x: x.new_zeros((2, 3)),
    "concatenation": lambda x: torch.cat([x, x], 1),
    "sum": lambda x: x.sum((2, 3), keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "convolution": lambda x: F.conv2d(x, torch.ones(5, 3, 2, 2, device=x.device)),
    "by a filter": lambda x: F.conv2d(x.contiguous(), images(x.device, (5, 3, 2, 2))),
    "transposed convolution": lambda x: F.conv_transpose2d(x, torch.ones(3, 5, 2, 2, device=x.device)),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch norm with statistics": lambda x: F.batch_norm(
        x, torch.zeros(3, device=x.device), torch.ones(3, device=x.device)
    ),
    "batch norm of rows": lambda x: F.batch_norm(x[0].transpose(1, 2).clone(), None, None, training=True),
    "group norm": lambda x: F.group_norm(x, 3),
    "largest": lambda x: F.max_pool2d(x, 2),
    "largest of a volume": lambda x: F.max_pool3d(images(x.device, (1, 2, 3, 4, 5))[0], 2, return_indices=True),
    "gradient of a padded volume": lambda x: [
        torch.func.grad(lambda v, how=how: F.pad(v, (1,) * 6, how).square().sum())(images(x.device, (2, 3, 2, 4, 5)))
        for how in ("reflect", "replicate")
    ],
    "mean": lambda x: F.avg_pool2d(x, 2),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (2, 2)),
    "upsampled": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "shuffled": lambda x: torch.channel_shuffle(x, 3),
    "padded": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "rolled": lambda x: [x.roll(1, 1), x.roll((1, 2), (2, 3)), x.roll(3)],
    "gradients of pads and gates": lambda x: [
        torch.autograd.grad(f(x), x, torch.ones_like(f(x)))[0]
        for x in [torch.cat([x, x[:, :1]], 1).requires_grad_()]
        for f in (nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.GLU(1))
    ],
    "matrix product": lambda x: x @ x.transpose(2, 3),
    "attention": lambda x: F.scaled_dot_product_attention(*3 * [x.transpose(1, 2)]),
    "attention of heads": lambda x: F.scaled_dot_product_attention(*3 * [x.contiguous().transpose(1, 2)]),
    "several": lambda x: torch.ops.aten._foreach_mul.Scalar([x, x.contiguous()], 2),
    "transform": lambda x: torch.fft.rfftn(x).real,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_strides_of_the_cpu(name):
    def flat(found):
        return found if isinstance(found, (list, tuple)) else [found]

    ours, theirs = (flat(FUNCTIONS[name](images(device))) for device in ("xla", "cpu"))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.stride() == other.stride()
        torch.testing.assert_close(mine.cpu(), other)


def test_gradients_of_a_convolution_have_the_format_of_its_input():
    found = []
    for device in ("cpu", "xla"):
        x = images(device).requires_grad_()
        weight = torch.ones(5, 3, 2, 2, device=device, requires_grad=True)
        F.conv2d(x, weight).square().sum().backward()
        found.append([x.grad, weight.grad])
    for theirs, ours in zip(*found, strict=True):
        assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours.cpu(), theirs)


MEMORY = {
    "as_strided": lambda x: x.as_strided((3, 5), (7, 2), 4),
    "all of it": lambda x: x.as_strided((144,), (1,)),
    "a stretch": lambda x: x.as_strided((4, 3), (3, 1), 5),
    "a transposed stretch": lambda x: x.as_strided((4, 3), (1, 4), 5),
    "of a part": lambda x: x[1].as_strided((2, 2), (3, 1)),
    "set": lambda x: x.new_empty(0).set_(x.untyped_storage(), 2, (3, 4), (4, 1)),
    "smaller": lambda x: x.clone().resize_(5, 5),
    "larger": lambda x: x.clone().resize_(10, 20)[:7],
    "of another format": lambda x: x.clone().resize_((2, 4, 3, 6), memory_format=torch.channels_last),
    "as another": lambda x: x.new_empty(0).resize_as_(x, memory_format=torch.preserve_format).zero_(),
    "with gaps": lambda x: torch.empty_strided((2, 3), (10, 2), device=x.device).fill_(1),
    "numbers in other order": lambda x: torch.empty_strided((2, 3), (1, 2), device=x.device).copy_(x[0, 0, :2, :3]),
    "copied": lambda x: torch.as_strided_copy(x, (3, 5), (7, 2), 4),
    "scattered": lambda x: torch.as_strided_scatter(x, x.new_ones(3, 5), (3, 5), (7, 2), 4),
    "scattered in a part": lambda x: torch.as_strided_scatter(x[1], x.new_ones(3, 5), (3, 5), (7, 2), 80),
    "an element": lambda x: x[1, 2, 3, 4],
}


@pytest.mark.parametrize("ready", [False, True], ids=["recorded", "in a buffer"])
@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_in_the_order_of_the_format(name, ready):
    found = []
    for device in ("cpu", "xla"):
        x = images(device)
        if ready and device == "xla":
            device_module.synchronize()
        part = MEMORY[name](x)
        before = part.clone().cpu()
        part.mul_(-1)
        x[0].add_(0.5)
        found.append([before, part, x, torch.tensor([*part.stride(), part.storage_offset()])])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_formats_survive_the_way_to_the_host_and_modules():
    x = images("xla", (2, 3, 4, 5, 2))
    assert x.is_contiguous(memory_format=torch.channels_last_3d) and not x.is_contiguous()
    assert x.cpu().is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(x.cpu(), images("cpu", (2, 3, 4, 5, 2)))
    model = torch.nn.Conv2d(3, 4, 3, device="xla")
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert model.weight.is_contiguous(memory_format=torch.channels_last)
    model(images("xla")).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.stride() == model.weight.stride()


def test_numbers_that_no_program_takes_of_tensors_with_other_strides():
    x = torch.arange(9, dtype=torch.int8, device="xla").reshape(3, 3)
    for each in (x, x.t(), x.t()):
        assert (each + -1).tolist() == (each.cpu() - 1).tolist()


def test_least_squares_lie_in_columns():
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]], device="xla")
    assert torch.linalg.lstsq(matrix, matrix).solution.stride() == (1, 2)
    solution = torch.linalg.lstsq(matrix[:2], matrix[:2, 0]).solution
    torch.testing.assert_close(solution.cpu(), torch.tensor([1.0, 0.0]))
