"""Where patterns come from: HLO text, a module from the builder, a JAX function, the library; and their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xloom.errors import MissingExtraError, PassError, near
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.passes.pattern.bindings import check_bindings
from xloom.passes.pattern.pattern import Pattern

LIBRARY = Path(__file__).parent.parent.parent / "patterns"
PATTERNS: dict[str, Pattern] = {}
"""Patterns that a program has named with `add_pattern`."""

_SIMPLE = "call-inlining,tuple-simplification,algebraic-simplification,layout-simplification"
_FORMS = ("call-inlining,dce", "call-inlining,tuple-simplification,dce", f"{_SIMPLE},cse,dce")
_FORMS = (*_FORMS, f"{_SIMPLE},constant-folding,cse,dce", f"{_SIMPLE},constant-folding,{_SIMPLE},cse,dce")
_NEXT_MODULE = re.compile(r"^(?=HloModule\b)", re.M)


def add_pattern(name: str, source: str | Module | Pattern) -> Pattern:
    """Makes a pattern known to pipeline text, as in `outline{pattern=name,target=...}`."""
    PATTERNS[name] = source if isinstance(source, Pattern) else pattern_of(source, name)
    return PATTERNS[name]


def find_pattern(name: str) -> Pattern:
    """The pattern of that name, of the library's file of that name, or in the file at that path."""
    if name in PATTERNS:
        return PATTERNS[name]
    path = LIBRARY / f"{name}.hlo"
    if "/" in name or name.endswith(".hlo") or not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = [*PATTERNS, *(p.stem for p in LIBRARY.glob("*.hlo"))]
        hint = near(name, known) or f"there are: {', '.join(sorted(known))}; or give the path of a .hlo file"
        raise PassError(f"there is no pattern {name!r}", hint=hint)
    return pattern_of(path.read_text(encoding="utf-8"), path.stem, str(path))


def pattern_of(source: str | Module, name: str = "pattern", file: str = "<pattern>") -> Pattern:
    """The pattern that HLO text says, or a module. Text may hold several modules: its variants, in order."""
    if isinstance(source, Module):
        modules = [source]
    else:
        head, *texts = _NEXT_MODULE.split(source)
        modules = [parse(text, file) for text in texts or [head]]
    for module in modules:
        check_bindings(module)
    return Pattern.of(name, modules)


def pattern_from_jax(function: Callable[..., Any], *arguments: Any, name: str = "") -> Pattern:
    """The pattern that JAX makes of `function`: as it is, but for calls, which are inlined, and as passes simplify it.

    `arguments` have a shape and a dtype, and stand for any of their rank; a scalar stands for any constant.
    """
    try:
        import jax
    except ImportError as error:
        raise MissingExtraError("a JAX function as a pattern needs JAX", hint="pip install xloom[jax]") from error
    from xloom.passes.runner import run_passes

    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text(dialect="hlo")
    modules = [parse(text) for _ in _FORMS]
    for module, form in zip(modules, _FORMS, strict=True):
        run_passes(module, form)
    return Pattern.of(name or getattr(function, "__name__", "pattern"), modules)
