"""What the tests of custom calls share: typed handlers compiled from XLA's headers, and a registry that forgets."""

import ctypes
import os
import shutil
from pathlib import Path

import pytest

from xloom.calls import c_compiler, register_ffi_type, registry

SOURCE = Path(__file__).parent / "typed_handlers.cc"


@pytest.fixture(autouse=True)
def forget():
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.fixture(scope="session")
def include():
    jaxlib = pytest.importorskip("jaxlib")
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", os.environ.get("CXX", ""))):
        pytest.skip("needs a C++ compiler")
    return [Path(jaxlib.__file__).parent / "include"]


@pytest.fixture(scope="session")
def library(include, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLOOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        path = c_compiler.compile_source(SOURCE, language="c++", include_dirs=include)
    found = ctypes.CDLL(str(path))
    for name in ("type_id", "type_info", "new_given"):
        getattr(found, name).restype = ctypes.c_void_p
    found.new_given.argtypes = [ctypes.c_int64]
    for k, name in enumerate(("Built", "Ready", "Begun", "Given")):
        register_ffi_type(f"test.{name}", {"type_id": found.type_id(k), "type_info": found.type_info(k)})
    return found
