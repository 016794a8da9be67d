import pytest

import xloom as xl
from tests.cpu.call_programs import C_SOURCE
from xloom.calls import registry
from xloom.calls.c_source import compile_source


@pytest.fixture
def forget():
    """Takes back what a test registers."""
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """C functions for custom calls, as a shared library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLOOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return compile_source(C_SOURCE)


@pytest.fixture
def c(forget, library):
    """Registers functions of the library under their names."""
    return lambda *names: [xl.calls.register_symbol(name, library) for name in names]
