"""StableHLO's golden tests as cases: a program without checks, inputs, and what its outputs must be.

A file is split at `// -----`, and each function with check operations is a case: they are taken out, and `@main` returns
what they looked at. Calls of functions that only return constants become inputs, or golden values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tests.judges.stablehlo_values import Check, array_of

_CHECK = re.compile(r"\bcheck\.(expect_\w+)\s+(%[\w#.]+)\s*,\s*")
_OPTION = re.compile(
    r"\s*[,{]?\s*(tolerance|max_ulp_difference|min_ulp_difference)\s*=\s*([-+.\deE]+)(?:\s*:\s*f64)?(?:\s*})?"
)
_COLON = re.compile(r"\s*:\s*")
_VALUE = re.compile(r"%[\w#.]+")
_PROBE = re.compile(r'probe_id\s*=\s*"[^"]*"(?:\s*,\s*iter\s*=\s*\d+(?:\s*:\s*ui32)?)?\s*:\s*')


@dataclass
class Program:
    """One case. `grid` is how many replicas and partitions run it, `inputs` then holds theirs one after another."""

    name: str
    module: str = ""
    inputs: list[np.ndarray] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    grid: tuple[int, int] | None = None
    problem: str = ""


@lru_cache(maxsize=1)
def context() -> Any:
    """jaxlib's MLIR context, with the dialects of the tests."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


def programs(text: str, name: str) -> Iterator[Program]:
    """The cases of one file."""
    from jaxlib.mlir import ir

    with context():
        for number, chunk in enumerate(re.split(r"^// -----.*$", text, flags=re.M)):
            body = "\n".join(line for line in chunk.splitlines() if not line.lstrip().startswith("//"))
            if not body.strip():
                continue
            title = f"{name}#{number}"
            try:
                body = _generic_checks(body)
                module = ir.Module.parse(body)
            except Exception as error:  # jaxlib's MLIRError, and texts that are meant to be wrong
                yield Program(title, problem=f"does not parse: {error}")
                continue
            tests = [f for f in _functions(module).values() if any(map(_is_check, _walk(f)))]
            if not tests:
                yield Program(title, problem="checks nothing")
            for test in tests:
                symbol = test.attributes["sym_name"].value
                label = f"{title}:{symbol}" if len(tests) > 1 else title
                try:
                    yield _program(ir.Module.parse(body), symbol, label)
                except Exception as error:
                    yield Program(label, problem=f"cannot be made a case: {type(error).__name__}: {error}")


def _generic_checks(text: str) -> str:
    """The check dialect's own syntax, which jaxlib does not know, as generic operations."""
    out: list[str] = []
    position = 0
    for match in _CHECK.finditer(text):
        name, at = match[1], match.end()
        operands, attributes = [match[2]], []
        if name == "expect_serialized_eq":
            types, at = _types(text, _after(_PROBE, text, at))
        elif name.endswith("_const"):
            end = _closing(text, at)
            after = _options(text, end, attributes)
            types, after = _types(text, _after(_COLON, text, after))
            attributes.append(f"value = {text[at:end]} : {types[0]}")
            at = _options(text, after, attributes)
        else:
            end = _after(_VALUE, text, at)
            operands.append(text[at:end])
            types, at = _types(text, _after(_COLON, text, _options(text, end, attributes)))
            types = (types * 2)[:2]
        out.append(text[position : match.start()])
        out.append(f'"check.{name}"({", ".join(operands)}) {{{", ".join(attributes)}}} : ({", ".join(types)}) -> ()')
        position = at
    return "".join(out) + text[position:]


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"{text[at : at + 20]!r} is not {pattern.pattern}")
    return match.end()


def _options(text: str, at: int, attributes: list[str]) -> int:
    while option := _OPTION.match(text, at):
        attributes.append(f'{option[1]} = "{option[2]}"')
        at = option.end()
    return at


def _types(text: str, at: int) -> tuple[list[str], int]:
    types = []
    while True:
        end = _closing(text, at)
        types.append(text[at:end].strip())
        comma = re.compile(r"\s*,\s*(?=tensor<)").match(text, end)
        if comma is None:
            return types, end
        at = comma.end()


def _closing(text: str, at: int) -> int:
    """Just after the `>` that closes the first `<` from `at` on."""
    depth, quoted = 0, False
    for k in range(text.index("<", at), len(text)):
        if text[k] == '"':
            quoted = not quoted
        elif not quoted and text[k] == "<":
            depth += 1
        elif not quoted and text[k] == ">" and text[k - 1] != "-":
            depth -= 1
            if depth == 0:
                return k + 1
    raise ValueError("unbalanced <>")


def _functions(module: Any) -> dict[str, Any]:
    found = (o.operation for o in module.body)
    return {f.attributes["sym_name"].value: f for f in found if f.name == "func.func"}


def _walk(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _walk(inner.operation)


# JAX writes the checks of `testdata` as custom calls
_CUSTOM = {
    "check.expect_eq": ("eq", 0),
    "check.expect_almost_eq": ("almost_eq", 0),
    "check.expect_close": ("close", 0),
    "check.eq": ("almost_eq", 1),
}


def _target(operation: Any) -> str:
    return str(operation.attributes["call_target_name"]).strip('"@')


def _is_check(operation: Any) -> bool:
    custom = operation.name == "stablehlo.custom_call"
    return _target(operation) in _CUSTOM if custom else operation.name.startswith("check.")


def _check(operation: Any) -> tuple[Check, Any, Any]:
    """The check, the value that it looks at, and the golden one: another value, or a literal's text."""
    check = Check("eq", 0, 0)
    if operation.name == "stablehlo.custom_call":
        check.kind, actual = _CUSTOM[_target(operation)]
        check.tolerance, check.max_ulp = 1e-3, 3
        return check, operation.operands[actual], operation.operands[1 - actual]
    check.kind = next((k for k in ("almost_eq", "close") if k in operation.name), "eq")
    for name, attribute, convert in (
        ("tolerance", "tolerance", float),
        ("max_ulp", "max_ulp_difference", int),
        ("min_ulp", "min_ulp_difference", int),
    ):
        if attribute in operation.attributes:
            setattr(check, name, convert(operation.attributes[attribute].value))
    return check, operation.operands[0], _literal(operation) if "_const" in operation.name else operation.operands[1]


def _literal(operation: Any) -> str:
    """The text of the attribute `value`; jaxlib has no attribute objects of complex elements."""
    try:
        return str(operation.attributes["value"])
    except TypeError:
        text = operation.get_asm(print_generic_op_form=True, large_elements_limit=None)
        start = text.index("dense<", text.index("value = "))
        return text[start : _closing(text, _closing(text, start))]


def _constant(value: Any, functions: dict[str, Any]) -> str | None:
    """The literal that a value is, in a function without arguments too, or None."""
    operation = getattr(value.owner, "operation", None)
    if operation is None:
        return None
    if operation.name == "stablehlo.constant":
        return _literal(operation)
    if operation.name != "func.call" or len(operation.operands):
        return None
    body = list(functions[operation.attributes["callee"].value].regions[0].blocks[0])
    position = list(operation.results).index(value)
    inner = getattr(body[-1].operation.operands[position].owner, "operation", None)
    return _literal(inner) if inner is not None and inner.name == "stablehlo.constant" else None


def _program(module: Any, symbol: str, name: str) -> Program:
    from jaxlib.mlir import ir

    functions = _functions(module)
    for other in [n for n, f in functions.items() if n != symbol and any(map(_is_check, _walk(f)))]:
        functions.pop(other).erase()
    main = functions[symbol]
    program = Program(name)
    outputs: list[Any] = []
    for operation in [o for o in _walk(main) if _is_check(o)]:
        check, actual, golden = _check(operation)
        check.actual = len(outputs)
        outputs.append(actual)
        literal = golden if isinstance(golden, str) else _constant(golden, functions)
        if literal is not None:
            check.expected = array_of(literal)
        else:
            check.expected = len(outputs)
            outputs.append(golden)
        program.checks.append(check)
        operation.erase()
    if any(o.name == "interpreter.probe" for o in _walk(module.operation)):
        return Program(name, problem="looks at files that the reference writes")
    parallel = [o for o in _walk(main) if o.name == "interpreter.run_parallel"]
    if parallel:
        return _parallel(program, module, parallel[0], outputs, functions)
    block = main.regions[0].blocks[0]
    list(block)[-1].operation.erase()
    with ir.InsertionPoint(block), ir.Location.unknown():
        ir.Operation.create("func.return", operands=outputs)
    results = [v.type for v in outputs]  # while they live: the next step erases some
    _constants_to_inputs(program, block, functions)
    arguments = [a.type for a in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))
    for attribute in {"res_attrs", "arg_attrs"} & set(main.attributes):
        del main.attributes[attribute]
    main.attributes["sym_visibility"] = ir.StringAttr.get("public")
    if symbol != "main":
        main.attributes["sym_name"] = ir.StringAttr.get("main")
    for other in functions.values():
        if other is not main:
            other.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module.operation.verify()
    program.module = module.operation.get_asm(large_elements_limit=None)
    return program


def _constants_to_inputs(program: Program, block: Any, functions: dict[str, Any]) -> None:
    from jaxlib.mlir import ir

    for call in [o.operation for o in block if o.operation.name == "func.call"]:
        literals = [_constant(result, functions) for result in call.results]
        if None in literals or any("!quant" in str(r.type) for r in call.results):
            continue
        for result, literal in zip(list(call.results), literals, strict=True):
            assert literal is not None
            if list(result.uses):
                result.replace_all_uses_with(block.add_argument(result.type, ir.Location.unknown()))
                program.inputs.append(array_of(literal))
        call.erase()


def _parallel(program: Program, module: Any, run: Any, outputs: list[Any], functions: dict[str, Any]) -> Program:
    """One function on a grid of devices; its outputs are those of all devices, one device after another."""
    from jaxlib.mlir import ir

    rows = [[cell.value for cell in row] for row in run.attributes["programs"]]
    symbols = {symbol for row in rows for symbol in row}
    if len(symbols) != 1 or "infeed" in run.attributes:
        return Program(program.name, problem="devices that run different programs")
    literals = [_constant(operand, functions) for operand in run.operands]
    if None in literals:
        return Program(program.name, problem="inputs that are not constants")
    results = list(run.results)
    places = [results.index(value) if value in results else None for value in outputs]
    if None in places:
        return Program(program.name, problem="outputs that are computed further")
    for check in program.checks:
        check.actual = places[check.actual]  # type: ignore[assignment]
        if isinstance(check.expected, int):
            check.expected = places[check.expected]  # type: ignore[assignment]
    program.inputs = [array_of(literal) for literal in literals if literal is not None]
    program.grid = (len(rows), len(rows[0]))
    (symbol,) = symbols
    function = functions[symbol]
    for name, other in functions.items():
        if name != symbol and "interpreter." in str(other):
            other.erase()
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    function.attributes["sym_visibility"] = ir.StringAttr.get("public")
    program.module = module.operation.get_asm(large_elements_limit=None)
    return program
