"""What is recorded, when it is compiled and why, and how one sees it."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xloom as xl
import xloom.torch as xt
from tests.passes.pattern.told_kernels import attention as reference
from xloom.pjrt import Client
from xloom.torch.lazy.compatibility import processes
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.transfer import host_copy
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.metrics import METRICS


@pytest.fixture(autouse=True)
def fresh():
    xt.sync(wait=True)
    xt.metrics.clear()


def train(device, make_optimizer, steps=6, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(device)
    optimizer = make_optimizer(model.parameters(), **options)
    batches = [(torch.randn(32, 8), torch.randint(0, 4, (32,))) for _ in range(3)]
    losses = []
    for step in range(steps):
        x, y = (t.to(device) for t in batches[step % 3])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], [p.detach().cpu() for p in model.parameters()]


def test_training_is_that_of_the_cpu_and_compiles_twice():
    losses, parameters = train("cpu", torch.optim.AdamW, lr=0.01)
    xt.metrics.clear()
    ours, our_parameters = train("xla", torch.optim.AdamW, lr=0.01)
    np.testing.assert_allclose(ours, losses, rtol=2e-4, atol=1e-5)
    torch.testing.assert_close(our_parameters, parameters, rtol=1e-3, atol=1e-4)
    assert METRICS.programs == 2  # the first step, which makes the optimiser's state, and all others
    assert METRICS.waits == 6 + len(parameters)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "fused": False}),
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "fused": True}),
        (torch.optim.Adam, {"amsgrad": True, "foreach": True}),
        (torch.optim.Adam, {"foreach": False}),
        (torch.optim.Adam, {"amsgrad": True, "fused": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.RMSprop, {}),
        (torch.optim.Adagrad, {"fused": True}),
        (torch.optim.Adadelta, {}),
        (torch.optim.Adamax, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.RAdam, {}),
        (torch.optim.Rprop, {}),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else "-".join(v),
)
def test_optimisers(make, options, monkeypatch):
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)  # what is compiled is tested elsewhere
    found = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        weights = [torch.randn(3, 2).to(device).requires_grad_() for _ in range(2)]
        optimizer = make(weights, lr=0.01, **options)
        for _ in range(8):
            optimizer.zero_grad()
            torch.stack([(w**4).sum() for w in weights]).sum().backward()
            optimizer.step()
        found.append([w.detach().cpu() for w in weights])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {"amsgrad": True}), (torch.optim.Adagrad, {})],
    ids=lambda v: v.__name__ if isinstance(v, type) else "",
)
@pytest.mark.parametrize("scale", [None, 8.0])
def test_fused_steps_unscale_gradients_and_skip_infinite_ones(make, options, scale):
    found = []
    for device in ("cpu", "xla"):
        weight = torch.linspace(-1, 2, 6).to(device).requires_grad_()
        optimizer = make([weight], lr=0.1, fused=True, **options)
        optimizer.grad_scale = None if scale is None else torch.tensor(scale, device=device)
        for step in range(4):
            optimizer.zero_grad()
            (weight**4).sum().backward()
            optimizer.found_inf = torch.tensor(float(step == 2), device=device)
            optimizer.step()
        assert weight.grad is not None
        state = [each for each in optimizer.state[weight].values() if isinstance(each, torch.Tensor)]
        found.append([each.detach().cpu() for each in (weight, weight.grad, *state)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_a_changing_learning_rate_is_the_same_program():
    weight = torch.ones(4).to("xla").requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for _ in range(5):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        schedule.step()
    assert METRICS.programs == 1 and METRICS.runs == 5


def test_loops_without_an_end_of_step_run_by_batches(monkeypatch):
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)
    kept = []
    for _ in range(12):
        x = torch.ones(3).to("xla")
        for _ in range(100):
            x = x + 1
        kept.append(x)
    assert METRICS.runs >= 3 and METRICS.programs == 1
    assert [x[0].item() for x in kept] == [101] * 12


def test_why_did_this_recompile():
    for size in (1237, 1237, 1238):  # which no other test has
        x = torch.ones(size).to("xla")
        (x * 2 + 1).sum().item()
    assert METRICS.programs == 2
    report = xt.recompiles()[-1]
    assert "f32[1237], now f32[1238]" in report
    assert f"{__file__}:" in report and "test_why_did_this_recompile" in report


def test_values_that_nobody_has_are_not_computed():
    x = torch.ones(3, device="xla")
    kept = x + 1
    (x * 5).exp()
    xt.sync()
    assert kept.tolist() == [2, 2, 2]
    report = xt.recompiles()[-1]
    assert "1 results" in report or "2 results" in report


def test_eager_runs_operators_one_by_one():
    with xt.eager():
        x = torch.ones(3, device="xla")
        ((x + 1) * 2).sum()
        assert METRICS.runs >= 3
    before = METRICS.runs
    _ = (x + 1) * 2
    assert METRICS.runs == before


def test_hlo_of_a_function():
    module = xt.hlo(lambda a, b: torch.relu(a @ b), torch.ones(2, 3), torch.ones(3, 4))
    text = str(module)
    assert "f32[2,4]{1,0} dot(" in text and "maximum(" in text and 'op_type="aten.mm.default"' in text
    (result,) = xl.evaluate(module, np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert result.tolist() == [[3.0] * 4] * 2
    with pytest.raises(RuntimeError, match="needs a value while it runs"):
        xt.hlo(lambda a: a * a.sum().item(), torch.ones(2))


def test_the_way_of_an_operator_is_logged():
    code = """
        import torch, xloom.torch
        x = torch.ones(3).to("xla")
        print((x * 2.5).tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "XLOOM_LOG": "torch"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("xloom.torch: ").split()[:2] for line in done.stderr.splitlines()]
    at = lines.index(["dispatcher", "aten.mul.Tensor"])
    assert lines[at - 1][0] == "<string>:4" and lines[at + 1][0] == "bridge"
    assert lines[at + 2] == ["recorded", "aten.mul.Tensor(f32[3],"] and ["HLO", "%multiply"] in lines
    assert any(line[0] == "compile" for line in lines) and any(line[0] == "run" for line in lines)


def test_errors_come_from_the_line_of_the_operator():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        _ = torch.ones(2, 3, device="xla") @ torch.ones(2, 3, device="xla")
    assert torch.ones(2, device="xla").tolist() == [1, 1]


def test_custom_operators_are_custom_calls():
    @xl.custom_call("test.scale")
    def kernel(out, x, *, opaque):
        out[...] = x * json.loads(opaque)["factor"]

    @torch.library.custom_op("xloom_test::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        raise AssertionError("the kernel of the CPU")

    scale.register_fake(lambda x, factor: torch.empty_like(x))
    scale.register_autograd(
        lambda ctx, grad: (scale(grad, ctx.factor), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    xt.custom_call(scale, "test.scale")
    x = torch.ones(3, device="xla", requires_grad=True)
    y = scale(x, 2.5) * 2
    y.sum().backward()
    assert y.tolist() == [5, 5, 5] and x.grad is not None and x.grad.tolist() == [5, 5, 5]
    assert 'custom_call_target="test.scale"' in str(xt.hlo(scale, torch.ones(2), 3.0))


def test_patterns_are_outlined():
    calls = []

    @xl.custom_call("test.gelu")
    def kernel(out, x):
        calls.append(x.shape)
        out[...] = 7

    x = torch.ones(3, device="xla")
    with xt.passes("outline{pattern=gelu_erf,target=test.gelu}"):
        assert F.gelu(x).tolist() == [7, 7, 7]
    assert calls == [(3,)]
    assert F.gelu(x)[0].item() == pytest.approx(0.8413, abs=1e-4)


def test_passes_see_numbers_until_they_change():
    seen = []

    @xl.custom_call("test.attention")
    def attention(out, *operands, match):
        seen.append((match.scale, match.mask, match.zero_rows))
        reference(out, *operands, match=match)

    given = torch.randn(3, 2, 3, 5, 8)
    mask = (torch.rand(2, 3, 5, 5) > 0.3) | (torch.arange(5) == 0)
    q, k, v = given.to("xla")
    with xt.passes("outline{pattern=attention,target=test.attention}"):
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to("xla")).cpu()
        torch.testing.assert_close(found, F.scaled_dot_product_attention(*given, attn_mask=mask))
        x = (torch.softmax(q @ k.mT / 3, -1) @ v).cpu()
        torch.testing.assert_close(x, torch.softmax(given[0] @ given[1].mT / 3, -1) @ given[2])
    assert seen == [(pytest.approx(8**-0.5), "boolean", True), (pytest.approx(1 / 3), "none", False)]
    w = torch.ones(3, device="xla")
    with xt.passes("cse"):
        before = METRICS.programs
        for step in range(8):
            w = w - w * (0.1 / (step + 1))
            w.cpu()
        assert METRICS.programs - before <= 3


def test_copies_on_the_host_are_there_whatever_the_default_device_is():
    x = torch.arange(4.0, device="xla")
    assert isinstance(x, XlaTensor)
    with torch.device("xla"):  # which also holds in operators that C++ calls
        copy = host_copy(x)
    assert copy.device.type == "cpu"
    assert copy.tolist() == [0, 1, 2, 3]


def test_how_many_processes_there_are_before_they_have_a_group(monkeypatch):
    assert (processes.world_size(), processes.ordinal()) == (1, 0)
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    assert (processes.world_size(), processes.ordinal()) == (4, 2)


def test_scripts_of_torch_xla_run():
    code = """
        import xloom.torch
        xloom.torch.install_as_torch_xla()
        import torch, torch_xla, warnings
        import torch_xla.core.xla_model as xm
        import torch_xla.debug.metrics as met
        import torch_xla.distributed.parallel_loader as pl

        device = xm.xla_device()
        assert device == torch_xla.device()
        model = torch.nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(12, 4)), batch_size=4)
        for (x,) in pl.MpDeviceLoader(data, device):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            xm.optimizer_step(optimizer)
        xm.mark_step()
        torch_xla.sync(wait=True)
        assert met.counter_value("programs") == 1, met.metrics_report()
        assert "runs: 3" in met.metrics_report()
        assert (met.metric_data("CompileTime")[0], met.metric_data("ExecuteTime")[0]) == (1, 3)
        assert met.metric_data("OutboundData")[1] > 0 and met.metric_data("DeviceLockWait") is None
        assert (met.counter_value("UncachedCompile"), met.counter_value("CachedCompile")) == (1, 2)
        assert "MarkStep" in met.counter_names() and met.executed_fallback_ops() == []
        # what accelerate and transformers ask for
        import importlib.util
        import torch_xla.distributed.xla_multiprocessing as xmp

        assert importlib.util.find_spec("torch_xla") and torch_xla.__version__ in torch.__version__
        xm.set_replication(device, xm.get_xla_supported_devices())
        batch = xm.send_cpu_data_to_device({"x": torch.ones(2), "name": "a"}, device)
        assert batch["x"].device == device and batch["name"] == "a"
        assert xm.send_cpu_data_to_device(torch.ones(2), device)[0].device == device
        assert [g.shape for g in xm._fetch_gradients(optimizer)] == [(2, 4), (2,)]
        assert xmp.MpModelWrapper(torch.nn.Linear(2, 2)).to(device).weight.device == device
        assert "CompileTime" in met.short_metrics_report() and "MarkStep" in met.short_metrics_report()
        short = met.short_metrics_report(["CachedCompile"], ["InboundData"])
        assert "InboundData" in short and "MarkStep" not in short and "CompileTime" not in short
        model(x).sum().item()
        assert met.executed_fallback_ops() == ["aten::_local_scalar_dense"]
        (x,) = xm.send_cpu_data_to_device(torch.ones(2), device)
        assert xm.is_xla_tensor(x) and not xm.is_xla_tensor(torch.ones(2))
        assert "multiply" in torch_xla._XLAC._get_xla_tensors_hlo([x * 2])
        with torch_xla.experimental.eager_mode_context(True):
            assert torch_xla.experimental.is_eager_mode()
        assert not torch_xla.experimental.is_eager_mode()
        from torch_xla.stablehlo import exported_program_to_stablehlo
        with warnings.catch_warnings(action="ignore"):  # of torch's
            exported = torch.export.export(torch.nn.ReLU(), (torch.tensor([-1.0, 2.0]),))
            assert exported_program_to_stablehlo(exported)(torch.tensor([-3.0, 4.0])).tolist() == [0, 4]
        with torch_xla.amp.autocast(device):
            assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype is torch.bfloat16
    """
    done = subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_parts_of_what_is_there_are_read_without_a_program():
    x = torch.arange(12.0, device="xla").view(3, 4)
    xt.sync(wait=True)
    xt.metrics.clear()
    assert [float(each) for each in x.t()[1]] == [1, 5, 9]
    assert x[:, ::2].tolist() == [[0, 2], [4, 6], [8, 10]]
    assert x[2, 1:].to(torch.bfloat16).float().tolist() == [9, 10, 11]
    assert xt.metrics.METRICS.programs == 1  # of the conversion
    z = torch.tensor([1 + 2j], device="xla")
    xt.sync()
    assert z.conj()[0].item() == 1 - 2j
    x[0] += 1
    assert x[0].tolist() == [1, 2, 3, 4]


def test_ranges_and_gradients_of_parts_are_one_operator_each():
    before = METRICS.operators
    count = torch.arange(2, 12, 3, device="xla")
    assert METRICS.operators == before + 1
    assert count.tolist() == [2, 5, 8, 11]
    with pytest.raises(RuntimeError, match="unsupported range"):
        torch.arange(0, float("inf"), device="xla")
    x = torch.randn(4, 6)
    for part in (lambda x: x[1:3], lambda x: x[..., 2], lambda x: x[:, 1::3]):
        ours, theirs = x.to("xla").requires_grad_(), x.clone().requires_grad_()
        result = part(ours)
        slope = torch.ones(result.shape).to("xla")
        before = METRICS.operators
        result.backward(slope)
        assert METRICS.operators == before + 1
        part(theirs).sum().backward()
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def _grown(tokens, weight):
    new = tokens[:, -1:].contiguous()
    for _ in range(10):
        new = torch.sin(new * weight)
    return torch.cat([tokens, new], 1)


def test_tokens_that_become_more_share_programs():
    """As in generating with a growing cache: each step is one run, and few sizes have a program of their own."""
    tokens, weight = torch.ones(7, 3).to("xla"), torch.randn(1, 1).to("xla")
    host, on_host = tokens.cpu(), weight.cpu()
    programs, runs = METRICS.programs, METRICS.runs
    for step in range(30):
        tokens, host = _grown(tokens, weight), _grown(host, on_host)
        total = tokens.sum(1)
        xt.sync()
        if step % 7 == 0:
            torch.testing.assert_close(total.cpu(), host.sum(1))
    torch.testing.assert_close(tokens.cpu(), host)
    assert METRICS.runs == runs + 30
    assert METRICS.programs <= programs + 4  # two of one size, up to 8, and up to 64


def test_bounds_are_near_where_much_is_computed():
    weight = torch.randn(4096).to("xla")
    programs = METRICS.programs
    for size in range(9, 34, 2):
        x = torch.randn(size, 4096)
        torch.testing.assert_close((x.to("xla") * weight).sum(0).cpu(), (x * weight.cpu()).sum(0), rtol=1e-4, atol=1e-4)
    assert programs + 5 <= METRICS.programs <= programs + 6  # two of one size, up to 16, 24, 32 and 40


def test_a_size_that_memory_was_made_for_bounds_the_program():
    """Parts are taken of memory of 11 places: there is no program for 16."""
    memory = torch.randn(2, 11)
    on_device = memory.to("xla")
    METRICS.own_sizes.clear()
    programs = METRICS.programs
    for size in range(3, 12):
        part = torch.randn(2, size)
        ours = (on_device[:, :size] * part.to("xla")).sum(1)
        torch.testing.assert_close(ours.cpu(), (memory[:, :size] * part).sum(1))
    assert METRICS.programs <= programs + 5
    assert not METRICS.own_sizes


def test_a_part_that_becomes_larger_needs_no_array_that_does():
    """As in a search whose tokens have their memory from the start."""
    memory = torch.randn(2, 40)
    on_device = memory.to("xla")
    programs = METRICS.programs
    for size in range(9, 33):
        ours = on_device[:, :size].softmax(1).cumsum(1)[:, size - 3]
        torch.testing.assert_close(ours.cpu(), memory[:, :size].softmax(1).cumsum(1)[:, size - 3])
    assert METRICS.programs <= programs + 6


def test_windows_of_tokens_that_become_more_share_programs():
    """As in looking for what was said before: short windows are parts, put together."""
    programs = METRICS.programs
    for size in range(9, 20):
        tokens = torch.randn(2, size)
        both = []
        for each in (tokens.to("xla"), tokens):
            windows = each.unfold(1, 3, 1)
            both.append((windows * windows.sum(1, keepdim=True)).sum((1, 2)).cpu())
        torch.testing.assert_close(*both)
    assert METRICS.programs <= programs + 4
    x = torch.randn(2, 9, 3)
    for window in ((1, 8, 1), (-2, 4, 3), (0, 1, 1)):
        assert torch.equal(x.to("xla").unfold(*window).cpu(), x.unfold(*window))


def test_random_numbers_of_a_size_are_those_of_its_own_program():
    def drawn(size):
        x = torch.ones(size).to("xla")
        xt.sync()
        torch.manual_seed(3)
        return (x * torch.rand(size, device="xla")).tolist()

    sizes = [9, 10, 11, 12]
    METRICS.own_sizes.clear()
    first = {size: drawn(size) for size in sizes}
    assert "random numbers of another size are others" in METRICS.own_sizes
    torch.manual_seed(3)
    assert first[12] == torch.rand(12, device="xla").tolist()


def test_tokens_whose_sizes_share_no_program_leave_the_rest_of_a_step_compiled():
    """The program ends before what differs in size, and begins after it."""
    tokens, weight = torch.ones(5, 3).to("xla"), torch.randn(1, 1).to("xla")
    host, on_host = tokens.cpu(), weight.cpu()

    def grown(tokens, weight):
        return torch.fft.fft(_grown(tokens, weight)).abs()

    for step in range(12):
        known = len(xt.recompiles())
        tokens, host = grown(tokens, weight), grown(host, on_host)
        xt.sync()
        if step >= 8:
            assert max(int(report.split()[2]) for report in xt.recompiles()[known:]) < 6
    torch.testing.assert_close(tokens.cpu(), host)
    with xt.step():  # which is one program
        before = METRICS.runs
        tokens = _grown(tokens, weight)
    assert METRICS.runs == before + 1
