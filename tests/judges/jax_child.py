"""A process that runs tests of JAX's, for jax_tests.py: `jax_child.py FILE IDS OUT DUT`, in a checkout of JAX.

Writes JSON lines to OUT: each test when it starts, and its verdict. With no IDS it lists the tests instead. It is
started by its path, and imports only its neighbour: JAX's folder of tests has the name of our package.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
from suite_reporter import Reporter


def main() -> int:
    """Runs or lists them."""
    file, ids, out, dut = sys.argv[1:5]
    sys.path.pop(0)
    import jax

    for package in ("jax._src", "jax._src.pallas"):  # what tests need and wheels lack
        import_module(package).__path__.append(str(Path(*package.split(".")).resolve()))
    import_module("jax._src.test_util")  # which defines the flag
    jax.config.update("jax_test_dut", dut)
    chosen = json.loads(Path(ids).read_text()) if ids else None
    # tests of printing look at stdout, which pytest would keep from them
    options = ["-q", "-s", "--tb=short", "-p", "no:cacheprovider", *([] if chosen is not None else ["--collect-only"])]
    return pytest.main([*options, file], plugins=[Reporter(chosen, Path(out))])


if __name__ == "__main__":
    sys.exit(main())
