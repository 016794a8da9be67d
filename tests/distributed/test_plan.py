"""Where what other processes send arrives."""

import ctypes

from xloom.cpu.entry.collective_sites import CollectiveSite, Landing, Read
from xloom.distributed.plan import Plan, Stagings
from xloom.distributed.records import RECORD
from xloom.distributed.tags import Tags
from xloom.hlo.text.parser import parse
from xloom.pjrt.collectives import declared_collectives

NBYTES = 1 << 20
LOOP = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
sum { p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), replica_groups={}, to_apply=add }
goes.on { p = f32[4] parameter(0)
  ROOT c = pred[] constant(false) }
ENTRY e { x = f32[4] parameter(0)
  ROOT y = f32[4] while(x), condition=goes.on, body=sum }"""
"""A sum over all devices in a loop."""


def test_a_collective_in_a_loop_is_no_collective_without_one():
    once = LOOP.replace("while(x), condition=goes.on, body=sum", "all-reduce(x), replica_groups={}, to_apply=add")
    in_loop, without = (declared_collectives(parse(text)) for text in (LOOP, once))
    assert in_loop.splitlines()[0] == without
    assert in_loop != without


LANDINGS = (Landing(0, 0, source_step=NBYTES),)


def staging_bytes(places: list[tuple[int, int]], landings: tuple[Landing, ...]) -> int:
    """What the first process needs for what an all-gather reads of the second."""
    site = CollectiveSite("", "", "", "", (tuple(range(len(places))),), 1, (Read(0, NBYTES),), (), landings)
    plan = Plan([site], places, 0, range(2), Tags(2, 1 << 20), Stagings(), "", "")
    (address,) = plan.exchanges
    return ctypes.c_uint64.from_address(address + RECORD.offset("staging_bytes")).value


ONE_EACH = [(0, 0), (1, 2048)]
TWO_EACH = [(0, 0), (0, 1), (1, 2048), (1, 2049)]


def test_the_only_reader_of_a_process_needs_no_memory_between():
    assert staging_bytes(ONE_EACH, ()) >= NBYTES
    assert staging_bytes(ONE_EACH, LANDINGS) < NBYTES


def test_several_readers_of_a_process_have_it_in_common():
    assert staging_bytes(TWO_EACH, LANDINGS) >= 2 * NBYTES


def test_an_operand_lands_by_the_ranks_of_both():
    site = CollectiveSite("", "", "", "", ((4, 7, 9),), 3, (), (), (Landing(0, 0, source_step=8, reader_step=-8),))
    assert site.landing((4, 7, 9), 7, 9, 0) == (0, 8)
    assert site.landing((4, 7, 9), 9, 4, 0) == (0, -16)
    assert site.landing((4, 7, 9), 7, 9, 1) is None
    apart = CollectiveSite("", "", "", "", ((4, 7, 9),), 3, (), (), (Landing(0, 0, operand_step=1, result_step=1),))
    assert apart.landing((4, 7, 9), 7, 9, 1) == (2, 0)
    assert apart.landing((4, 7, 9), 7, 9, 0) is None
