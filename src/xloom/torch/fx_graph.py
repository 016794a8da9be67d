"""FX graphs of ATen operators, as HLO modules."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from xloom.errors import LoweringError, XloomError
from xloom.hlo import dtype as dt
from xloom.hlo.attributes import Metadata
from xloom.hlo.builder import Builder
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.torch import host_fallback
from xloom.torch.arrays import as_array
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.graph_memory import (
    OF_MEMORY,
    Memory,
    check_writes,
    lowered,
    order_in_memory,
    owner,
    place,
    place_by_strides,
    places_told,
    reaches,
    writes_by_strides,
)
from xloom.torch.higher_order import HIGHER_ORDER, lower_higher_order
from xloom.torch.kernel_refusals import check_traced
from xloom.torch.lowering import Graph, lower
from xloom.torch.shared_results import AliasedResult, ArgumentView, aliased_results, replay, shared_results
from xloom.torch.traced_numbers import known_for

_WITH_EFFECTS = torch.ops.higher_order.with_effects
_ASSERTS = torch.ops.aten._assert_async.msg
_ASSERTS_OF_SIZES = torch.ops.aten._assert_scalar.default
_ASSERTS_METADATA = torch.ops.aten._assert_tensor_metadata.default
_WRITES = torch.ops.aten.copy_.default
_SETS = torch.ops.aten.set_.source_Tensor
_OF_DYNAMO = "graphs are those of torch.compile or torch.export, after AOTAutograd"

INLINED = 1024
"""Tensors of a graph with more elements than this are arguments of its program rather than constants in it."""


@dataclass
class Translated:
    """A graph's module, and how its arguments and results lie to the graph's."""

    module: Module
    arguments: list[int] = field(default_factory=list)
    """The graph's arguments that are parameters, in order."""
    stretches: list[Stretch] = field(default_factory=list)
    """Parts of arguments' memory that follow as parameters."""
    begins: dict[int, int] = field(default_factory=dict)
    """Where arguments begin in their memory, of which the graph speaks of other places."""
    held: list[torch.Tensor] = field(default_factory=list)
    """Tensors of the graph that follow as parameters."""
    negated: bool = False
    """Whether there are arguments that are negated as they are read."""
    needs_key: bool = False
    """Whether the last parameter is the random number generator's state."""
    results: list[int | Given | AliasedResult | ArgumentView | Same] = field(default_factory=list)
    """Where each of the graph's results is: a leaf of the program's result, part of one, or given beforehand."""
    bases: int = 0
    """Leaves after those that are results: of which several results are parts, as they lie in memory."""
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Of results that lie in memory in another order of dimensions than row-major: that order, slowest first."""
    is_tuple: bool = True
    """Whether the graph returns several values."""
    assertions: list[str] = field(default_factory=list)
    """What to say where one of the leaves after these is false."""
    written: list[int | Region] = field(default_factory=list)
    """The graph's arguments whose new values are the program's last leaves, in order, or parts of their memory."""
    weights: Module | None = None
    """What makes the program's last arguments, of weights alone."""
    sources: list[int | torch.Tensor] = field(default_factory=list)
    """Those weights: numbers of the graph's arguments, and tensors of the graph."""


@dataclass(frozen=True)
class Stretch:
    """A part of an argument's memory, in which there is more than the argument's elements."""

    argument: int
    start: int
    """From the argument's first element."""
    size: int

    def of(self, argument: torch.Tensor) -> torch.Tensor:
        """That part, of the argument that came. Raises as torch does if its memory is smaller."""
        return argument.as_strided((self.size,), (1,), argument.storage_offset() + self.start)


@dataclass(frozen=True)
class Region:
    """A part of an argument's memory that is written by strides."""

    argument: int
    sizes: Sequence[int]
    strides: Sequence[int]
    start: int
    """From the argument's first element."""

    def of(self, argument: torch.Tensor) -> torch.Tensor:
        """That part, of the argument that came. Raises as torch does if its memory is smaller."""
        return argument.as_strided(self.sizes, self.strides, argument.storage_offset() + self.start)


@dataclass(frozen=True)
class Given:
    """A result that needs no program: an argument as it came in, or a Python value."""

    argument: int | None
    value: Any = None


@dataclass(frozen=True)
class Same:
    """A result that an earlier one is, as an object: where one of them grows, so does the other."""

    result: int


def translate(
    graph: GraphModule,
    arguments: Sequence[Any],
    name: str = "graph",
    strided: int | None = None,
    *,
    dense: bool = False,
) -> Translated:
    """The program of a graph for arguments of these shapes: tensors, and integers that are constants of it.

    The first `strided` results, or all of them, lie in memory as torch's do, the others row-major; with `dense`, also
    those that alone lie in a larger memory. Raises LoweringError for operators that the table lacks.
    """
    with unset_fake_temporarily():  # constants have values
        return _Translator(graph, arguments, name, strided, dense).run()


class _Translator:
    def __init__(self, graph: GraphModule, arguments: Sequence[Any], name: str, strided: int | None, dense: bool):
        self.graph = graph
        self.dense = dense
        self.strided = strided
        self.builder = Builder(name, source_lines=False)
        self.arguments = list(arguments)
        self.values: dict[Node, Any] = {}
        self.memories: dict[Node, Memory] = {}
        self.parameter_of: dict[Instruction, int] = {}
        self.written: dict[Node, list[tuple[int | Region, Instruction]]] = {}
        self.translated = Translated(self.builder._module)
        self.key: Instruction | None = None
        self.may_draw = False
        self.asserted: list[tuple[Instruction, str]] = []
        self.g = Graph(self.builder, self._random_key)
        self.g.asserted = self.asserted

    def run(self) -> Translated:
        placeholders = [n for n in self.graph.graph.nodes if n.op == "placeholder"]
        self.numbers = {node: number for number, node in enumerate(placeholders)}
        given = list(zip(placeholders, self.arguments, strict=True))
        self.known = known_for(given)
        for number, (node, argument) in enumerate(given):
            if any(user.target is not _WITH_EFFECTS for user in node.users):  # not a token, nor what is not read
                self.values[node] = self._parameter(number, node, argument)
        for node, bytes in reaches(self.graph.graph.nodes, self.known).items():
            if node.op == "placeholder":
                self.memories[node] = self._stretch(placeholders.index(node), node, bytes)
        nodes = list(self.graph.graph.nodes)
        writes = [node for node in nodes if node.target is _WRITES and node.args[0] in self.numbers]
        check_writes(nodes, {node.args[0]: node.args[1] for node in writes}, self.known)
        # what is saved for backward comes in memory of its own
        for node in () if self.strided is None else places_told(nodes) & self.numbers.keys():
            self.translated.begins[self.numbers[node]] = place(node, self.known)
        for node in nodes:
            if node.op == "get_attr":
                self.values[node] = self._constant(node, operator.attrgetter(str(node.target))(self.graph))
        self.may_draw = any(map(_is_random, nodes))
        for node in nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                return self._finish(node.args[0])
            elif node.op not in ("placeholder", "get_attr"):
                raise LoweringError(
                    f"{node.op} {node.target} is not part of a graph of ATen operators", hint=_OF_DYNAMO
                )
        raise LoweringError("the graph has no output", hint=_OF_DYNAMO)

    def _parameter(self, number: int, node: Node, argument: Any) -> Any:
        if not isinstance(argument, torch.Tensor):
            return argument
        shape = array_shape(hlo_dtype(argument.dtype), [int(d) for d in argument.shape])
        parameter = self.builder.parameter(shape, str(node.name))
        self.parameter_of[parameter] = number
        self.translated.negated |= argument.is_neg()
        self.translated.arguments.append(number)
        return parameter

    def _stretch(self, number: int, node: Node, bytes: range) -> Memory:
        value = node.meta["val"]
        unit = 16 // value.itemsize  # so that it begins with an element of a view as any other dtype
        first = bytes.start // 16 * unit
        size = -(-bytes.stop // value.itemsize) - first
        self.translated.stretches.append(Stretch(number, first - place(node, self.known), size))
        shape = array_shape(hlo_dtype(value.dtype), (size,))
        return Memory(self.builder.parameter(shape, f"memory_of_{node.name}"), first)

    def _constant(self, node: Node, tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if tensor.numel() <= INLINED or self.g.builder is not self.builder:  # only the entry has such arguments
            return self.g.literal(as_array(tensor).copy())
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        self.translated.held.append(tensor)
        return self.builder.parameter(array_shape(hlo_dtype(tensor.dtype), tuple(tensor.shape)), str(node.name))

    def _random_key(self) -> Instruction:
        """The last parameter, of programs that draw: attention is marked so, and without dropout it does not."""
        if not self.may_draw:
            raise LoweringError(
                "an operator draws random numbers that torch does not mark as one that does",
                hint="give its definition tags=(torch.Tag.nondeterministic_seeded,)",
            )
        if self.key is None:
            self.key = self.builder.parameter(dt.u64[2], "key")
            self.translated.needs_key = True
        return self.key

    def _call(self, node: Node) -> Any:
        if node.target is _ASSERTS:
            condition, message = self._value(node.args)
            self.asserted.append((self.g.cast(self.g.reshape_to(condition, ()), dt.pred), message))
            return None
        if node.target is _ASSERTS_OF_SIZES:
            holds, message = self._value(node.args)
            if not holds:
                raise LoweringError(f"{message}: the sizes are others", where=_described(node))
            return None
        if node.target is _ASSERTS_METADATA:  # of dtypes, which are what they were when it was traced
            return None
        if node.target is _WRITES and node.args[0] in self.numbers:
            return self._write(node)
        if node.target is _SETS:
            raise LoweringError(
                "a graph gives an argument another tensor's memory, as `x.data = y` does",
                where=_described(node),
                hint="write x.copy_(y) under torch.no_grad(), or assign outside of what is compiled",
            )
        if node.target is _WITH_EFFECTS:  # order is that of the program: the token is nothing
            _, target, *args = node.args
            return [None, *as_list(self._lowered(node, target, self._value(args), self._value(node.kwargs)))]
        return self._lowered(node, node.target, self._value(node.args), self._value(node.kwargs))

    def _write(self, node: Node) -> Instruction:
        """What AOTAutograd puts last: an argument's new value, which nothing reads before the graph is done."""
        argument, value = node.args[:2]
        assert isinstance(argument, Node)
        number = self.numbers[argument]
        shape = self._value(argument).shape
        new = self.g.expand(self.g.cast(self._value(value), shape.dtype), shape.dims)
        self.written[argument] = [(number, new)]
        if value in self.memories:
            memory, begins = self.memories[value], place(argument, self.known)
            self.written[argument] = []
            for each in writes_by_strides(value, argument):
                sizes, strides, start = self._value([*each.args[2:4], place_by_strides(each, self.known)])
                part = lower(
                    self.g, torch.ops.aten.as_strided.default, (memory.flat, sizes, strides, start - memory.first), {}
                )
                self.written[argument].append((Region(number, sizes, strides, start - begins), part))
        return new

    def _lowered(self, node: Node, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.aten.sym_size.int:
            return args[0].shape.dims[args[1]]
        if target is torch.ops.aten.sym_stride.int and (stride := self.known(node)) is not None:
            return stride  # as torch lays the tensor out
        on_host = host_fallback.is_host_call(target)
        if on_host or isinstance(target, torch._ops.OpOverload) or target in HIGHER_ORDER:
            self.g.metadata, self.g.read = _metadata(node), _results_read(node)
            try:
                if target in HIGHER_ORDER:
                    result = lower_higher_order(self.g, node, args, kwargs, self._inlined)
                elif target in OF_MEMORY:
                    result = lowered(self.g, node, args, kwargs, self.values, self.memories, self.known)
                elif on_host:
                    result = host_fallback.call(self.g, target, node, args, kwargs)
                else:
                    _check_arguments(node, target)
                    result = lower(self.g, target, args, kwargs)
                result = self._as_traced(node, result)
                _check(node, result)
                return result
            except XloomError as error:
                error.where = error.where or _described(node)
                raise
            finally:
                self.g.metadata = self.g.read = None
        if target is operator.getitem or not _has_instruction((args, kwargs)):
            return target(*args, **kwargs)  # type: ignore[operator]
        raise LoweringError(f"{target} is no ATen operator", where=_described(node))

    def _inlined(self, g: Graph, graph: GraphModule, values: Sequence[Any]) -> list[Any]:
        """Adds a graph that an operator takes to `g`, on these values; the values of its results."""
        before, given = (self.g, self.graph), iter(values)
        self.g, self.graph = g, graph
        try:
            for node in graph.graph.nodes:
                if node.op == "placeholder":
                    self.values[node] = next(given)
                elif node.op == "get_attr":
                    self.values[node] = self._constant(node, operator.attrgetter(str(node.target))(graph))
                elif node.op == "call_function":
                    if g is not before[0] and (_is_random(node) or node.target is _ASSERTS):
                        raise LoweringError(f"{node.target} inside a branch or a loop", where=_described(node))
                    self.values[node] = self._call(node)
                elif node.op == "output":
                    return as_list(self._value(node.args[0]))
            raise LoweringError("the graph has no output", hint=_OF_DYNAMO)
        finally:
            self.g, self.graph = before

    def _value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.values[value]
        if isinstance(value, (list, tuple)):
            return [self._value(v) for v in value]
        if isinstance(value, dict):
            return {k: self._value(v) for k, v in value.items()}
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value.node.guard_int("", 0) if isinstance(value, torch.SymInt) else value.node.hint
        return value

    def _finish(self, results: Any) -> Translated:
        self.translated.is_tuple = isinstance(results, (list, tuple))
        results = list(results) if self.translated.is_tuple else [results]
        outputs: list[Instruction] = []
        bases, shared = self._bases(results[: self.strided])
        first: dict[Any, int] = {}
        for number, result in enumerate(results):
            value = self._value(result)
            seen = self.strided is None or number < self.strided  # what is saved for backward stays as it is
            if seen and isinstance(result, Node) and first.setdefault(result, number) < number:
                self.translated.results.append(Same(first[result]))
            elif number in shared:
                self.translated.results.append(shared[number])
            elif isinstance(result, Node) and result in self.numbers and not isinstance(value, Instruction):
                self.translated.results.append(Given(self.numbers[result]))
            elif isinstance(result, Node) and result.target is _WRITES and result.args[0] in self.written:
                self.translated.results.append(Given(self.numbers[result.args[0]]))  # type: ignore[index]
            elif not isinstance(value, Instruction):
                self.translated.results.append(Given(None, value))
            elif value in self.parameter_of and _is_argument(result):
                self.translated.results.append(Given(self.parameter_of[value]))
            elif self.strided is not None and seen and owner(result) in self.numbers:
                base = owner(result)
                self.translated.results.append(
                    ArgumentView(self.numbers[base], result, replay(result, base, self._value))
                )
            else:
                self.translated.results.append(len(outputs))
                order = order_in_memory(result) if self.strided is None or number < self.strided else None
                if order is not None and order != tuple(range(len(order))):
                    self.translated.orders[number] = order
                    value = self.g.permute(value, order)
                outputs.append(value)
        outputs += bases
        written = [each for parts in self.written.values() for each in parts]
        self.translated.written = [place for place, _ in written]
        self.translated.assertions = [message for _, message in self.asserted]
        conditions = [holds for holds, _ in self.asserted]
        self.builder.build(self.builder.tuple(*outputs, *conditions, *[value for _, value in written]))
        return self.translated

    def _bases(self, results: Sequence[Any]) -> tuple[list[Instruction], dict[int, AliasedResult]]:
        """What several of the results are views of, in the order of memory; and those results by number."""
        bases: list[Instruction] = []
        found: dict[int, AliasedResult] = {}
        for base, numbers in shared_results(results).items():
            if self.dense and len(numbers) == 1:
                continue
            own, order = self._value(base), order_in_memory(base)
            assert order is not None
            of_base = aliased_results(base, own, order, len(bases), [results[k] for k in numbers], self._value)
            found |= {k: part for k, part in zip(numbers, of_base, strict=True) if part is not None}
            bases.append(self.g.permute(own, order))
        self.translated.bases = len(bases)
        return bases, found

    def _as_traced(self, node: Node, result: Any) -> Any:
        """Floats as wide as torch has traced them: without memory, some of its kernels have others than on the CPU."""

        def wide(ours: Any, theirs: Any) -> Any:
            if not isinstance(ours, Instruction) or not isinstance(theirs, FakeTensor):
                return ours
            own, dtype = ours.shape.dtype, hlo_dtype(theirs.dtype)
            return self.g.cast(ours, dtype) if own.is_float and dtype.is_float and own.bits < dtype.bits else ours

        traced = node.meta.get("val")
        if isinstance(result, (list, tuple)) and traced is not None:
            return [wide(*pair) for pair in zip(result, as_list(traced), strict=False)]
        return wide(result, traced)


def _check_arguments(node: Node, op: torch._ops.OpOverload) -> None:
    """Raises what torch's kernel does for such arguments, where the graph says what they are."""
    if node.target is not op:  # with a token, which the kernel does not know
        return
    if all(given.meta.get("val") is not None for given in node.all_input_nodes):
        check_traced(op, *map_arg((node.args, node.kwargs), lambda leaf: leaf.meta["val"]))


def _is_argument(node: Node) -> bool:
    """True for an argument, or a view of one; other results have memory of their own, a clone for one."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target.is_view:
        first = node.args[0]
        assert isinstance(first, Node)
        node = first
    return node.op == "placeholder"


def _check(node: Node, result: Any) -> None:
    """What reads the results goes by torch's shapes. Raises LoweringError where a lowering's are others."""
    expected = node.meta.get("val")
    for ours, theirs in zip(as_list(result), as_list(expected), strict=False):
        if not isinstance(ours, Instruction) or not isinstance(theirs, FakeTensor):
            continue
        same = ours.shape.dtype is hlo_dtype(theirs.dtype) and ours.shape.rank == theirs.dim()
        if not same or any(isinstance(d, int) and d != o for d, o in zip(theirs.shape, ours.shape.dims, strict=True)):
            found = f"{theirs.dtype}{list(theirs.shape)}"
            raise LoweringError(
                f"the lowering of {node.target} gives {ours.shape.to_text(False)}, torch {found}",
                where=str(node.name),
                hint="of an operator of ATen report it; of your own, its fake kernel says the shape",
            )


def _results_read(node: Node) -> set[int] | None:
    """Which results of an operator any other reads, where it has several."""
    if any(user.target is not operator.getitem for user in node.users):
        return None
    return {int(user.args[1]) for user in node.users}  # type: ignore[call-overload]


def as_list(value: Any) -> list[Any]:
    """Several results as a list, also where there is one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _has_instruction(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_instruction, value))
    if isinstance(value, dict):
        return any(map(_has_instruction, value.values()))
    return isinstance(value, Instruction)


def _is_random(node: Node) -> bool:
    target = node.args[0] if node.target is torch.ops.higher_order.run_and_save_rng_state else node.target
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _metadata(node: Node) -> Metadata:
    """The operator, and the line of the user's program that called it."""
    for line in reversed((node.stack_trace or "").splitlines()):
        words = line.strip().split('"')
        if len(words) == 3 and words[0] == "File ":
            number = words[2].removeprefix(", line ").split(",")[0]
            return Metadata(op_type=str(node.target), source_file=words[1], source_line=int(number))
    return Metadata(op_type=str(node.target))


def _described(node: Node) -> str:
    metadata = _metadata(node)
    place = f", {metadata.source_file}:{metadata.source_line}" if metadata.source_file else ""
    return f"{node.name} = {node.target}{place}"
