"""What is the same in each iteration of a while loop, computed once before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xloom.hlo.call_graph import callees_first
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import tuple_shape
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.dce import remove_dead
from xloom.passes.effects import Effects
from xloom.passes.loops import element_of, is_element
from xloom.passes.rewrite import editable_computations

_VIEWS = frozenset({"bitcast", "broadcast", "copy", "dynamic-slice", "reshape", "reverse", "slice"})
"""What a loop reads as easily as what they are of."""
_COMPUTED = frozenset({
    "cholesky", "concatenate", "convolution", "dot", "dynamic-update-slice", "fft", "gather", "get-tuple-element",
    "pad", "reduce", "reduce-window", "scatter", "select-and-scatter", "sort", "topk", "transpose", "triangular-solve",
})  # fmt: skip
_LONG = frozenset({
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosine", "cosh", "divide", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "remainder", "rsqrt", "sine", "sinh", "sqrt",
    "tan", "tanh",
})  # fmt: skip
"""Elementwise operators that take longer than to load what they give."""
_ELEMENTWISE = frozenset(name for name, op in OPCODES.items() if op.elementwise and not op.has_effect) - _COMPUTED
_ALLOWED = _VIEWS | _COMPUTED | _ELEMENTWISE | {"bitcast-convert", "constant", "iota"}
_OF_ARRAYS = frozenset({"cholesky", "convolution", "dot", "fft", "sort", "topk", "triangular-solve"})
"""What reads its operands as arrays: those are written in each iteration, unless they are before."""
_FORWARDING = frozenset({"bitcast", "reshape"})
_MANY_OPERATORS = 4
"""Elementwise operators in a row that take longer than to load what they give."""
_MANY_ARRAYS = 8
"""Arrays of which one result is more easily read than they are."""


@register
class WhileLoopInvariantCodeMotion(Pass):
    """Computes before a loop what its body computes in each iteration out of state that it passes on unchanged.

    Not what is as quickly computed again as loaded: few elementwise operators on one array, unless a product or the
    like has them written, broadcasts, slices.
    A loop that never runs takes longer by one iteration's worth; nothing with effects moves, so nothing else changes.
    """

    name = "while-loop-invariant-code-motion"
    opcodes = ("while",)

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        effects, callers = Effects(), module.callers()
        editable = set(editable_computations(module))
        changed = False
        for computation in callees_first([module.entry]):  # what leaves a loop may leave the one around it
            if computation in editable:
                for loop in [i for i in computation if i.opcode == "while"]:
                    if all(len(callers[c]) == 1 for c in (loop["condition"], loop["body"])):
                        changed |= _move_out(loop, effects)
        return changed


@dataclass(frozen=True)
class _Reads:
    """What a loop reads to have a value that does not change: bytes of each array, and operators that follow."""

    arrays: dict[Instruction, int]
    operators: int = 0

    @property
    def bytes(self) -> int:
        return sum(self.arrays.values())


def _move_out(loop: Instruction, effects: Effects) -> bool:
    body = loop["body"]
    (state,), root = body.parameters, body.root
    wholes = (loop, root, state, *loop["condition"].parameters)
    if root.opcode != "tuple" or any(w.sharding is not None for w in wholes) or root.users:
        return False
    if not all(is_element(user, s) for s in (state, *loop["condition"].parameters) for user in s.users):
        return False
    reads = _invariants(state, root, effects)
    if not reads:
        return False
    moving = dict.fromkeys(
        array
        for i, found in reads.items()
        if any(user not in reads for user in i.users)
        for array in found.arrays
        if not is_element(array, state)
    )
    if moving:
        _widen(loop, list(moving))
        remove_dead(body, effects)
    return bool(moving)


def _invariants(state: Instruction, root: Instruction, effects: Effects) -> dict[Instruction, _Reads]:
    """Of each instruction that gives the same in each iteration, what is to be read for it."""
    assert root.parent is not None
    # s(n)[k] == s(0)[k] for all n where f(s)[k] is s[k]; what depends on such elements alone is the same for all n
    reads: dict[Instruction, _Reads] = {}
    for i in root.parent.post_order():
        if is_element(i, state) and i.shape.is_array and is_element(root.operands[i["index"]], state):
            if root.operands[i["index"]]["index"] == i["index"]:
                reads[i] = _Reads({i: i.shape.nbytes})
        elif (
            i.opcode in _ALLOWED
            and all(o in reads for o in i.operands)
            and not (i.has_control_dependencies or effects.of(i))
        ):
            reads[i] = _reads_of(i, [reads[o] for o in i.operands])
    return reads


def _reads_of(i: Instruction, operands: Iterable[_Reads]) -> _Reads:
    """The least that must be read for `i`: itself, computed before, or what its operands are computed of."""
    if i.opcode == "constant" or not i.shape.is_array:
        return _Reads({})
    own = _Reads({i: i.shape.nbytes})
    if i.opcode in _COMPUTED or i.opcode in _LONG or _is_strided(i) or _is_laid_out(i) or _is_table(i):
        return own
    arrays: dict[Instruction, int] = {}
    for found in operands:
        for array, size in found.arrays.items():
            arrays[array] = min(array.shape.nbytes, arrays.get(array, 0) + size)
    count = max((found.operators for found in operands), default=0)
    if i.opcode in _VIEWS:
        return _Reads({a: min(size, i.shape.nbytes) for a, size in arrays.items()}, count)
    again = _Reads(arrays, count + 1)
    if i.shape.size == 1 and arrays:
        return again
    if again.bytes == i.shape.nbytes and _is_read_as_array(i):
        return own
    return own if again.bytes > i.shape.nbytes or count >= _MANY_OPERATORS or len(arrays) > _MANY_ARRAYS else again


def _is_read_as_array(i: Instruction) -> bool:
    return any(u.opcode in _OF_ARRAYS or (u.opcode in _FORWARDING and _is_read_as_array(u)) for u in i.users)


def _is_strided(i: Instruction) -> bool:
    """True of slices whose elements lie apart."""
    if i.opcode not in ("slice", "dynamic-slice") or i.shape.size == 1:
        return False
    x = i.operands[0].shape
    minor = next((d for d in reversed(x.major_to_minor) if x.dims[d] > 1), None)
    return minor is not None and i.shape.dims[minor] == 1


def _is_laid_out(i: Instruction) -> bool:
    """True of copies to another layout."""
    return i.opcode == "copy" and i.shape.major_to_minor != i.operands[0].shape.major_to_minor


def _is_table(i: Instruction) -> bool:
    """True of what elements are gathered from, and so computed again for many readers."""
    return any(u.opcode == "gather" and u.operands[0] is i for u in i.users)


def _widen(loop: Instruction, values: list[Instruction]) -> None:
    """Makes `values` of the body state: computed before the loop, and passed on unchanged."""
    # t(0) == g(x) for a value g(s(n)) == g(x) of each iteration n, and f(s, t) passes t on: t(n) == g(s(n)) for all n
    host, body = loop.parent, loop["body"]
    assert host is not None
    (state,), root = body.parameters, body.root
    first, width = loop.operands[0], len(loop.shape.elements)
    parts = list(first.operands) if first.opcode == "tuple" else [element_of(first, k) for k in range(width)]
    needed = _needed(values, state)
    before: dict[Instruction, Instruction] = {}
    for i in body.post_order():
        if i in needed:
            own = is_element(i, state)
            before[i] = parts[i["index"]] if own else host.add(i.clone([before[o] for o in i.operands]))
    shape = tuple_shape([*loop.shape.elements, *(v.shape for v in values)])
    _read_by_elements(loop)
    for w in (loop, state, root, *loop["condition"].parameters):
        w.shape = shape
        w.attrs.pop("origin", None)  # it is a tree of the old shape
    new = host.add(Instruction("tuple", "tuple", shape, [*parts, *(before[v] for v in values)]))
    new.metadata = first.metadata
    loop.set_operands([new])
    if first.is_dead:
        host.remove(first)
    passed = []
    for k, value in enumerate(values, width):
        element = element_of(state, k)
        value.replace_all_uses_with(element)
        passed.append(element)
    root.set_operands([*root.operands, *passed])


def _needed(values: list[Instruction], state: Instruction) -> set[Instruction]:
    """What `values` are computed of, and they."""
    needed, stack = set(values), list(values)
    while stack:
        i = stack.pop()
        if not is_element(i, state):
            stack.extend(o for o in i.operands if o not in needed)
            needed.update(i.operands)
    return needed


def _read_by_elements(loop: Instruction) -> None:
    """Puts a tuple of its elements wherever the loop's state is used as a whole, or is a computation's result."""
    if not loop.is_root and all(is_element(u, loop) for u in loop.users):
        return
    assert loop.parent is not None
    elements = [element_of(loop, k) for k in range(len(loop.shape.elements))]
    users = [u for u in loop.users if not is_element(u, loop)]
    whole = loop.parent.add(Instruction("tuple", "tuple", loop.shape, elements))
    for user in users:
        user.set_operands([whole if o is loop else o for o in user.operands])
    if loop.is_root:
        loop.parent.root = whole
