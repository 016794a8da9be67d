"""How many processors each of several processes takes to be its own."""

from xloom.distributed.processor_share import processor_share
from xloom.distributed.topology import LocalTopology


def shares(*processes):
    told = [LocalTopology(1, "", machine, processors) for machine, processors in processes]
    return [processor_share(told, k) for k in range(len(told))]


def test_processes_of_a_machine_share_its_processors():
    eight = range(8)
    assert shares(("a", eight), ("a", eight)) == [4, 4]
    assert shares(("a", eight), ("a", eight), ("b", eight)) == [4, 4, 8]
    assert shares(*[("a", range(2))] * 4) == [1, 1, 1, 1]


def test_what_a_launcher_has_bound_to_a_process_is_its_own():
    assert shares(("a", range(4)), ("a", range(4, 8))) == [4, 4]
    assert shares(("a", range(4)), ("a", range(8))) == [2, 6]
