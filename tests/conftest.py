import os
from collections import defaultdict
from zlib import crc32

import pytest

os.environ.setdefault("XLOOM_CHECK", "buffers,loops")  # of what is compiled, here and in children

SAMPLE = 16


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of golden files")
    parser.addoption(
        "--every-case", action="store_true", help=f"all cases of tests marked `sampled`, of which else {SAMPLE} run"
    )


@pytest.hookimpl(trylast=True)  # once it is known which were asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of tests marked `sampled`, the same ones each time and in each process."""
    if config.getoption("--every-case"):
        return
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = {
        case for test in cases.values() for case in sorted(test, key=lambda each: crc32(each.nodeid.encode()))[SAMPLE:]
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
