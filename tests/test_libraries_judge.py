"""The judge of libraries' own suites, on a small suite of the kind."""

import textwrap
from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.judges.libraries import judge
from tests.judges.library_suites import LIBRARIES, Library

CONFTEST = """
    import jax
    jax.config.update("jax_platform_name", "cpu")  # as some suites do: ours must be asked all the same
"""
SUITE = """
    import os
    import unittest
    import jax
    import jax.numpy as jnp
    import numpy as np

    OURS = jax.default_backend() == "xloom"

    def test_sum():
        assert jnp.ones(3).sum() == 3

    def test_host():
        pass

    def test_cpu_alone():
        assert not OURS

    def test_chance():
        assert np.random.rand() == np.random.RandomState(0).rand()

    class Parts(unittest.TestCase):
        def test_parts(self):
            with self.subTest("on the host"):
                assert True
            assert jnp.ones(4).sum() == 4

    def test_nowhere():
        assert False

    def test_end():
        if OURS:
            os._exit(3)
"""
FILE_FOR_THE_CPU = """
    import jax
    import pytest

    if jax.default_backend() == "xloom":
        pytest.skip("for the CPU", allow_module_level=True)

    def test_cpu():
        pass
"""
FILE_THAT_FAILS = """
    import jax

    assert jax.default_backend() == "cpu"

    def test_load():
        pass
"""


def test_a_suite_is_judged(tmp_path: Path):
    folder = tmp_path / "jax" / "tests"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (folder / "test_small.py").write_text(textwrap.dedent(SUITE))
    (folder / "test_cpu.py").write_text(textwrap.dedent(FILE_FOR_THE_CPU))
    (folder / "test_load.py").write_text(textwrap.dedent(FILE_THAT_FAILS))
    library = Library("jax", "of no tag", "jax", "tests/**/test_*.py")
    counts = judge(library, tmp_path, tmp_path / "out", sample=0, seed=0, timeout=300)
    assert {name: counts[name] for name in ("reference", "pass", "fail", "crash", "skip", "unused")} == {
        "reference": 8,
        "pass": 4,
        "fail": 2,
        "crash": 1,
        "skip": 1,
        "unused": 2,
    }


def test_patterns_name_folders(tmp_path: Path):
    flax = next(library for library in LIBRARIES if library.name == "flax")
    for folder in ("nnx", "linen", "core"):
        path = tmp_path / "flax/tests" / folder / "a_test.py"
        path.parent.mkdir(parents=True)
        path.touch()
    assert flax.files(tmp_path) == ["tests/linen/a_test.py", "tests/nnx/a_test.py"]
