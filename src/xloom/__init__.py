"""xloom: an array-program compiler and runtime with XLA's interfaces, in Python.

import xloom as xl
module = xl.parse(text)
print(module)
y = xl.evaluate(module, a, b)
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xloom.errors import (
    CustomCallError,
    EvaluationError,
    LoweringError,
    MissingCompilerError,
    MissingExtraError,
    ParseError,
    PassError,
    ShapeError,
    Span,
    UnsupportedError,
    VerifyError,
    XloomError,
)
from xloom.hlo.dtype import (
    DTYPES,
    DType,
    bf16,
    c64,
    c128,
    f4e2m1fn,
    f6e2m3fn,
    f6e3m2fn,
    f8e3m4,
    f8e4m3,
    f8e4m3b11fnuz,
    f8e4m3fn,
    f8e4m3fnuz,
    f8e5m2,
    f8e5m2fnuz,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    pred,
    s1,
    s2,
    s4,
    s8,
    s16,
    s32,
    s64,
    u1,
    u2,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from xloom.hlo.shape import Layout, Shape, token_shape, tuple_shape

if TYPE_CHECKING:
    from xloom.aot import export, load_exported
    from xloom.calls import custom_call, include_dir
    from xloom.cpu.compile import compile
    from xloom.difference import diff
    from xloom.hlo.builder import Builder
    from xloom.hlo.computation import Computation
    from xloom.hlo.instruction import Instruction
    from xloom.hlo.literal import Literal, literal
    from xloom.hlo.module import Module
    from xloom.hlo.proto.decoder import decode as from_proto
    from xloom.hlo.text.parser import parse
    from xloom.hlo.verify.module import verify
    from xloom.interpreter import evaluate
    from xloom.passes import run_passes
    from xloom.reduction import reduce
    from xloom.stablehlo import from_stablehlo
    from xloom.viewer import show

__version__ = "0.1.0"

# what is imported when it is first used, so that `import xloom` stays light
_LAZY = {
    "Builder": ("xloom.hlo.builder", "Builder"),
    "Computation": ("xloom.hlo.computation", "Computation"),
    "Instruction": ("xloom.hlo.instruction", "Instruction"),
    "Literal": ("xloom.hlo.literal", "Literal"),
    "Module": ("xloom.hlo.module", "Module"),
    "calls": ("xloom.calls", None),
    "compile": ("xloom.cpu.compile", "compile"),
    "custom_call": ("xloom.calls", "custom_call"),
    "diff": ("xloom.difference", "diff"),
    "evaluate": ("xloom.interpreter", "evaluate"),
    "export": ("xloom.aot", "export"),
    "from_proto": ("xloom.hlo.proto.decoder", "decode"),
    "from_stablehlo": ("xloom.stablehlo", "from_stablehlo"),
    "include_dir": ("xloom.calls", "include_dir"),
    "literal": ("xloom.hlo.literal", "literal"),
    "load_exported": ("xloom.aot", "load_exported"),
    "parse": ("xloom.hlo.text.parser", "parse"),
    "reduce": ("xloom.reduction", "reduce"),
    "run_passes": ("xloom.passes", "run_passes"),
    "show": ("xloom.viewer", "show"),
    "sim": ("xloom.sim", None),
    "testing": ("xloom.testing", None),
    "verify": ("xloom.hlo.verify.module", "verify"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'xloom' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def load(path: str | Path) -> Module:
    """The module in a file: HLO text (.hlo, .txt), HloModuleProto (.pb), or StableHLO (.mlir, .mlirbc).

    A file of another name is told by its content. Raises ParseError that names the file.
    """
    path = Path(path)
    return load_bytes(path.read_bytes(), str(path))


def load_bytes(data: bytes, file: str = "<input>") -> Module:
    """The module in `data`; `file` is its name in messages, and its ending tells the format."""
    from xloom.hlo.text.parser import parse

    suffix = Path(file).suffix
    if suffix in (".mlir", ".mlirbc") or data.startswith(b"ML\xefR"):
        from xloom.stablehlo import from_stablehlo

        return from_stablehlo(data if data.startswith(b"ML\xefR") else data.decode("utf-8", "replace"), file)
    if suffix in (".pb", ".binpb"):
        from xloom.hlo.proto.decoder import decode

        return decode(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        from xloom.hlo.proto.decoder import decode

        return decode(data)
    head = text.lstrip()
    if head.startswith(("module", "func.func", "#loc", '"builtin.module"')):
        from xloom.stablehlo import from_stablehlo

        return from_stablehlo(text, file)
    return parse(text, file)


__all__ = [
    "DTYPES",
    "Builder",
    "Computation",
    "CustomCallError",
    "DType",
    "EvaluationError",
    "Instruction",
    "Layout",
    "Literal",
    "LoweringError",
    "MissingCompilerError",
    "MissingExtraError",
    "Module",
    "ParseError",
    "PassError",
    "Shape",
    "ShapeError",
    "Span",
    "UnsupportedError",
    "VerifyError",
    "XloomError",
    "bf16",
    "c64",
    "c128",
    "compile",
    "custom_call",
    "diff",
    "evaluate",
    "export",
    "f4e2m1fn",
    "f6e2m3fn",
    "f6e3m2fn",
    "f8e3m4",
    "f8e4m3",
    "f8e4m3b11fnuz",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f8e8m0fnu",
    "f16",
    "f32",
    "f64",
    "from_proto",
    "from_stablehlo",
    "include_dir",
    "literal",
    "load",
    "load_bytes",
    "load_exported",
    "parse",
    "pred",
    "reduce",
    "run_passes",
    "s1",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "show",
    "token_shape",
    "tuple_shape",
    "u1",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "verify",
]
