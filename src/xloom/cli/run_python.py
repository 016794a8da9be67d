"""xloom run-python."""

from __future__ import annotations

import os
import sys

import click

from xloom.environment import AS_CPU


@click.command("run-python", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]...")
def run_python(arguments: tuple[str, ...]) -> None:
    """Run a Python program of JAX as it is, with xloom as JAX's CPU.

    What follows is handed to Python. The same as XLOOM_AS_CPU=1 python SCRIPT:
    `jax.devices("cpu")` is xloom, here and in processes that the program
    starts; jaxlib's own CPU is `jax.devices("jaxlib")`, where JAX_PLATFORMS is
    not set, or names it.

    \b
      xloom run-python train.py --steps 100
      xloom run-python -m pytest tests
    """
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, AS_CPU.name: "1"})
