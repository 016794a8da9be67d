"""What a program's collectives are called, whichever module it was compiled from first."""

import pytest

import xloom
from xloom.cpu.runtime.spmd_executable import SpmdExecutable

TEXT = """HloModule sums, num_partitions=2
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[{size}] parameter(0)
  ROOT y = f32[{size}] all-reduce(x), replica_groups={{{{0,1}}}}, channel_id=1, use_global_device_ids=true, to_apply=add,
    metadata={{op_name="{name}" source_file="train.py" source_line={line}}}
}}"""


def labels(size, name, line):
    executable = xloom.compile(xloom.parse(TEXT.format(**locals())))
    assert isinstance(executable, SpmdExecutable)
    return [site.label for site in executable.collectives]


@pytest.mark.parametrize("size", [4, 1 << 16])
def test_equal_programs_name_their_own_lines(size):
    for name, line in (("first", 3), ("second", 4)):
        found = labels(size, name, line)
        assert found
        assert all(label.startswith(f"{name} (all-") and label.endswith(f", train.py:{line})") for label in found), (
            found
        )
