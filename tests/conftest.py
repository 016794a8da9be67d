import os

import pytest

os.environ.setdefault("XLOOM_CHECK", "buffers,loops")  # of what is compiled, here and in children


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of golden files")
