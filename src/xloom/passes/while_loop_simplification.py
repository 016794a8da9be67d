"""While loops: those that run never or once, state that never changes, and state that is not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import tuple_shape
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.call_expansion import expand_from_outside, is_deep
from xloom.passes.computation_inlining import inline
from xloom.passes.dce import remove_dead, remove_keeping_order
from xloom.passes.effects import Effects
from xloom.passes.loops import element_of, initial, is_element, known_trip_count, needs
from xloom.passes.rewrite import editable_computations

_SINK_ELEMENTS = 1024


@register
class WhileLoopSimplification(Pass):
    """Removes loops that run never, unrolls those that run once, and shrinks the state of the others.

    A state element that the body passes on unchanged is its initial value, in the loop (if that is a small constant)
    and after it; it is a number where that is one in all places. An element that neither the condition, nor the
    result, nor another living element needs goes.
    """

    name = "while-loop-simplification"
    opcodes = ("while",)

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        work = _Loops(module)
        changed = False
        if is_deep(module.entry, ("while",)):
            changed = expand_from_outside(module.entry, work.unrolled, set(editable_computations(module)))
        for computation in editable_computations(module):
            if computation.module is None:  # it went with its last caller
                continue
            for instruction in instructions_of(computation, ("while",)):
                if instruction.parent is computation:
                    changed |= work.simplify(instruction)
        return changed


class _Loops:
    def __init__(self, module: Module):
        self.module = module
        self.effects = Effects()
        self.calls = {callee: len(callers) for callee, callers in module.callers().items()}

    def simplify(self, loop: Instruction) -> bool:
        if loop.has_control_dependencies:
            return False
        if not self.effects.of_computation(loop["condition"]):
            count = known_trip_count(loop, 1)
            # while(c, f, x) == x; when c(x) is false: no iteration
            if count == 0 and loop.operands[0].shape == loop.shape and _same_sharding(loop, loop.operands[0]):
                first = loop.operands[0]
                loop.replace_all_uses_with(first)
                self._release(loop)
                remove_keeping_order(loop)
                _take_apart(first)
                return True
            # while(c, f, x) == f(x); when c(x) is true and c(f(x)) is false: one iteration
            if count == 1:
                self._unroll(loop)
                return True
        if loop.operands[0].shape != loop.shape or loop["body"].root.opcode != "tuple":
            return False
        # Below, s(n) is the state before iteration n: s(0) == x, s(n + 1) == f(s(n)), and the loop is s(N) for the
        # first N with c(s(N)) false. What holds of s(0), and of f(s) where it holds of s, holds in and after the loop.
        changed = self._forward_invariants(loop)
        changed |= remove_dead(loop["condition"], self.effects) | remove_dead(loop["body"], self.effects)
        changed |= self._drop_dead_elements(loop)
        return self._narrow(loop) or changed

    def unrolled(self, loop: Instruction) -> list[Instruction] | None:
        """What a loop that runs once leaves behind; None of others, which stay."""
        if loop.opcode != "while" or loop.has_control_dependencies:
            return None
        if self.effects.of_computation(loop["condition"]) or known_trip_count(loop, 1) != 1:
            return None
        return self._unroll(loop)

    def _unroll(self, loop: Instruction) -> list[Instruction]:
        """Puts a loop's body in the place of its only iteration; returns the copies."""
        body, condition = loop["body"], loop["condition"]
        first, inlined = loop.operands[0], inline(loop, body)
        self._count(inlined.copies)
        self._release_computation(condition)
        self._release_computation(body)
        _take_apart(inlined.value)
        _take_apart(first)
        return inlined.copies

    # -- who calls what

    def _count(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            for callee in instruction.called_computations:
                self.calls[callee] = self.calls.get(callee, 0) + 1

    def _release(self, caller: Instruction) -> None:
        for callee in caller.called_computations:
            self._release_computation(callee)

    def _release_computation(self, computation: Computation) -> None:
        """Notes that one caller is gone; the last one takes the computation along."""
        self.calls[computation] -= 1
        if not self.calls[computation]:
            for instruction in computation:
                self._release(instruction)
            self.module.remove(computation)

    def _own(self, loop: Instruction, attribute: str) -> Computation:
        """The loop's condition or body, cloned first if it is called from elsewhere too."""
        computation = loop[attribute]
        if self.calls[computation] > 1:
            self.calls[computation] -= 1
            computation = computation.clone()
            self._count(computation)
            loop[attribute] = computation
            self.calls[computation] = 1
        return computation

    # -- invariants

    def _forward_invariants(self, loop: Instruction) -> bool:
        # f(s)[k] is s[k] itself, whatever else f hands s[k] on as: s(n)[k] == x[k] for all n, by induction
        (state,) = loop["body"].parameters
        invariant = [k for k, x in enumerate(loop["body"].root.operands) if is_element(x, state) and x["index"] == k]
        changed = False
        for k in invariant:
            first = initial(loop, k)
            if first is None:
                continue
            # after the loop: while(c, f, x)[k] == s(N)[k] == x[k]
            for user in loop.users:
                if is_element(user, loop) and user["index"] == k and user.shape == first.shape:
                    if user.is_root or not _same_sharding(user, first):
                        continue
                    user.replace_all_uses_with(first)
                    remove_keeping_order(user)
                    changed = True
            # in the loop: s(n)[k] == x[k]; also where f(s) hands it on as another element
            is_small = first.opcode == "constant" and first.shape.is_array and first.shape.size <= _SINK_ELEMENTS
            if is_small or first.opcode == "iota":
                for attribute in ("condition", "body"):
                    reads = _reads(loop[attribute], k)
                    # an index costs nothing in a loop over elements, and less than to load it
                    if reads and (is_small or all(user.op.elementwise for user, _ in reads)):
                        _sink(self._own(loop, attribute), k, first)
                        changed = True
        return changed

    def _narrow(self, loop: Instruction) -> bool:
        """Makes the number itself state, of state that is one number in all places and never changes."""
        # x[k] == broadcast(p), and f(s)[k] is s[k]: with t[k] == p for s[k], s(n)[k] == broadcast(t(n)[k]) for all n.
        # Every use of s[k] but f(s)[k] gets that broadcast, so all other elements are what they were.
        numbers = self._numbers(loop)
        if not numbers:
            return False
        computations = self._own(loop, "condition"), self._own(loop, "body")
        first = loop.operands[0]
        parts = [p.operands[0] if k in numbers else p for k, p in enumerate(first.operands)]
        for computation in computations:
            (state,) = computation.parameters
            for k in numbers:
                reads = _reads(computation, k)
                for element in state.users:
                    if element["index"] == k:
                        element.shape = parts[k].shape
                for user, number in reads:
                    element = user.operands[number]
                    wide = Instruction("broadcast", "broadcast", first.operands[k].shape, [element], {"dimensions": ()})
                    user.replace_operand(number, computation.add(wide))
        _begin_with(loop, parts)
        if first.is_dead:
            remove_keeping_order(first)
        return True

    def _numbers(self, loop: Instruction) -> list[int]:
        """The state elements that only elementwise operators read, and that `_narrow` can make numbers.

        Not those that the body hands on as another element, for that stays an array.
        """
        condition, body, root = loop["condition"], loop["body"], loop["body"].root
        wholes = (loop, *condition.parameters, *body.parameters)
        if loop.is_root or root.users or any(w.sharding is not None for w in (*wholes, root)):
            return []
        if loop.operands[0].opcode != "tuple" or not all(is_element(u, w) for w in wholes for u in w.users):
            return []
        (state,) = body.parameters
        taken = {u["index"] for u in loop.users}
        found = []
        for k, (x, last) in enumerate(zip(loop.operands[0].operands, root.operands, strict=True)):
            single = x.opcode == "broadcast" and x.operands[0].shape.rank == 0 and x.shape.size > 1 and k not in taken
            if single and is_element(last, state) and last["index"] == k:
                readers = [user for c in (condition, body) for user, _ in _reads(c, k)]
                if all(r.op.elementwise for r in readers):
                    found.append(k)
        return found

    # -- dead elements

    def _drop_dead_elements(self, loop: Instruction) -> bool:
        unread = [u for u in loop.users if u.is_dead and is_element(u, loop)]
        for element in unread:
            remove_keeping_order(element)
        living = self._living(loop)
        width = len(loop.shape.elements)
        if living is None or len(living) == width or not living:
            return bool(unread)
        # For a k in `living`, f(s)[k] depends on s[j] for j in `living` only; so do c(s) and the effects of both.
        # By induction s(n)[k] is what it was without the others, and so are N, the effects, and all that is read.
        condition, body = self._own(loop, "condition"), self._own(loop, "body")
        kept = sorted(living)
        first, root = loop.operands[0], body.root
        parts = first.operands if first.opcode == "tuple" else [element_of(first, k) for k in range(width)]
        root.set_operands([root.operands[k] for k in kept])
        remove_dead(body, self.effects)
        for state in (loop, *condition.parameters, *body.parameters):
            _renumber(state, kept)
        _begin_with(loop, [parts[k] for k in kept])
        for unused in dict.fromkeys((first, *(p for p in parts if p.opcode == "get-tuple-element"))):
            if unused.is_dead and unused.opcode in ("tuple", "get-tuple-element"):
                remove_keeping_order(unused)
        return True

    def _living(self, loop: Instruction) -> set[int] | None:
        """The state elements that something depends on; None when the state is used as a whole, so all are."""
        condition, body = loop["condition"], loop["body"]
        if loop.is_root or not loop.users or not all(is_element(u, loop) for u in loop.users):
            return None
        shardings = (loop, body.root, *body.parameters, *condition.parameters)
        if any(i.sharding is not None for i in shardings) or body.root.users:
            return None
        (state,) = body.parameters
        test = needs(condition, [condition.root, *(i for i in condition if self.effects.of(i))])
        acting = needs(body, [i for i in body if self.effects.of(i)])
        if test is None or acting is None or any(not is_element(u, state) for u in state.users):
            return None
        living = {u["index"] for u in loop.users} | test.elements | acting.elements
        waiting = list(living)
        seen: set[Instruction] = set()
        while waiting:
            stack = [body.root.operands[waiting.pop()]]
            while stack:
                instruction = stack.pop()
                if instruction in seen:
                    continue
                seen.add(instruction)
                if not is_element(instruction, state):
                    stack.extend(instruction.operands)
                    stack.extend(instruction.control_predecessors)
                elif instruction["index"] not in living:
                    living.add(instruction["index"])
                    waiting.append(instruction["index"])
        return living


def _begin_with(loop: Instruction, parts: Sequence[Instruction]) -> None:
    """Makes `parts` the loop's first state, and their shapes that of every state."""
    host, condition, body = loop.parent, loop["condition"], loop["body"]
    assert host is not None
    shape = tuple_shape([p.shape for p in parts])
    new = host.add(Instruction("tuple", "tuple", shape, parts))
    new.metadata = loop.operands[0].metadata
    loop.set_operands([new])
    for state in (loop, body.root, *condition.parameters, *body.parameters):
        state.shape = shape
        state.attrs.pop("origin", None)  # it is a tree of the old shape


def _take_apart(whole: Instruction) -> None:
    """Reads the parts of a tuple themselves, so that nothing keeps those that are not read."""
    stack = [whole]
    while stack:
        whole = stack.pop()
        gone = whole.parent is None  # it was read in several places
        if gone or whole.opcode != "tuple" or whole.has_control_dependencies:
            continue
        # get-tuple-element(tuple(x0, x1, ...), k) == xk
        for user in whole.users:
            part = whole.operands[user["index"]] if is_element(user, whole) else None
            if part is not None and user.shape == part.shape and _same_sharding(user, part):
                user.replace_all_uses_with(part)
                remove_keeping_order(user)
                stack.append(part)
        if whole.is_dead:
            remove_keeping_order(whole)


def _same_sharding(old: Instruction, new: Instruction) -> bool:
    return old.sharding is None or old.sharding == new.sharding


def _reads(computation: Computation, index: int) -> list[tuple[Instruction, int]]:
    """Where a condition or body reads state element `index`: users and operand numbers.

    Passing it on as itself is no reading, but passing it on as another element is.
    """
    (state,) = computation.parameters
    result = computation.root if computation.root.opcode == "tuple" else None
    return [
        (user, k)
        for element in state.users
        if is_element(element, state) and element["index"] == index
        for user in element.users
        for k, operand in enumerate(user.operands)
        if operand is element and not (user is result and k == index)
    ]


def _sink(computation: Computation, index: int, first: Instruction) -> None:
    """Puts a copy of constant `first` where `computation` reads element `index`."""
    constant = computation.add(first.clone(()))
    for user, k in _reads(computation, index):
        user.replace_operand(k, constant)


def _renumber(state: Instruction, kept: list[int]) -> None:
    place = {old: new for new, old in enumerate(kept)}
    for user in state.users:
        user["index"] = place[user["index"]]
