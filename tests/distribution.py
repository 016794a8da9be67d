"""How pytest-xdist gives tests to workers, where one of them may crash."""

from contextlib import suppress

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController


class CrashProof(LoadGroupScheduling):
    """As `--dist loadgroup`, of which every run in which a worker crashed waited forever.

    What the worker had finished was given to another, which waits for reports of it; the one in its place had one
    test, which begins when a second comes; and the test that crashed ran again.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Takes back what a worker has not begun. Returns the test in which it crashed."""
        workload = self.assigned_work[node]
        crashed = next((test for tests in workload.values() for test, done in tests.items() if not done), None)
        if crashed:  # not given back, as others are given what is as soon as it is
            del workload[self._split_scope(crashed)][crashed]
        for group in [group for group, tests in workload.items() if all(tests.values())]:
            del workload[group]
        super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        """Gives tests to all workers, two groups to those that have none."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        with suppress(OSError):  # it has just ended, of which word comes: `remove_node` takes the group back
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.registered_collections:  # one that still collects asks when it is done
            super()._reschedule(node)
