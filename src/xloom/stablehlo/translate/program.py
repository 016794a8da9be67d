"""An MLIR module as an HLO module."""

from __future__ import annotations

from typing import Any

from xloom.hlo.computation import Computation
from xloom.hlo.module import InputOutputAlias, Module
from xloom.hlo.stack_frames import keep_used_frames
from xloom.stablehlo.bindings import Bindings
from xloom.stablehlo.translate.locations import Locations
from xloom.stablehlo.translate.rules import NotTranslatedError
from xloom.stablehlo.translate.scope import FRONTEND, Scope, only_block, strings
from xloom.stablehlo.translate.types import Types

_FUNCTION = "func.func"
_OF_MODULE = frozenset({"sym_name", "mhlo.num_partitions", "mhlo.num_replicas", FRONTEND})
_OF_FUNCTION = frozenset({"sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"})
_OF_ARGUMENT = frozenset({"tf.aliasing_output", "jax.buffer_donor", "mhlo.layout_mode", "jax.arg_info"})
_OF_RESULT = frozenset({"jax.result_info", "mhlo.layout_mode", "mhlo.memory_kind"})

_OF_INNER = frozenset({"jax.result_info", "mhlo.layout_mode"})
"""Attributes of other functions that say nothing where they are called."""


class Program:
    """What the functions of a module have in common."""

    def __init__(self, bindings: Bindings, file: str):
        self.types, self.locations = Types(bindings.ir), Locations(file)
        self.dialect = bindings.stablehlo
        self.computations: list[Computation] = []
        """Those that are finished."""
        self._functions: dict[str, Scope] = {}
        self._waiting: list[str] = []

    def function(self, name: str) -> Computation:
        """What a function is or will be."""
        if name not in self._functions:
            self._functions[name] = Scope(self, name)
            self._waiting.append(name)
        return self._functions[name].computation

    def translate(self, module: Any) -> Module:
        """The module; of its functions those that `@main` calls, and those call."""
        operation = module.operation
        attributes = operation.attributes
        if any(name not in _OF_MODULE for name in attributes):
            raise NotTranslatedError("attributes of the module")
        found = Module(attributes["sym_name"].value if "sym_name" in attributes else "main")
        functions = {
            f.operation.attributes["sym_name"].value: f.operation for f in module.body if f.operation.name == _FUNCTION
        }
        if "main" not in functions:
            raise NotTranslatedError("a program without @main")
        entry = self.function("main")
        bodies: list[list[Computation]] = []
        while self._waiting:  # not one within another: calls may go deep
            name = self._waiting.pop()
            self.computations = []
            self._translate_function(name, functions[name])
            bodies.append(self.computations)
        if FRONTEND in attributes:
            found.frontend_attributes = strings(attributes[FRONTEND])
        for computation in (c for body in reversed(bodies) for c in body):
            found.add(computation, entry=computation is entry)
        _set_aliases(found, functions["main"])
        found.stack_frames = self.locations.frames()
        keep_used_frames(found)
        return found

    def _translate_function(self, name: str, function: Any) -> None:
        attributes = function.attributes
        if any(a not in _OF_FUNCTION for a in attributes):
            raise NotTranslatedError(f"function {name}")
        _check(attributes, *((_OF_ARGUMENT, _OF_RESULT) if name == "main" else (_OF_INNER, _OF_INNER)))
        block = only_block(function.regions[0])
        scope = self._functions[name]
        scope.parameters(block, "Arg")
        results = scope.block(block)
        scope.finish(results[0] if len(results) == 1 else scope.tuple(results))
        if name == "main":
            for argument in block.arguments:
                parameter = scope.value(argument)
                parameter.metadata = self.locations.metadata(argument.location)
                parameter.name = parameter.metadata.op_name or parameter.name


def _check(attributes: Any, of_arguments: frozenset[str], of_results: frozenset[str]) -> None:
    for key, known in (("arg_attrs", of_arguments), ("res_attrs", of_results)):
        if key not in attributes:
            continue
        for each in attributes[key]:
            for k in range(len(each)):
                if each[k].name not in known:
                    raise NotTranslatedError(f"{each[k]}")


def _set_aliases(module: Module, main: Any) -> None:
    if "arg_attrs" not in main.attributes:
        return
    one = not module.entry.root.shape.is_tuple
    for number, each in enumerate(main.attributes["arg_attrs"]):
        if "tf.aliasing_output" in each:
            index = () if one else (each["tf.aliasing_output"].value,)
            module.config.input_output_alias.append(InputOutputAlias(index, number, ()))
        if "jax.buffer_donor" in each:
            module.config.buffer_donors.append((number, ()))


def translated(bindings: Bindings, module: Any, file: str) -> Module:
    """The HLO module of an MLIR module that is verified and was read from `file`.

    Raises NotTranslatedError where it has what no rule is for.
    """
    return Program(bindings, file).translate(module)
