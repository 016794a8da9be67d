"""Mutants of every format that is read: a value, or an XloomError; the process lives, and nothing hangs.

python -m tests.judges.malformed [--count 500] [--seed 0] [--formats stablehlo-text,cache]
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import xloom as xl
from tests.judges.child import Case, report, run_cases
from xloom.compilation_cache import cache as kept
from xloom.pjrt import Client

SECONDS = 60
PROGRAM = """ENTRY e { p = f32[6,6] parameter(0) q = f32[6,6] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[6,6] sine(q) ROOT r = f32[6,6] add(s, p) }"""
X = np.arange(36, dtype=np.float32).reshape(6, 6) / 36
TOKENS = b'{ } ( ) < > [ ] , = : " % @ ! # -> ? 0 -1 99999999999 tensor<4xf32> tensor<0xi1> tensor<?x4xf64> dense<0.0>'.split()


def _lowered() -> list[Any]:
    import jax
    import jax.numpy as jnp

    x = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    functions: list[Callable[[Any], Any]] = [
        lambda x: jnp.sin(x) @ x.T,
        lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s * 2 + i, x),
        lambda x: jnp.sort(x, axis=1),
        lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y, lambda y: -y, x),
        lambda x: jax.lax.conv_general_dilated(x[None, None], x[None, None], (1, 1), "SAME"),
        lambda x: x.at[jnp.array([0, 1])].add(1.0),
        lambda x: jax.random.normal(jax.random.key(0), (3,)) + x[0, :3],
        lambda x: jnp.fft.rfft(x),
    ]
    return [jax.jit(f).lower(x).compiler_ir("stablehlo") for f in functions]


def _bytecode() -> list[bytes]:
    from jax._src.interpreters import mlir

    return [mlir.module_to_bytecode(module) for module in _lowered()]


def _convert(data: bytes) -> None:
    module = xl.from_stablehlo(data)
    list(module.instructions)
    module.to_text()


@cache
def _client() -> Client:
    return Client.cpu()


def _serialised() -> list[bytes]:
    return [_client().compile(xl.parse(PROGRAM)).executable.serialize()]


def _entries() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        _compile_in(folder)
        return [path.read_bytes() for path in _files(folder)]


def _compile_in(folder: str) -> np.ndarray:
    import os

    from xloom.cpu.kept_programs import keys, linked

    os.environ["XLOOM_CACHE_DIR"] = folder
    keys.clear()
    linked.clear()
    out = np.asarray(xl.compile(xl.parse(PROGRAM))(X))
    kept.flush()
    return out


def _files(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def _compile_from(data: bytes) -> None:
    """Every entry of the cache is that: what does not fit must be made anew."""
    with tempfile.TemporaryDirectory() as folder:
        expected = _compile_in(folder)
        for path in _files(folder):
            path.write_bytes(data)
        if not np.array_equal(_compile_in(folder), expected):
            raise AssertionError("a damaged entry has changed a value")


def _array() -> list[bytes]:
    file = io.BytesIO()
    np.save(file, X)
    return [file.getvalue()]


def _read_array(data: bytes) -> None:
    from xloom.cli.program_arguments import _read

    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        file.write(data)
        file.flush()
        _read(file.name, np.dtype(np.float32))


@dataclass(frozen=True)
class Format:
    """Well-formed examples of a format, and what reads it."""

    examples: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    is_text: bool = False


FORMATS = {
    "stablehlo-text": Format(lambda: [str(module).encode() for module in _lowered()], _convert, is_text=True),
    "stablehlo-bytecode": Format(_bytecode, _convert),
    "executable": Format(_serialised, lambda data: _client().deserialize(data)),
    "cache": Format(_entries, _compile_from),
    "npy": Format(_array, _read_array),
}


def mutant(generator: random.Random, data: bytes, is_text: bool) -> bytes:
    """The data after up to four edits: delete, insert, replace, flip, repeat or move a stretch, or cut it off."""
    out = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        at, length = generator.randrange(len(out) + 1), generator.choice((1, 1, 2, 5, 20, 80))
        match generator.randrange(7):
            case 0:
                del out[at : at + length]
            case 1:
                out[at:at] = generator.choice(TOKENS) if is_text else generator.randbytes(length)
            case 2:
                out[at : at + length] = generator.choice(TOKENS) if is_text else generator.randbytes(length)
            case 3 if out:
                at = min(at, len(out) - 1)
                out[at] = generator.randrange(48, 58) if is_text else out[at] ^ 1 << generator.randrange(8)
            case 4:
                out[at:at] = out[at : at + length]
            case 5:
                other = generator.randrange(len(out) + 1)
                out[at : at + length] = out[other : other + length]
            case _ if generator.random() < 0.1:
                del out[at:]
    return bytes(out)


def cases_of(item: tuple[str, int, int]) -> Iterator[Case]:
    """The mutants of a format from one seed on."""
    name, start, count = item
    chosen = FORMATS[name]
    examples = chosen.examples()
    for seed in range(start, start + count):
        generator = random.Random(seed)
        data = mutant(generator, generator.choice(examples), chosen.is_text)
        yield f"{name}:{seed}", partial(_verdict, chosen, data)


def _verdict(chosen: Format, data: bytes) -> str:
    try:
        chosen.read(data)
    except xl.XloomError as error:
        return "" if str(error) else "an error that says nothing"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Prints what fails and one line of counts; exit status 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="mutants of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"some of {', '.join(FORMATS)}")
    options = parser.parse_args()
    items = [(name, options.seed, options.count) for name in options.formats.split(",") if name]
    verdicts = list(run_cases("tests.judges.malformed:cases_of", items, SECONDS))
    report("malformed", verdicts, None, show=20)


if __name__ == "__main__":
    main()
