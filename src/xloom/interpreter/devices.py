"""Several devices: one evaluator each, in threads that meet at collectives."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from xloom.errors import EvaluationError
from xloom.hlo.module import Module
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value

Device = tuple[int, int]


class Rendezvous:
    """Where devices exchange values. Raises EvaluationError in all of them when one fails or is missing."""

    def __init__(self, timeout: float = 60.0):
        self._timeout = timeout
        self._changed = threading.Condition()
        self._rooms: dict[tuple[str, tuple[Device, ...], int], dict[Device, Any]] = {}
        self._visits: dict[tuple[Device, str], int] = {}
        self._waiting: dict[Device, str] = {}
        self._failure: str | None = None

    def meet(self, name: str, devices: tuple[Device, ...], me: Device, value: Any) -> list[Any]:
        """Leaves `value` for the group, and returns everybody's in the group's order."""
        with self._changed:
            visit = self._visits[me, name] = self._visits.get((me, name), 0) + 1
            room = self._rooms.setdefault((name, devices, visit), {})
            room[me] = value
            self._changed.notify_all()
            self._waiting[me] = name
            everyone = set(devices)
            done = self._changed.wait_for(lambda: self._failure or everyone <= room.keys(), self._timeout)
            if self._failure:
                raise EvaluationError(f"another device failed: {self._failure}", where=name)
            if not done:
                others = ", ".join(f"{d}: {n}" for d, n in sorted(self._waiting.items()))
                raise EvaluationError(
                    f"devices {sorted(everyone - room.keys())} never arrived",
                    where=name,
                    hint=f"what each device waits for: {others}",
                )
            del self._waiting[me]
            return [room[d] for d in devices]

    def fail(self, message: str) -> None:
        """Wakes everybody with an error."""
        with self._changed:
            self._failure = self._failure or message
            self._changed.notify_all()


def evaluate_devices(
    module: Module,
    arguments: Sequence[Sequence[Value]],
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    timeout: float = 60.0,
) -> list[Value]:
    """Evaluates the module on replicas x partitions devices at once.

    `arguments` holds one argument list a device, partitions of replica 0 first. Raises the first device's error.
    """
    replicas = module.config.replica_count if replicas is None else replicas
    partitions = module.config.num_partitions if partitions is None else partitions
    devices = [(r, p) for r in range(replicas) for p in range(partitions)]
    if len(arguments) != len(devices):
        hint = f"one for each of {replicas} replicas, and each of {partitions} partitions in it"
        raise EvaluationError(f"{len(arguments)} argument lists for {len(devices)} devices", hint=hint)
    rendezvous = Rendezvous(timeout)
    results: list[Value] = [None] * len(devices)
    errors: list[BaseException] = []

    def run(k: int) -> None:
        replica, partition = devices[k]
        evaluator = Evaluator(
            module,
            replica=replica,
            partition=partition,
            replica_count=replicas,
            partition_count=partitions,
            rendezvous=rendezvous,
        )
        try:
            results[k] = evaluator.call(module.entry, arguments[k])
        except Exception as error:
            errors.append(error)
            rendezvous.fail(str(error))

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
