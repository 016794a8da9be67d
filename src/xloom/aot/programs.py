"""What can be exported, as a module with names: files, functions of JAX, programs and models of PyTorch."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xloom
from xloom.errors import LoweringError, MissingExtraError, XloomError
from xloom.hlo.module import Module

_CALLED = re.compile(r'stablehlo\.custom_call @("[^"]*"|[\w.$-]+)')


@dataclass(frozen=True)
class NamedProgram:
    """A module, and what its parts are to be called in C; without names, those of the module."""

    module: Module
    name: str
    origin: str
    """Where it came from, in the header's first line."""
    arguments: Sequence[str] = ()
    results: Sequence[str] = ()


def program_of(program: Any, args: Sequence[Any]) -> NamedProgram:
    """The module of a program, see `export`. Raises XloomError for what is none."""
    if isinstance(program, Module):
        return NamedProgram(program, program.name, f"the module {program.name}")
    if isinstance(program, str | Path):
        return _of_file(Path(program))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(program, torch.nn.Module | torch.export.ExportedProgram):
        return _of_torch(program, args)
    if callable(program) or hasattr(program, "mlir_module"):
        return _of_jax(program, args)
    raise XloomError(
        f"a {type(program).__name__} cannot be exported",
        hint="give a module, a file, a function of JAX, or a model or exported program of PyTorch",
    )


def _of_file(path: Path) -> NamedProgram:
    if path.suffix == ".pt2":
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError(f"{path} needs PyTorch", hint="pip install 'xloom[torch]'") from error
        found = _of_torch(torch.export.load(path), ())
        return NamedProgram(found.module, path.stem, path.name, found.arguments, found.results)
    module = xloom.load(path)
    return NamedProgram(module, path.stem, path.name)


def _of_torch(program: Any, args: Sequence[Any]) -> NamedProgram:
    from xloom.torch.closed_program import closed_program

    closed = closed_program(program, args)
    name = type(program).__name__ if args else "model"
    return NamedProgram(closed.module, name, f"{name}, a program of torch.export", closed.arguments, closed.results)


def _of_jax(program: Callable[..., Any] | Any, args: Sequence[Any]) -> NamedProgram:
    try:
        import jax
    except ImportError as error:
        raise MissingExtraError("a function needs JAX to be traced", hint="pip install 'xloom[jax]'") from error
    exported = program
    if not hasattr(program, "mlir_module"):
        jitted: Any = program if hasattr(program, "trace") else jax.jit(program, keep_unused=True)
        try:
            exported = _exported_by_jax(jitted, args)
        except NotImplementedError as error:  # callbacks
            hint = "take callbacks into Python out of what is exported, or run it by jax.jit"
            raise LoweringError(f"JAX cannot write this function down: {error}", hint=hint) from error
    module = xloom.from_stablehlo(exported.mlir_module())
    name = str(exported.fun_name)
    names = [_argument_name(path, _parameters(program)) for path in _paths(exported.in_tree)]
    return NamedProgram(
        module,
        name,
        f"{name}, a function of JAX",
        [names[k] for k in exported.module_kept_var_idx],
        ["_".join(["result", *_words(path)]) for path in _paths(exported.out_tree)],
    )


def _exported_by_jax(jitted: Any, args: Sequence[Any]) -> Any:
    """With custom calls that later versions of JAX may not have: those that cannot be kept are refused later."""
    from jax.export import DisabledSafetyCheck, export

    try:
        return export(jitted, platforms=["cpu"], disabled_checks=[DisabledSafetyCheck.custom_call("ALL")])(*args)
    except ValueError:  # before 0.10.2 each has to be named
        text = jitted.trace(*args).lower(lowering_platforms=("cpu",)).as_text()
        found = [DisabledSafetyCheck.custom_call(name.strip('"')) for name in sorted(set(_CALLED.findall(text)))]
        return export(jitted, platforms=["cpu"], disabled_checks=found)(*args)


def _paths(tree: Any) -> list[tuple[Any, ...]]:
    """Where each leaf is."""
    import jax

    numbered = jax.tree.unflatten(tree, range(tree.num_leaves))
    return [path for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]]


def _words(path: Sequence[Any]) -> list[str]:
    import jax

    return [jax.tree_util.keystr((key,), simple=True) for key in path]


def _argument_name(path: Sequence[Any], parameters: Sequence[str]) -> str:
    """Of an argument whose path begins with 0 for those by position, 1 for those by name."""
    words = _words(path)
    if words[0] == "0":
        number = int(words[1])
        return "_".join([parameters[number] if number < len(parameters) else f"argument_{number}", *words[2:]])
    return "_".join(words[1:])


def _parameters(function: Any) -> list[str]:
    """The names of a function's positional parameters, as far as it tells."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
