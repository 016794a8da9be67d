"""Programs to try on a GPU, with arguments: of each kind a sample that is the same each time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import xloom as xl
from tests.cuda.emulation import random_array
from tests.cuda.kernel_programs import OTHERS, PRODUCTS, PROGRAMS, TF32, product
from tests.cuda.test_opcodes import RANDOM, REFUSED, arguments_of, sample
from tests.judges.programs import generate
from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.proto.decoder import decode


class Candidate(NamedTuple):
    """A program to try."""

    name: str
    module: Module
    arguments: Sequence[np.ndarray]
    is_exact: bool = False
    """Whether its sums are of so few bits that nothing rounds: a single product, whose value NumPy knows."""


def opcodes(count: int) -> Iterator[Candidate]:
    """Samples of opcodes."""
    for opcode in _spread([o for o in OPCODES if o not in REFUSED | RANDOM], count):
        module = sample(opcode)
        if all(p.shape.is_array for p in module.entry.parameters):
            yield Candidate(opcode, module, arguments_of(module, opcode))


def kernels(count: int) -> Iterator[Candidate]:
    """Programs of goldens, but large products."""
    generator = np.random.default_rng(0)
    for name in _spread([name for name in PROGRAMS if name not in PRODUCTS], count):
        module = xl.parse(PROGRAMS[name])
        yield Candidate(name, module, _arguments(name, module, generator))


def _arguments(name: str, module: Module, generator: np.random.Generator) -> list[np.ndarray]:
    """Random ones, that a program with promises is promised."""
    opcode, low, high = module.entry.root.opcode, *((0, 999) if name in OTHERS else (0, 4))
    arguments = []
    for parameter in module.entry.parameters:
        value = random_array(parameter.shape, generator)
        if value.dtype == np.int32:
            value = generator.integers(low, high, value.shape).astype(value.dtype)
            if module.entry.root.attrs.get("unique_indices"):
                value = generator.permutation(high)[: value.size].reshape(value.shape).astype(value.dtype)
        elif opcode in ("cholesky", "triangular-solve") and not arguments:  # far from singular
            n = value.shape[-1]
            value = (value @ np.conj(np.swapaxes(value, -1, -2)) + n * np.eye(n)).astype(value.dtype)
        arguments.append(value)
    return arguments


def products(count: int) -> Iterator[Candidate]:
    """Products of numbers that nothing rounds, of all sizes and layouts."""
    generator = np.random.default_rng(0)
    texts = {
        name: text for name, text in PRODUCTS.items() if "dot(" in text and "batch" not in text and "p2" not in text
    }
    for dtype in ("bf16", "f16", "f32"):
        for layout in ("nn", "nt", "tn", "tt"):
            algorithm = TF32 if dtype == "f32" else ""
            texts[f"{dtype} {layout}, small"] = product(dtype, 130, 100, 72, "f32", layout, algorithm)
            texts[f"{dtype} {layout}, large"] = product(dtype, 1032, 1160, 520, "f32", layout, algorithm)
    for name in _spread(list(texts), count):
        module = xl.parse(texts[name])
        values = [generator.integers(-4, 5, p.shape.dims) for p in module.entry.parameters]
        yield Candidate(name, module, [v.astype(np.int8) for v in values], is_exact=True)


def random_programs(count: int) -> Iterator[Candidate]:
    """Those of the differential judge."""
    for number in range(count):
        program = generate(28, number)
        yield Candidate(str(number), program.module, program.arguments)


def jax_programs(count: int) -> Iterator[Candidate]:
    """Random programs of JAX's operations."""
    import jax

    from tests.judges.composed.generator import generate as composed

    jax.config.update("jax_enable_x64", True)
    for number in range(count):
        case = composed(28, number, "all")
        lowered = jax.jit(case.program.function(), keep_unused=True).lower(*case.arguments)
        hlo: Any = lowered.compiler_ir("hlo")
        module = decode(hlo.as_serialized_hlo_module_proto())
        if _has_bounds(module):
            yield Candidate(str(number), module, [np.asarray(a) for a in case.arguments])


def torch_programs(count: int) -> Iterator[Candidate]:
    """Operators of op_db, each with its first sample's shapes."""
    import torch

    import xloom.torch
    from tests.judges.op_db_case import operators

    generator = np.random.default_rng(0)
    for name in _spread(sorted(operators()), count):
        op = operators()[name]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = next(iter(op.sample_inputs("cpu", torch.float32)))
                module = xloom.torch.hlo(op.op, given.input, *given.args, **given.kwargs)
        except Exception:  # what op_db has no sample of, or what is no one program
            continue
        if _has_bounds(module):
            yield Candidate(name, module, [random_array(p.shape, generator) for p in module.entry.parameters])


def _has_bounds(module: Module) -> bool:
    """Whether it is known how far rounding moves its results: not of factorisations, which are custom calls."""
    return not any(i.opcode == "custom-call" for i in module.instructions)


SOURCES: Mapping[str, tuple[Callable[[int], Iterator[Candidate]], int]] = {
    "opcodes": (opcodes, 200),
    "kernels": (kernels, 100),
    "products": (products, 60),
    "random": (random_programs, 300),
    "jax": (jax_programs, 150),
    "torch": (torch_programs, 150),
}
"""By their names, and how many there are of each."""


def candidates(source: str, count: int) -> Iterator[Candidate]:
    """The first programs of a source; one that cannot be made ends it, which is said."""
    made, most = SOURCES[source]
    try:
        yield from made(min(count, most))
    except (ImportError, XloomError) as error:
        print(f"{source}: {error}")


def _spread(names: Sequence[str], count: int) -> Sequence[str]:
    """So many of them, evenly."""
    step = max(1, len(names) // max(1, count))
    return names[::step][:count]
