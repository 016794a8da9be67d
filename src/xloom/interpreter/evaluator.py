"""Walks a module and applies the rules; and applies scalar computations to whole arrays at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING

import numpy as np

from xloom.errors import EvaluationError, OutOfMemoryError, UnsupportedError, XloomError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import ADDRESSED
from xloom.hlo.module import Module
from xloom.interpreter.registry import RULES, Rule, Value
from xloom.trampoline import Nested, each, run

if TYPE_CHECKING:
    from xloom.calls.program_run import ProgramRun
    from xloom.interpreter.devices import Rendezvous

FAMILIES = (
    "batch_norm",
    "collective",
    "control",
    "conversion",
    "convolution",
    "custom_call",
    "decompositions",
    "dynamic",
    "elementwise",
    "fft",
    "io",
    "layout",
    "linalg",
    "random",
    "reduce",
    "sort",
    "windows",
)
for _family in FAMILIES:  # each registers its rules
    import_module(f"xloom.interpreter.{_family}")

_SCALAR_GLUE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "call", "map", "fusion", "iota"})


def _nbytes(instruction: Instruction) -> int:
    return max(i.shape.nbytes for i in (instruction, *instruction._operands))


def _too_large(instruction: Instruction) -> OutOfMemoryError:
    shape = instruction.shape
    return OutOfMemoryError(
        f"there is no memory to evaluate {instruction.opcode}: {shape.to_text(layout=False)} has {shape.nbytes} bytes",
        where=f"{instruction.name} {instruction.metadata.location}".strip(),
    )


class Evaluator:
    """Evaluates the computations of one module on one device (a replica and a partition)."""

    def __init__(
        self,
        module: Module,
        *,
        replica: int = 0,
        partition: int = 0,
        replica_count: int = 1,
        partition_count: int = 1,
        rendezvous: Rendezvous | None = None,
        seed: int = 0,
        rules: Mapping[str, Rule] = RULES,
    ):
        self.module = module
        self.rules = rules
        self.replica = replica
        self.partition = partition
        self.replica_count = replica_count
        self.partition_count = partition_count
        self.rendezvous = rendezvous
        self._seed = seed
        self.rng_state = 0x7012395 + seed
        self.infeed: deque[Value] = deque()
        self.outfeed: list[Value] = []
        self.program_run: ProgramRun | None = None
        """What custom calls keep, once there is one."""
        self._channels: dict[int | None, deque[Value]] = {}
        self._orders: dict[Computation, list[Instruction]] = {}
        self._batchable: dict[Computation, bool] = {}

    @cached_property
    def generator(self) -> np.random.Generator:
        """Random numbers: to make one takes longer than to fold the constants of most programs."""
        return np.random.default_rng(self._seed)

    def channel(self, number: int | None) -> deque[Value]:
        """What was sent on a channel and not received yet."""
        return self._channels.setdefault(number, deque())

    def call(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The value of `computation` for `arguments`, one per parameter."""
        return run(self.nested(computation, arguments))

    def nested(self, computation: Computation, arguments: Sequence[Value]) -> Nested[Value]:
        """The same for rules that call computations: programs may nest these as deep as they like."""
        order = self._orders.get(computation)
        if order is None:
            scheduled = self.module.config.is_scheduled and computation.module is self.module
            order = list(computation.instructions) if scheduled else computation.post_order()
            self._orders[computation] = order
        # a kind of evaluator that has more to do with each value does so here, too, though on Python's stack
        step = self._applied if type(self).apply is Evaluator.apply else self.apply
        values: dict[Instruction, Value] = {}
        for instruction in order:
            if instruction.opcode == "parameter":
                values[instruction] = arguments[instruction.attrs["parameter_number"]]
            else:
                value = step(instruction, [values[o] for o in instruction._operands])
                values[instruction] = (yield value) if type(value) is GeneratorType else value
        return values[computation.root]

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """The value of one instruction for given operand values."""
        value = self._applied(instruction, operands)
        return run(value) if type(value) is GeneratorType else value

    def _applied(self, instruction: Instruction, operands: Sequence[Value]) -> Value | Nested[Value]:
        rule = self.rules.get(instruction.opcode)
        if rule is None:
            raise UnsupportedError(f"the interpreter has no rule for {instruction.opcode}", where=instruction.name)
        try:
            with np.errstate(all="ignore"):
                return rule(instruction, operands, self)
        except XloomError as error:
            if not error.where:
                error.where = instruction.name
            raise
        except MemoryError as error:
            raise _too_large(instruction) from error
        except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, np.linalg.LinAlgError) as error:
            if _nbytes(instruction) > ADDRESSED:
                raise _too_large(instruction) from error
            raise EvaluationError(
                f"cannot evaluate {instruction.opcode}: {error}",
                where=f"{instruction.name} {instruction.metadata.location}".strip(),
                hint="run the verifier: the module may not be valid HLO",
            ) from error

    def follows_standard(self, opcode: str) -> bool:
        """True when an operator has the rule that all have: shortcuts through NumPy may stand for it."""
        return self.rules.get(opcode) is RULES.get(opcode)

    def elementwise(self, computation: Computation) -> Callable[..., Value]:
        """`computation`, all of whose parameters are scalars, as a function of arrays of one common shape.

        Returns an array of that shape (or a tuple of them, if the root is a tuple): element i is the computation of
        the elements i. Computations made of elementwise operators run on whole arrays, others element by element.
        """
        if self.is_batchable(computation):
            return lambda *arrays: self.call(computation, arrays)
        return lambda *arrays: self._each(computation, arrays)

    def is_batchable(self, computation: Computation) -> bool:
        """True when a scalar computation may be done to whole arrays at once."""
        return run(self._is_batchable(computation))

    def _is_batchable(self, computation: Computation) -> Nested[bool]:
        known = self._batchable.get(computation)
        if known is None:
            known = all(
                (i.op.elementwise or i.opcode in _SCALAR_GLUE) and (i.shape.is_scalar or i.shape.is_tuple)
                for i in computation
            )
            if known:
                known = all((yield each(self._is_batchable(c) for i in computation for c in i.called_computations)))
            self._batchable[computation] = known
        return known

    def _each(self, computation: Computation, arrays: Sequence[np.ndarray]) -> Value:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        flat = [np.broadcast_to(a, shape).reshape(-1) for a in arrays]
        results = [self.call(computation, [a[k] for a in flat]) for k in range(flat[0].size)]
        root = computation.root.shape
        parts = root.elements if root.is_tuple else (root,)
        out = []
        for k, part in enumerate(parts):
            column = [r[k] if root.is_tuple else r for r in results]
            out.append(np.array(column, dtype=part.dtype.numpy).reshape(shape))
        return tuple(out) if root.is_tuple else out[0]
