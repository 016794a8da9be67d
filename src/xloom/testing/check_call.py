"""A program whose custom calls run both ways: as the kernel that is registered, and as the HLO that they carry."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xloom.calls import host, registry
from xloom.calls.program_run import ProgramRun
from xloom.calls.registry import place
from xloom.calls.sanitizer import NonFiniteWarning
from xloom.calls.sanitizer import sanitize as in_sanitizer
from xloom.errors import CustomCallError, XloomError
from xloom.hlo.dtype import DTYPES
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter import RULES, TOKEN, Evaluator
from xloom.interpreter.perturbed import Perturbed
from xloom.interpreter.registry import Value
from xloom.interpreter.values import from_argument, miscounted
from xloom.passes.carried_hlo import carried_module, carries_hlo
from xloom.sim.custom_call import InStream, call_on_device
from xloom.sim.device_values import copied
from xloom.sim.simulator import Simulator
from xloom.testing.agreement import ULPS, mismatch
from xloom.testing.report import CallCheck, CallDifferenceError, Difference, Report

_OTHER_ROUNDINGS = (2, 4, 6, 8, 10)


def check_call(
    module: Module,
    *arguments: Any,
    platform: str = "Host",
    ulps: float | Mapping[str, float] = ULPS,
    rtol: float = 0.0,
    atol: float = 0.0,
    sanitize: bool = True,
    seed: int = 0,
) -> Report:
    """Evaluates `module` and runs each custom call that carries HLO as its kernel, too, on what the program gives it.

    The program goes on with what the HLO gives, so that each call is judged for itself: in loops and branches at every
    run, of tuples the parts that the program uses. `arguments` are as for `xl.evaluate`. `platform` says whose kernels:
    Host, or another, whose kernels run on a simulated device.

    A float may be off by `ulps` units in the last place (a number, or by the name of NumPy's type), by
    `atol + rtol |expected|`, or by twice what other roundings of the carried operators make of it; integers and truth
    values are equal. Native kernels run in the sanitizer, outputs and scratch memory starting as NaN, unless `sanitize`
    is False.

    Raises CallDifferenceError, with the report, when a kernel fails or differs, CustomCallError when the program has no
    call that carries HLO and has a kernel, or an argument does not fit.
    """
    parameters = module.entry.parameters
    if len(arguments) != len(parameters):
        raise miscounted(module.name, [(p.name, p.shape) for p in parameters], len(arguments))
    by_type = ulps if isinstance(ulps, Mapping) else {d.numpy.name: float(ulps) for d in DTYPES.values() if d.is_float}
    checker = _Checker(platform, by_type, rtol, atol, sanitize)
    evaluator = Evaluator(module, seed=seed, rules={**RULES, "custom-call": checker.custom_call})
    evaluator.call(
        module.entry, [from_argument(a, p.shape, p.name) for a, p in zip(arguments, parameters, strict=True)]
    )
    report = checker.report
    if not report.calls:
        absent = ", ".join(report.without_kernel)
        raise CustomCallError(
            f"no custom call of {module.name} that carries HLO and has a kernel for {platform} has run",
            hint=f"register {absent}" if absent else "the pass `outline` makes such calls",
        )
    if report.differing:
        raise CallDifferenceError(report)
    return report


class _Checker:
    """The rule for custom calls, and what it has found."""

    def __init__(self, platform: str, ulps: Mapping[str, float], rtol: float, atol: float, sanitize: bool):
        self.report = Report(platform)
        self._platform = platform
        self._tolerance = ulps, rtol, atol
        self._sanitize = sanitize
        self._checks: dict[Instruction, CallCheck] = {}
        self._carried: dict[Instruction, Module] = {}
        self._run = ProgramRun()
        self._device: Simulator | None = None
        if platform != "Host":
            self._device = Simulator()
            self._device.platform = platform  # type: ignore[misc]
            self._run = ProgramRun(InStream(self._device.memory, self._device.stream.handle))

    def custom_call(self, call: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
        """The value of what the call carries, with which the kernel is compared; of other calls the usual one."""
        if not carries_hlo(call):
            return RULES["custom-call"](call, operands, evaluator)
        carried = self._carried.get(call)
        if carried is None:
            carried = self._carried[call] = carried_module(call)
        rules = evaluator.rules
        expected = Evaluator(carried, rules=rules).call(carried.entry, operands)
        target = call["custom_call_target"]
        if not registry.is_registered(target, self._platform):
            if target not in self.report.without_kernel:
                self.report.without_kernel.append(target)
            return expected
        check = self._checks.get(call)
        if check is None:
            check = self._checks[call] = CallCheck(target, place(call))
            self.report.calls.append(check)
        check.runs += 1
        if check.difference is None:
            self._compare(check, call, operands, expected, carried)
        return expected

    def _compare(
        self, check: CallCheck, call: Instruction, operands: Sequence[Value], expected: Value, carried: Module
    ) -> None:
        try:
            actual = self._kernel(call, operands)
        except XloomError as error:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            check.difference = Difference(check.runs, error=error.message + hint)  # the report says where
            return
        perturbed: list[Value] = []

        def others(part: tuple[int, ...]) -> list[np.ndarray]:
            if not perturbed:
                perturbed.extend(Perturbed(carried, run).call(carried.entry, operands) for run in _OTHER_ROUNDINGS)
            return [np.asarray(_at(value, part)) for value in perturbed]

        for part in _used_parts(call, expected):
            one, other = np.asarray(_at(actual, part)), np.asarray(_at(expected, part))
            found, off = mismatch(one, other, lambda part=part: others(part), *self._tolerance)
            check.ulps = max(check.ulps, off)
            if found is not None:
                values = found.actual, found.expected
                check.difference = Difference(
                    check.runs, part, found.index, *values, found.ulps, found.count, other.size
                )
                return

    def _kernel(self, call: Instruction, operands: Sequence[Value]) -> Value:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonFiniteWarning)  # they are compared
            if not self._sanitize:
                return self._called(call, operands)
            with in_sanitizer():
                return self._called(call, operands)

    def _called(self, call: Instruction, operands: Sequence[Value]) -> Value:
        if self._device is None:
            return host.invoke(call, operands, self._run)
        given = [copied(operand, self._device.memory.allocate) for operand in operands]
        return call_on_device(self._device, self._run, call, given)


def _used_parts(call: Instruction, value: Value) -> Iterator[tuple[int, ...]]:
    """The tuple indices of the arrays that the program uses: other parts of a result are scratch memory."""
    users = call.users
    root = call.parent.root if call.parent is not None else None
    used = {u["index"] for u in users if u.opcode == "get-tuple-element" and (u.users or u is root)}
    whole = root is call or any(u.opcode != "get-tuple-element" for u in users) or not users
    for part in _leaves(value):
        if not part or whole or part[0] in used:
            yield part


def _leaves(value: Value) -> Iterator[tuple[int, ...]]:
    if isinstance(value, tuple):
        for k, element in enumerate(value):
            yield from ((k, *part) for part in _leaves(element))
    elif value is not TOKEN and value is not None:
        yield ()


def _at(value: Any, part: tuple[int, ...]) -> Any:
    for k in part:
        value = value[k]
    return value
