"""Faults of the network between two machines, which `faults.py` asks for as it goes on."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.distributed.machines import Network, network
from tests.distributed.processes import start

FAULTS = Path(__file__).with_name("faults.py")
MOVED = 2 << 20
"""How many bytes have come when a network is cut while data moves."""
AWAY = 1.0
"""Seconds after which one comes back."""


class Faults:
    """Does to a network what processes ask for, once all of them have."""

    def __init__(self, between: Network, processes: Sequence[subprocess.Popen[str]]):
        self._network, self._processes = between, processes
        self._barrier = threading.Barrier(len(processes))
        self._said: list[list[str]] = [[] for _ in processes]
        self._others: list[threading.Thread] = []
        self._is_over = threading.Event()
        self.lost = 0
        """How many packets were lost where some should be."""

    def said(self) -> list[str]:
        """What each process has said, when all have ended."""
        threads = [threading.Thread(target=self._serve, args=(k,)) for k in range(len(self._processes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._is_over.set()
        for thread in self._others:
            thread.join()
        return ["".join(lines) for lines in self._said]

    def _serve(self, number: int) -> None:
        process = self._processes[number]
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            what = line.removeprefix("network: ").strip()
            if what == line.strip():
                self._said[number].append(line)
                continue
            try:
                if not self._barrier.wait():
                    when, fault = what.split()
                    getattr(self, f"_{when}_{fault}")()
                self._barrier.wait()
            except threading.BrokenBarrierError:  # the other process has ended
                process.kill()
                return
            process.stdin.write("\n")
            process.stdin.flush()
        self._barrier.abort()

    def _later(self, do: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=do)
        self._others.append(thread)
        thread.start()
        return thread

    def _before_network_is_cut(self) -> None:
        self._network.cut(1)

    def _after_network_is_cut(self) -> None:
        self._network.mend(1)

    def _before_network_is_cut_while_data_moves(self) -> None:
        self._network.limit(1, "40mbit", "1s")
        self._cutter = self._later(self._cut_when_data_has_moved)

    def _cut_when_data_has_moved(self) -> None:
        while not self._is_over.wait(0.05):
            if self._network.counts(1)["bytes"] >= MOVED:
                self._network.cut(1)
                return

    def _after_network_is_cut_while_data_moves(self) -> None:
        self._is_over.set()  # where the time-out came first, what moves from now on must find a network
        self._cutter.join()
        self._network.free(1)
        self._network.mend(1)

    def _before_network_comes_back(self) -> None:
        self._network.cut(1)
        self._later(self._mend_soon)

    def _mend_soon(self) -> None:
        time.sleep(AWAY)
        self._network.mend(1)

    def _after_network_comes_back(self) -> None:
        pass

    def _before_network_loses(self) -> None:
        self._network.limit(1, "200mbit", "1ms")

    def _after_network_loses(self) -> None:
        self.lost = self._network.counts(1)["drops"]
        self._network.free(1)


def outcome(*faults: str, limit: float, timeout: float) -> tuple[list[tuple[int, str, str]], int]:
    """How each process ended, what it said, and its errors, and how many packets were lost."""
    with network(2) as between:
        processes = start(FAULTS, faults, devices=1, network=between, XLOOM_DISTRIBUTED_TIMEOUT=str(limit))
        end = threading.Timer(timeout, lambda: [process.kill() for process in processes])
        end.start()
        try:
            done = Faults(between, processes)
            said = done.said()
            errors = [process.communicate()[1] for process in processes]
            ended = [(p.wait(), text, error) for p, text, error in zip(processes, said, errors, strict=True)]
            return ended, done.lost
        finally:
            end.cancel()
            for process in processes:
                process.kill()
                process.communicate()
