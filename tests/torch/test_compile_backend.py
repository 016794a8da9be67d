"""torch.compile(backend="xloom"): values, gradients, shapes, random numbers, mutation, errors."""

import runpy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils._pytree import tree_leaves

from xloom.errors import ShapeError
from xloom.torch import compile_backend
from xloom.torch.ahead import export
from xloom.torch.lowering import registry
from xloom.torch.metrics import METRICS, metrics_report

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="xloom", fullgraph=True, **options)


@pytest.mark.parametrize("name", ["mlp", "gpt", "resnet"])
def test_training_follows_eager_mode(name):
    example = runpy.run_path(str(EXAMPLES / f"train_{name}.py"))
    losses = {}
    for side in ("eager", "xloom"):
        model, inputs, targets = example["problem"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        loss_of = compiled(example["loss_of"]) if side == "xloom" else example["loss_of"]
        losses[side] = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            optimizer.step()
            losses[side].append(loss.item())
    assert losses["xloom"] == pytest.approx(losses["eager"], rel=2e-3)
    assert losses["xloom"][-1] < losses["xloom"][0]


@pytest.mark.parametrize("door", ["compile", "eager"])
def test_the_examples_train_by_every_door(door, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train_mlp.py", "--steps", "3", "--door", door])
    runpy.run_path(str(EXAMPLES / "train_mlp.py"), run_name="__main__")
    first, last = (float(line.split("loss ")[1].split(",")[0]) for line in capsys.readouterr().out.splitlines())
    assert last < first


def test_shapes_that_change_have_a_program_each():
    function = compiled(lambda x: (x * 2).sum(0), dynamic=True)
    for rows in (3, 5, 3, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x), (x * 2).sum(0))


def test_views_and_strides_of_inputs_do_not_matter():
    function = compiled(lambda x: x + 1)
    x = torch.arange(12.0).reshape(3, 4).t()
    assert torch.equal(function(x), x + 1)


def test_inputs_are_written_in_place():
    def step(x, y):
        x.add_(y)
        return x * 2

    x, y = torch.ones(4), torch.full((4,), 3.0)
    assert torch.equal(compiled(step)(x, y), torch.full((4,), 8.0))
    assert torch.equal(x, torch.full((4,), 4.0))


def test_random_numbers_follow_the_seed():
    function = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(1000)
    torch.manual_seed(1)
    first, second = function(x), function(x)
    torch.manual_seed(1)
    assert torch.equal(function(x), first)
    assert not torch.equal(first, second)
    assert 400 < int((first == 0).sum()) < 600
    assert set(first.unique().tolist()) == {0.0, 2.0}


def test_custom_calls_of_lapack_run_in_programs():
    x = torch.randn(5, 5)
    q, r = compiled(lambda a: torch.linalg.qr(a + 0))(x)
    torch.testing.assert_close(q @ r, x)


def test_results_that_are_arguments_are_not_copied():
    traced = compile_backend.traced(lambda x: (x.sin(), x))
    x = torch.ones(3)
    assert traced(x)[1].data_ptr() == x.data_ptr()


@pytest.fixture
def without_kthvalue(monkeypatch):
    """The table lacks `aten.kthvalue`."""
    monkeypatch.delitem(registry.LOWERINGS, "aten.kthvalue.default")
    registry._row.cache_clear()
    yield
    registry._row.cache_clear()


def test_an_operator_without_a_lowering_names_itself_and_its_line(without_kthvalue):
    def function(x):
        return torch.kthvalue(x, 2)[0]

    with pytest.raises(Exception, match=r"aten\.kthvalue\.default has no lowering") as caught:
        compiled(function)(torch.ones(8))
    assert __file__ in str(caught.value)


def test_export_compiles_ahead_of_time():
    first = nn.Linear(4, 8)
    model = nn.Sequential(first, nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randn(3, 4)
    exported = export(model, (x,))
    torch.testing.assert_close(exported(x), model(x))
    assert any(i.opcode == "dot" for i in exported.module.instructions)
    with torch.no_grad():
        first.weight.mul_(2)
    torch.testing.assert_close(exported(x), model(x))
    with pytest.raises(ShapeError, match=r"exported for \[3, 4\]"):
        exported(torch.randn(5, 4))


def test_export_keeps_the_state_of_buffers():
    model = nn.BatchNorm1d(4)
    exported = export(model, (torch.randn(8, 4),))
    x = torch.randn(8, 4) + 3
    expected = nn.BatchNorm1d(4)
    torch.testing.assert_close(exported(x), expected(x))
    torch.testing.assert_close(model.running_mean, expected.running_mean)


def test_results_have_memory_of_their_own():
    x = torch.ones(3)
    for function in (torch.clone, lambda x: x * 1, lambda x: x.to(torch.float32, copy=True)):
        compiled(function)(x).add_(1)
        assert x.tolist() == [1, 1, 1]
    viewed = compiled(lambda x: x.view(1, 3))(x)
    viewed.add_(1)
    assert x.tolist() == [2, 2, 2]


def test_statistics_that_are_written_as_they_were_do_not_disturb_gradients():
    def function(x, mean, variance):
        return torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, False, 0.1, 1e-5)[0]

    x = torch.randn(4, 2, 3, requires_grad=True)
    statistics = torch.rand(2), torch.rand(2)
    (expected,) = torch.autograd.grad(function(x, *statistics).sum(), x)
    (found,) = torch.autograd.grad(compiled(function)(x, *statistics).sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("options", [{"bidirectional": True, "num_layers": 2}, {"bias": False, "batch_first": True}])
def test_an_exported_lstm(options):
    model, x = torch.nn.LSTM(3, 4, **options).eval(), torch.randn(5, 2, 3)
    compiled = torch.compile(torch.export.export(model, (x,)).module(), backend="xloom")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_numbers_are_part_of_an_exported_program():
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: int) -> torch.Tensor:
            return x * factor

    exported = export(Scaled(), (torch.ones(3), 4))
    assert exported(torch.tensor([1.0, 2.0, 3.0]), 4).tolist() == [4, 8, 12]
    with pytest.raises(ShapeError, match="value 5, exported for value 4"):
        exported(torch.ones(3), 5)


def test_results_have_the_strides_of_eager_mode():
    image = torch.randn(2, 3, 8, 6).to(memory_format=torch.channels_last).requires_grad_()
    convolution = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    functions = [
        convolution,
        lambda x: (x.transpose(1, 2) * 2, x + 1),
        lambda x: (y := x.transpose(1, 2) * 2, y[:, 1:].permute(3, 0, 1, 2)),  # a view of a result
        lambda x: x[:, :, 1].exp().transpose(0, 1),
    ]
    for function in functions:
        for dynamic in (False, True):
            expected = tree_leaves(function(image))
            found = tree_leaves(torch.compile(function, backend="xloom", dynamic=dynamic)(image))
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.stride() == theirs.stride()
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [lambda x, y: x.mT @ y, lambda x, y: torch.einsum("bij,bik->bkj", x, y)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_have_the_strides_of_eager_mode(function, dynamic):
    arguments = [torch.randn(2, 3, n, requires_grad=True) for n in (4, 5)]
    compiled = torch.compile(function, backend="xloom", dynamic=dynamic)
    theirs, ours = [torch.autograd.grad(f(*arguments).square().sum(), arguments) for f in (function, compiled)]
    assert [each.stride() for each in ours] == [each.stride() for each in theirs]
    torch.testing.assert_close(ours, theirs)


MEMORY = {
    "of a result": lambda x: (x * 2).as_strided((2, 3), (1, 2)),
    "of a part": lambda x: (x + 1)[1:].as_strided((2, 2), (1, 3)),
    "of one of several parts": lambda x: (x + 1).split(2)[1].as_strided((2, 2), (1, 3)),
    "with an offset": lambda x: (x * 2).as_strided((2, 3), (1, 2), 3),
    "scattered": lambda x: torch.as_strided_scatter(x * 2, torch.zeros(2, 3), (2, 3), (1, 4), 1),
    "copied": lambda x: torch.as_strided_copy(x * 2, (2, 3), (1, 2)),
    "written": lambda x: (y := x * 2, y.as_strided((2, 3), (1, 2)).add_(100), y.clone())[2],
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_in_the_order_of_strides(name):
    transposed = torch.arange(12.0).reshape(3, 4).t()
    expected = MEMORY[name](transposed)
    torch.testing.assert_close(compiled(MEMORY[name])(transposed), expected)


def test_what_a_graph_asserts_of_values():
    one_hot = compiled(lambda x: torch.nn.functional.one_hot(x, 4) * 2)
    torch.testing.assert_close(one_hot(torch.tensor([1, 3])), torch.tensor([[0, 2, 0, 0], [0, 0, 0, 2]]))
    with pytest.raises(RuntimeError, match="Class values must be"):
        one_hot(torch.tensor([1, 4]))


def test_what_a_graph_asserts_of_sizes():
    def joined(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        torch._check(a.shape[0] + b.shape[0] == c.shape[0])
        return torch.cat([a, b]) * c

    run = compiled(joined, dynamic=True)
    for n in (3, 5):
        given = [torch.randn(size) for size in (n, 4, n + 4)]
        torch.testing.assert_close(run(*given), joined(*given))
    with pytest.raises(RuntimeError):
        run(torch.ones(3), torch.ones(4), torch.ones(1))


def test_repetitions_of_a_known_number():
    x, repeats = torch.randn(3, 2), torch.tensor([2, 0, 3])
    repeated = lambda x, n: x.repeat_interleave(n, 0, output_size=5) + 1  # noqa: E731
    torch.testing.assert_close(compiled(repeated)(x, repeats), repeated(x, repeats))


@pytest.mark.parametrize(
    "function", [lambda x, s: x * (1.0 / s), lambda x, s: x * s**2, lambda x, s: x + 2.0 / (x.shape[0] * s)]
)
def test_arithmetic_of_python_numbers_is_part_of_the_program(function):
    run = compiled(function, dynamic=True)
    for number in (2.5, 3.5, 7.25):
        x = torch.randn(3, 5)
        torch.testing.assert_close(run(x, number), function(x, number))


def test_a_group_norm_under_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 9, 9)

    def gradients(function):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = function(x).float().pow(2).mean()
        loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for found, want in zip(gradients(compiled(model)), gradients(model), strict=True):
        torch.testing.assert_close(found, want, rtol=0.05, atol=0.01)


@pytest.fixture(scope="module")
def of_others():
    """Operators as packages bring them."""

    @torch.library.custom_op("xloom_tests::sorted_rows", mutates_args=())
    def sorted_rows(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = x.sort(dim)
        return values, places

    sorted_rows.register_fake(lambda x, dim: (torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)))

    @torch.library.custom_op("xloom_tests::fill_diagonal", mutates_args=("x",))
    def fill_diagonal(x: torch.Tensor, value: float) -> torch.Tensor:
        x.fill_diagonal_(value)
        return x.sum()

    fill_diagonal.register_fake(lambda x, value: x.new_empty(()))

    @torch.library.custom_op("xloom_tests::count_up", mutates_args=("x",))
    def count_up(x: torch.Tensor) -> None:
        x.add_(1)

    @torch.library.custom_op("xloom_tests::in_memory", mutates_args=())
    def in_memory(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((x.numel(),), (1,)).clone()

    in_memory.register_fake(lambda x: x.new_empty((x.numel(),)))

    @torch.library.custom_op("xloom_tests::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cube.register_fake(torch.empty_like)
    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return torch.ops.xloom_tests


def _changed_by_others(ops, x):
    y = x * 2
    total = ops.fill_diagonal(y[:, 1:], 5.0)
    ops.count_up(y[1])
    return y + 1, total


OF_OTHERS = {
    "results of several": lambda ops, x: [value + 1 for value in ops.sorted_rows(x * 2, 1)],
    "changes a view of what the program computes": _changed_by_others,
    "lies in memory as in eager mode": lambda ops, x: ops.in_memory((x * 2).t().contiguous().t()) + 1,
}


@pytest.mark.parametrize("case", OF_OTHERS)
def test_an_operator_of_others_runs_by_its_own_kernel(of_others, case):
    def function(x):
        return OF_OTHERS[case](of_others, x)

    x = torch.randn(3, 4)
    before = METRICS.fallbacks.total()
    for found, want in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(found, want)
    assert METRICS.fallbacks.total() > before
    assert "xloom_tests." in metrics_report()


def test_an_operator_of_others_has_its_gradient(of_others):
    x = torch.randn(3, 4, requires_grad=True)
    compiled(lambda x: of_others.cube(x * 2).sum())(x).backward()
    torch.testing.assert_close(x.grad, 6 * (2 * x.detach()) ** 2)


def test_an_argument_is_changed_by_an_operator_of_others(of_others):
    def function(x):
        of_others.count_up(x)
        return x * 2

    x = torch.ones(3)
    assert compiled(function)(x).tolist() == [4, 4, 4]
    assert x.tolist() == [2, 2, 2]


def test_an_operator_of_torch_without_lowering_runs_on_the_cpu_where_that_is_allowed(monkeypatch, without_kthvalue):
    def function(x):
        return torch.kthvalue(x * 2, 2)[0] + 1

    x = torch.randn(3, 3)
    with pytest.raises(BackendCompilerFailed, match="XLOOM_TORCH_FALLBACK=1"):
        compiled(function)(x)
    monkeypatch.setenv("XLOOM_TORCH_FALLBACK", "1")
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(function)(x), function(x))


def test_addcmul_in_place():
    def function(x, y):
        x.addcmul_(y, y, value=0.5)
        return x * 2

    for dtype in (torch.float64, torch.bfloat16):
        x, y = torch.arange(4).to(dtype), torch.ones(4, dtype=dtype)
        expected = function(x.clone(), y)
        assert torch.equal(torch.compile(function, backend="xloom")(x, y), expected)


def test_strides_over_a_view_as_another_dtype():
    def function(x):
        return torch.view_as_real(x * 1).as_strided((2, 2), (1, 3), 1) + 1

    x = torch.randn(5, dtype=torch.complex128)
    assert torch.equal(torch.compile(function, backend="xloom")(x), function(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_views_of_one_value_share_its_memory(dynamic):
    def function(x):
        value = x * 2
        columns, (first, second) = value.t(), value.chunk(2)
        torch._dynamo.graph_break()
        columns[0] = 7
        second.zero_()
        return value, columns, first

    once = torch.compile(function, backend="xloom", dynamic=dynamic)
    for size in (4, 6):
        x = torch.arange(3.0 * size).reshape(size, 3)
        found = once(x.clone())
        assert all(map(torch.equal, found, function(x)))
        assert [each.stride() for each in found] == [each.stride() for each in function(x)]
        assert len({each.untyped_storage().data_ptr() for each in found}) == 1


def test_results_that_share_memory_are_written_under_autograd():
    @compiled
    def function(x):
        value = x * 2
        return value, value[:, 0]

    value, column = function(torch.arange(6.0).reshape(2, 3))
    weight = torch.tensor([3.0, 5.0], requires_grad=True)
    column *= weight
    assert torch.equal(value.detach(), torch.tensor([[0.0, 2.0, 4.0], [30.0, 8.0, 10.0]]))
    (gradient,) = torch.autograd.grad(value.sum(), weight)
    assert torch.equal(gradient, torch.tensor([0.0, 6.0]))


def test_memory_of_results_grows():
    @compiled
    def function(x):
        rows = x * 2
        return rows[:2], rows.view(-1)

    first, all = function(torch.zeros(3, 3))
    first.resize_(5, 3).fill_(1)
    assert torch.equal(all, torch.ones(9))


def test_tensors_that_custom_calls_have_seen_can_grow():
    matrix = torch.eye(3)
    values = compiled(torch.linalg.svdvals)(matrix)
    assert torch.equal(values.resize_(4)[:3], torch.ones(3))
    assert torch.equal(matrix.resize_(4, 4)[0], torch.tensor([1.0, 0.0, 0.0, 0.0]))


def test_parts_of_a_result_with_a_gradient_are_written():
    @compiled
    def function(x, bias):
        rows = (x * 2).split(2)
        return *rows, bias * 2

    x, bias = torch.ones(4, 3), torch.ones(2, requires_grad=True)
    first, second, _ = function(x, bias)
    first.mul_(bias.sum())
    assert torch.equal(first.detach(), torch.full((2, 3), 4.0))
    assert torch.equal(second, torch.full((2, 3), 2.0))


@pytest.mark.parametrize("shape, mask, count", [((4, 5), (4, 5), 7), ((4, 5, 2), (4,), 8), ((4, 5), (4, 5), 0)])
def test_values_for_the_true_elements_of_a_mask(shape, mask, count):
    """As many as there are, in their order; another number is torch's error."""

    def put(x, where, values):
        y = x.clone()
        y[where] = values
        return y

    x = torch.randn(shape)
    where = (torch.arange(torch.Size(mask).numel()) * 7 % 20 < count).reshape(mask)
    values = torch.randn(int(where.sum()), *shape[len(mask) :])
    call = compiled(put)
    torch.testing.assert_close(call(x, where, values), put(x, where, values), rtol=0, atol=0)
    if count:
        with pytest.raises(RuntimeError, match="shape mismatch"):
            call(x, torch.zeros_like(where), values)
