"""One operator of torch's op_db through one of xloom's doors, against the CPU: values and gradients."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.judges.op_db_operands import FORMS, Form, calculates

# by name: the types of its 25,000 lines take pyright longer than all of ours
invocations: Any = import_module("torch.testing._internal.common_methods_invocations")

DTYPES = {
    "f32": torch.float32,
    "i64": torch.int64,
    "bool": torch.bool,
    "c64": torch.complex64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
}
TOLERANCES = {  # relative, absolute; the sums of torch's own kernels are in another order
    torch.float32: (2e-4, 2e-5),
    torch.float64: (1e-6, 1e-7),
    torch.complex64: (2e-4, 2e-5),
    torch.complex128: (1e-6, 1e-7),
    torch.bfloat16: (2e-2, 1e-2),
    torch.float16: (2e-3, 1e-3),
}

UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
"""Operators whose results have any contents: like those that draw random numbers, judged by shape and dtype."""

TIES = {"argsort": 0, "kthvalue": 1, "mode": 0, "msort": None, "sort": 0, "topk": 1}
"""Operators that may name any of several equal elements, judged by what their places, their last result, name; and which
of their arguments, after the tensor, is the dimension (None: there are no places)."""

Function = Callable[..., Any]
Door = Callable[[Function, list[torch.Tensor]], Function]


def operators() -> dict[str, OpInfo]:
    """op_db by name, variants with theirs."""
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in invocations.op_db}


def _seeded(op: Function, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator by the seed that op_db gives it."""
    torch.manual_seed(42)
    return op(*args, **kwargs)


# torch's own restores the generator's state by a mode that Dynamo cannot go through, with any backend
invocations.wrapper_set_seed = _seeded


class Disagreement(Exception):
    """Values that differ from the CPU's."""


def judged(op: OpInfo, dtype_name: str, door: Door, limit: int) -> dict[str, Any]:
    """Verdicts on the first samples: {"samples": n, "forward": "pass" or the reason, "gradient": the same or None}."""
    return _judged(op, dtype_name, door, lambda samples: list(islice(samples, limit)), FORMS["plain"], 0)


def drawn(op: OpInfo, dtypes: list[str], door: Door, count: int, seed: int) -> dict[str, dict[str, Any]]:
    """Verdicts on `count` samples, each of a dtype, a place among the samples and a form of operands that `seed` draws."""
    draw = random.Random(seed * 1_000_003 + zlib.crc32(f"{op.name}.{op.variant_test_name}".encode()))
    verdicts: dict[str, dict[str, Any]] = {}
    for number in range(count):
        dtype, form = draw.choice(dtypes), draw.choice(list(FORMS))
        at = draw.random()

        def one(samples: Iterator[SampleInput], at: float = at) -> list[SampleInput]:
            known = list(islice(samples, 1000))
            return known[int(at * len(known)) :][:1]

        verdicts[f"{dtype}/{form}/{number}"] = _judged(op, dtype, door, one, FORMS[form], draw.randrange(1 << 30))
    return verdicts


def _judged(
    op: OpInfo, dtype_name: str, door: Door, choose: Callable[[Iterator[SampleInput]], list[SampleInput]], form: Form,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    dtype = DTYPES[dtype_name]
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(seed)
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = choose(iter(op.sample_inputs("cpu", dtype, requires_grad=differentiable)))
        except Exception as error:
            return {"samples": 0, "forward": "pass", "gradient": None, "skipped": _reason(error)}
        verdict: dict[str, Any] = {"samples": 0, "forward": "pass", "gradient": "pass" if differentiable else None}
        for number, sample in enumerate(samples):
            try:
                reference = Reference(op, sample, differentiable, form)
            except Exception:  # what the CPU does not do, nobody must
                continue
            verdict["samples"] += 1
            for kind, error in _verdicts(door, reference).items():
                if verdict[kind] == "pass":
                    verdict[kind] = f"sample {number}: {_reason(error)}"
    return verdict


class Reference:
    """What the CPU gives for a sample: values, gradients, and on demand both as computed from f64."""

    def __init__(self, op: OpInfo, sample: SampleInput, differentiable: bool, form: Form):
        self.op, self.sample, self.form = op, sample, form
        self.values, self.gradients = self.run(lambda f, _: f, differentiable)
        self.is_random = op.name in UNDEFINED or self._depends_on_seeds()

    def _depends_on_seeds(self) -> bool:
        """True when other seeds give other values: many are tried, as what is drawn may seldom show."""
        for offset in range(1000, 100_000, 1000):
            with _other_seeds(offset) as seeds:
                again = self.run(lambda f, _: f, False)[0]
                sets_one, after = len(seeds) > 1, torch.get_rng_state()
                torch.manual_seed(seeds[0])
                draws = sets_one or not torch.equal(after, torch.get_rng_state())
            if not _equal(self.values, again):
                return True
            if not draws:
                return False
        return False

    def run(self, door: Door, with_gradients: bool) -> tuple[list[Any], list[Any] | None]:
        """Values and gradients by a door."""
        return _run(self.op, self.sample, door, with_gradients, self.form)

    def check(self, values: list[Any], gradients: list[Any] | None = None) -> None:
        """Raises Disagreement for results that neither the CPU gives nor what it computes from f64."""
        try:
            self._check(values, self.values, gradients, self.gradients)
        except Disagreement:
            try:
                exact = _run(self.op, _widened(self.sample), lambda f, _: f, gradients is not None, self.form)
                narrowed = _narrowed(exact[0], self.values), _narrowed(exact[1], self.gradients)
            except Exception:
                narrowed = None
            if narrowed is None:
                raise
            if not (_as_near(values, self.values, exact[0]) and _as_near(gradients, self.gradients, exact[1])):
                self._check(values, narrowed[0], gradients, narrowed[1])

    def _check(self, values: list[Any], expected: Any, gradients: list[Any] | None, expected_gradients: Any) -> None:
        if self.op.name in TIES:
            values, expected = [[*r[:-1], _named(self.op.name, self.sample, r[-1])] for r in (values, expected)]
            if gradients is not None:
                gradients, expected_gradients = [list(map(_sorted, g)) for g in (gradients, expected_gradients)]
        _compare(values, expected, self.is_random)
        if gradients is not None:
            _compare(gradients, expected_gradients, self.is_random)


def _named(operator: str, sample: SampleInput, places: torch.Tensor) -> torch.Tensor:
    """The elements at places along the dimension that the operator goes along."""
    x, at = sample.input, TIES[operator]
    if at is None:
        return places
    if places.dtype is not torch.int64:
        raise Disagreement(f"places are {places.dtype}")
    if x.dim() == 0:
        return x
    dim = sample.kwargs.get("dim", sample.args[at] if at < len(sample.args) else -1)
    places = places.cpu()
    return x.detach().gather(dim, places if places.dim() == x.dim() else places.unsqueeze(dim))


def _sorted(gradient: Any) -> Any:
    return gradient.flatten().sort().values if isinstance(gradient, torch.Tensor) else gradient


def _verdicts(door: Door, reference: Reference) -> dict[str, Exception]:
    """What is wrong with the values, and with the gradients."""
    wrong: dict[str, Exception] = {}
    if reference.gradients is not None:
        try:
            reference.check(*reference.run(door, True))
            return wrong
        except Exception as error:
            wrong["gradient"] = error
    try:
        reference.check(reference.run(door, False)[0])
    except Exception as error:
        wrong["forward"] = error
    return wrong


_WIDE = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}


def _widened(sample: SampleInput) -> SampleInput:
    """The sample with every tensor in double precision."""

    def widen(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _WIDE:
            return leaf
        return leaf.detach().to(_WIDE[leaf.dtype]).requires_grad_(leaf.requires_grad)

    leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
    first, args, kwargs = tree_unflatten([widen(leaf) for leaf in leaves], tree)
    wide = SampleInput(first, args=args, kwargs=kwargs)
    wide.output_process_fn_grad = sample.output_process_fn_grad
    return wide


def _as_near(found: list[Any] | None, cpu: list[Any] | None, exact: list[Any] | None) -> bool:
    """Whether tensors of half precision are not twice as far from the exact ones as the CPU's are."""
    if found is None or cpu is None or exact is None:
        return found is cpu
    for ours, theirs, true in zip(found, cpu, exact, strict=True):
        if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
            return False
        if ours.dtype.itemsize != 2 or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        ours, theirs = [t.detach().cpu().double().sub(true.detach()).abs() for t in (ours, theirs)]
        if ours.numel() and not ours.max() <= 2 * theirs.max():
            return False
    return True


def _narrowed(exact: list[Any] | None, like: list[Any] | None) -> list[Any] | None:
    if exact is None or like is None:
        return None
    pairs = zip(exact, like, strict=True)
    return [e.to(v.dtype) if isinstance(e, torch.Tensor) and isinstance(v, torch.Tensor) else e for e, v in pairs]


@contextmanager
def _other_seeds(offset: int) -> Iterator[list[int]]:
    """Every seed that is set becomes another one, those of op_db's operators too; the list of them."""
    original, seeds = torch.manual_seed, []

    def other(seed: int) -> torch.Generator:
        seeds.append(seed)
        return original(seed + offset)

    torch.manual_seed = other
    try:
        yield seeds
    finally:
        torch.manual_seed = original


def _equal(first: list[Any], second: list[Any]) -> bool:
    try:
        _compare(first, second, False)
    except Disagreement:
        return False
    return True


def _run(
    op: OpInfo, sample: SampleInput, door: Door, with_gradients: bool, form: Form
) -> tuple[list[Any], list[Any] | None]:
    leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    process = sample.output_process_fn_grad
    reads_twice = form.is_computed and op.name not in TIES

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = form.inside(tensor)
        first, args, kwargs = tree_unflatten(filled, tree)
        result = op.op(first, *args, **kwargs)
        return result, [r * 0.5 for r in _tensors(result) if calculates(r)] if reads_twice else []

    tensors = [form.before(leaves[k].detach().clone(memory_format=torch.preserve_format)) for k in places]
    for tensor, place in zip(tensors, places, strict=True):
        tensor.requires_grad_(with_gradients and leaves[place].requires_grad)
    torch.manual_seed(1)
    results, again = door(call, tensors)(*tensors)
    flat = [r for r in tree_flatten(results)[0] if isinstance(r, (torch.Tensor, bool, int, float, complex))] + again
    if not with_gradients:
        return flat, None
    inputs = [t for t in tensors if t.requires_grad]
    processed = process(results) if process is not None else results
    outputs = [r for r in [*_tensors(processed), *again] if r.requires_grad]
    if not inputs or not outputs:
        return flat, None
    cotangents = [_cotangent(r) for r in outputs]
    return flat, list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _cotangent(result: torch.Tensor) -> torch.Tensor:
    # of numbers that every type has, so that double precision is asked for the gradient of the same ones
    ramp = torch.arange(result.numel(), dtype=torch.float32) % 7 / 8 + 0.25
    return ramp.reshape(result.shape).to(result.dtype).to(result.device)


def _compare(found: list[Any] | None, expected: list[Any] | None, is_random: bool) -> None:
    if found is None or expected is None or len(found) != len(expected):
        raise Disagreement(f"{found and len(found)} results, expected {expected and len(expected)}")
    for ours, theirs in zip(found, expected, strict=True):
        if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
            if type(ours) is not type(theirs):
                raise Disagreement(f"{type(ours).__name__}, expected {type(theirs).__name__}")
            if ours is not None and not isinstance(ours, torch.Tensor) and ours != theirs and ours == ours:
                raise Disagreement(f"{ours}, expected {theirs}")
            continue
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            raise Disagreement(f"{ours.dtype}{list(ours.shape)}, expected {theirs.dtype}{list(theirs.shape)}")
        if is_random:
            continue
        relative, absolute = TOLERANCES.get(theirs.dtype, (0.0, 0.0))
        try:
            torch.testing.assert_close(
                ours.detach().cpu(), theirs.detach(), rtol=relative, atol=absolute, equal_nan=True, check_stride=False
            )
        except AssertionError as error:
            raise Disagreement(" ".join(str(error).split())) from None


def _reason(error: BaseException) -> str:
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    return f"{type(inner).__name__}: {' '.join(str(inner).split())[:300]}"


# -- doors ---------------------------------------------------------------------------------------------------------


def table(function: Function, tensors: list[torch.Tensor]) -> Function:
    """The lowering table under AOTAutograd, without Dynamo: one graph, or an error."""
    from xloom.torch.compile_backend import traced

    return traced(function)


def compiled(function: Function, tensors: list[torch.Tensor]) -> Function:
    """torch.compile, which leaves to eager mode what it cannot put into a graph."""
    torch._dynamo.reset()
    return torch.compile(function, backend="xloom", dynamic=False)


def device(function: Function, tensors: list[torch.Tensor]) -> Function:
    """The lazy device: the same leaves, moved there."""
    import xloom.torch  # noqa: F401

    return lambda *own: function(*[t.to("xla") for t in own])


DOORS: dict[str, Door] = {"table": table, "compile": compiled, "device": device}
