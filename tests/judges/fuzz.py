"""Mutants of real modules, as text and as proto: only XloomErrors that point, no hang, no crash.

python -m tests.judges.fuzz [--count 20000] [--seed 0] [--from <checkout of openxla/xla>]
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import xloom as xl
from tests.judges.hlo_modules import extract
from xloom.hlo.verify.module import problems

GOLDEN = Path(__file__).parent.parent / "golden"
SECONDS = 20
TOKENS = [
    *"{}()[]<>,=%\"'#:;*/\\-+.?~",
    *(
        "/*",
        "*/",
        "//",
        "...",
        "->",
        "<=",
        "{{",
        "}}",
        "ROOT ",
        "ENTRY ",
        "HloModule ",
        "nan",
        "-inf",
        "true",
        "0x",
        "1e400",
    ),
    *("f32[2]", "s4[", "(f32[], ", "token[]", "b(f32[2])", "{1,0:T(8,128)}", "[<=5]", "[?]", "99999999999999999999"),
    *(
        "to_apply=",
        "calls=",
        "sharding={",
        "metadata={",
        "backend_config={",
        "dimensions={",
        "window={size=",
        "slice={[",
    ),
    *("add(", "while(", "fusion(", "constant(", "custom-call-start(", "parameter(0)", "\0", "\n", "é", "\ud800"),
]


class Hang(BaseException):
    """Raised by the watchdog."""


def _alarm(*_: object) -> None:
    raise Hang


def corpus(checkout: str | None) -> list[str]:
    """The golden files' modules and, given a checkout, those of XLA's own tests."""
    texts = [p.read_text().partition("// ---- expect")[0] for p in sorted(GOLDEN.glob("*.hlo"))]
    if checkout:
        texts += [text for _, text in extract(Path(checkout)) if len(text) < 6000]
    good = []
    for text in texts:
        try:
            xl.parse(text)
        except xl.XloomError:
            continue
        good.append(text)
    return good


@st.composite
def mutants(draw: st.DrawFn, texts: list[str]) -> str:
    """A module's text after up to four edits: delete, insert, replace, duplicate or swap a stretch."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        size = len(text)
        at = draw(st.integers(0, size))
        end = min(size, at + draw(st.sampled_from((1, 1, 2, 5, 20, 80))))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + draw(st.sampled_from(TOKENS)) + text[at:]
        elif kind == 2:
            text = text[:at] + draw(st.sampled_from(TOKENS)) + text[end:]
        elif kind == 3:
            text = text[:end] + text[at:end] + text[end:]
        else:
            other = draw(st.integers(0, size))
            text = text[:at] + text[other : other + (end - at)] + text[end:]
    return text


@st.composite
def byte_mutants(draw: st.DrawFn, data: list[bytes]) -> bytes:
    """A proto after up to four edits of bytes."""
    out = bytearray(draw(st.sampled_from(data)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(out) - 1)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            del out[at : at + draw(st.integers(1, 8))]
        elif kind == 1:
            out[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == 2 and out:
            out[at] = draw(st.integers(0, 255))
        elif out:
            out[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(out)


class Score:
    """Counts what happened, and keeps the first input of each fault."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: dict[str, object] = {}

    def fault(self, kind: str, source: object) -> None:
        """One more fault."""
        self.counts["fault"] += 1
        self.faults.setdefault(kind, source)

    def text(self, text: str) -> None:
        """Parses a text, and if it parses, verifies, prints and encodes it."""
        try:
            module = xl.parse(text)
        except xl.XloomError as error:
            self.counts["rejected"] += 1
            if error.span is None:
                self.fault(f"text error without a position: {error.message[:60]}", text)
            return
        self._use(module, text)

    def proto(self, data: bytes) -> None:
        """Decodes a proto, and if it decodes, verifies, prints and encodes it."""
        try:
            module = xl.from_proto(data)
        except xl.XloomError as error:
            self.counts["rejected"] += 1
            if not error.where and error.span is None:
                self.fault(f"proto error without a place: {error.message[:60]}", data)
            return
        self._use(module, data)

    def _use(self, module: xl.Module, source: object) -> None:
        self.counts["accepted"] += 1
        if any(True for _ in problems(module)):
            return
        module.to_text()
        module.to_proto()

    def guarded(self, run: object, source: object) -> None:
        """`run(source)` under the watchdog; every exception that is not ours is a fault."""
        signal.alarm(SECONDS)
        try:
            run(source)  # type: ignore[operator]
        except Hang:
            self.fault("hang", source)
        except xl.XloomError as error:
            self.fault(f"{type(error).__name__} after parsing: {error.message[:60]}", source)
        except Exception as error:
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            place = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
            self.fault(f"{type(error).__name__} in {place}: {str(error)[:80]}", source)
        finally:
            signal.alarm(0)


def fuzz(count: int, start: int, texts: list[str]) -> Score:
    """`count` mutants, half of them text."""
    score = Score()
    data = [xl.parse(text).to_proto() for text in texts]
    options = settings(
        max_examples=count // 2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],  # pyright: ignore[reportArgumentType]
    )
    signal.signal(signal.SIGALRM, _alarm)

    @seed(start)
    @options
    @given(mutants(texts))
    def texts_survive(text: str) -> None:
        score.guarded(score.text, text)

    @seed(start)
    @options
    @given(byte_mutants(data))
    def protos_survive(proto: bytes) -> None:
        score.guarded(score.proto, proto)

    texts_survive()
    protos_survive()
    return score


def main() -> None:
    """Runs, prints one line and the first input of each fault; exit status 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="checkout", help="a checkout of openxla/xla, for more modules")
    arguments = parser.parse_args()
    faulthandler.enable()
    score = fuzz(arguments.count, arguments.seed, corpus(arguments.checkout))
    for kind, source in score.faults.items():
        print(f"FAULT {kind}\n{source!r}\n")
    counts = score.counts
    print(f"fuzz: {counts['accepted']} accepted, {counts['rejected']} rejected, {counts['fault']} faults")
    sys.exit(1 if score.faults else 0)


if __name__ == "__main__":
    main()
