"""The LLVM IR of a kernel, rewritten so that the processor runs it: each thread is a coroutine of its own.

Thread numbers are read from a thread's context, address spaces go, shared memory is memory of the process, and a
barrier or an operation of a warp is where the coroutine is suspended until the scheduler resumes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import shorten

import llvmlite.binding as llvm

from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.thread_context import Access
from xloom.cuda.kernel import DYNAMIC_SHARED, DeviceKernel
from xloom.errors import LoweringError
from xloom.llvm.jit import target_header, target_machine
from xloom.llvm.target import Target

START, RESUME, DESTROY = "xloom_start", "xloom_resume", "xloom_destroy"
_NO_TARGET = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'
_REGISTERS = {"tid.x": at.THREAD, "ctaid.x": at.BLOCK, "ntid.x": at.THREADS, "nctaid.x": at.BLOCKS, "laneid": at.LANE}
_FIXED_REGISTERS = {"tid.y": 0, "tid.z": 0, "ctaid.y": 0, "ctaid.z": 0, "ntid.y": 1, "ntid.z": 1, "warpsize": 32}
_PRODUCTS = {
    "m16n8k16.row.col.bf16": "bf16",
    "m16n8k16.row.col.f32.f32": "f16",
    "m16n8k8.row.col.tf32": "tf32",
    "m16n8k32.row.col.s8": "s8",
    "m16n8k32.row.col.u8": "u8",
    "m8n8k4.row.col.f64": "f64",
}
"""The element types of products of tiles, by the ends of their names."""
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}

_CALL = re.compile(r"^  (?:(%\S+) = )?(?:tail |musttail |notail )?call (.*?)@(llvm\.nvvm\.[\w.]+)\((.*)\)[^)]*$")
_ASSEMBLY = re.compile(r'^  (?:(%\S+) = )?(?:tail )?call (.*?) asm sideeffect "(.*?)", ".*?"\((.*)\)[^)]*$')
_WARPGROUP = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.f32\.(\w+)\.\w+ \{.*?\}, \$(\d+), \$(\d+), "
    r"p, 1, 1(?:, (\d), (\d))?;"
)
_POINTER = r"ptr (getelementptr [^(]*\(.*?\)|[^\s,]+)"
_LOAD = re.compile(rf"^  (%\S+) = load (volatile )?(.+?), {_POINTER}, align \d+")
_STORE = re.compile(rf"^  store (volatile )?(.+?), {_POINTER}, align \d+")
_ATOMIC = re.compile(rf"^  (%\S+) = (atomicrmw|cmpxchg) (?:volatile )?(?:\w+ )?{_POINTER}, (.+)$")
_ALIGNMENT = re.compile(r", align (\d+)")
_FILL = re.compile(r"call void @llvm\.(memset|memcpy|memmove)[\w.]*\((.*)\)")
_CAST = re.compile(r"addrspacecast \(ptr (@\S+|getelementptr [^()]*\([^()]*\)) to ptr\)")
"""Constants in one another: the inner ones first."""
_SCOPE = re.compile(r' syncscope\("[a-z]+"\)')
_ORIGIN = re.compile(r"^  (%\S+) = (alloca|getelementptr|addrspacecast|select|phi) (.*)$")


@dataclass
class Coroutine:
    """A kernel as the processor runs it."""

    text: str
    sites: list[str] = field(default_factory=list)
    """The lines of LLVM IR at which something may go wrong, by their numbers."""
    shared: dict[str, int] = field(default_factory=dict)
    """The symbols of shared memory, and their bytes."""


def device_ir(kernel: DeviceKernel, target: Target, *, is_optimised: bool = True) -> str:
    """The LLVM IR of a kernel, as LLVM prints it: after the passes before PTX is made of it, or before them."""
    module = llvm.parse_assembly(kernel.text.replace(_NO_TARGET, target_header(target), 1))
    if is_optimised:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(target_machine(target), options)
        builder.getModulePassManager().run(module, builder)
    return str(module)


def coroutine_of(text: str, *, may_store_again: bool = False, dynamic_shared_bytes: int = 0) -> Coroutine:
    """The coroutine of a kernel's LLVM IR, with all accesses of memory checked.

    Where threads may store the same values again, what changes nothing is no write. Raises LoweringError for what the
    emulator has not.
    """
    return _Rewriting(text, may_store_again, dynamic_shared_bytes).run()


class _Rewriting:
    def __init__(self, text: str, may_store_again: bool, dynamic_shared_bytes: int):
        self._lines = text.splitlines()
        self._prologue = ""
        self._may_store_again = may_store_again
        self._dynamic_shared_bytes = dynamic_shared_bytes
        self._out: list[str] = []
        self._result = Coroutine("")
        self._names = 0
        self._own: set[str] = set()
        """Pointers to a thread's own memory, or to constants of the kernel."""
        self._label = ""
        self._last_label: dict[str, str] = {}
        """The label at which a block ends whose name is given, where suspensions have cut it."""

    def run(self) -> Coroutine:
        """All lines, each rewritten; then the labels that phi nodes name."""
        inside = False
        self._find_own()
        for line in self._lines:
            if line.startswith(("target ", "source_filename", "; ModuleID", "!nvvm")):
                continue
            line = re.sub(r" ?addrspace\(\d+\)", "", line)
            while (plain := _CAST.sub(r"\1", line)) != line:
                line = plain
            if line.startswith("define ptx_kernel"):
                inside = True
                self._define(line)
            elif inside and line == "}":
                inside = False
                self._end()
            elif inside:
                self._line(line)
            else:
                self._outside(line)
        body = "\n".join(self._phi(line) for line in self._out)
        self._result.text = f"{_NO_TARGET}\n{body}\n{_DECLARATIONS}"
        return self._result

    # -- around the kernel
    def _outside(self, line: str) -> None:
        shared = re.match(r"@(\S*shared\S*) = internal .*?global (.*) (?:undef|poison)", line)
        if shared:
            name, kind = shared.groups()
            self._result.shared[name] = _nbytes(kind)
            line = f"@{name} = global {kind} zeroinitializer, align 64"
        if line.startswith(f"@{DYNAMIC_SHARED} = "):
            kind = f"[{self._dynamic_shared_bytes} x i8]"
            self._result.shared[DYNAMIC_SHARED] = self._dynamic_shared_bytes
            line = f"@{DYNAMIC_SHARED} = global {kind} zeroinitializer, align 1024"
        if not re.match(r"declare .*@llvm\.nvvm\.", line):
            self._out.append(line)

    def _define(self, line: str) -> None:
        match = re.match(r"define ptx_kernel void @\S+?\((.*)\)[^)]*\{$", line)
        assert match is not None, line
        parameters = re.findall(r"(ptr|i64)[^,]*?(%[\w.]+)(?:,|$)", match[1])
        loads = [
            f"  %argument.{k} = getelementptr ptr, ptr %arguments, i64 {k}\n  {name} = load {kind}, ptr %argument.{k}"
            for k, (kind, name) in enumerate(parameters)
        ]
        self._out.append("define internal ptr @coroutine(ptr %context, ptr %arguments) presplitcoroutine {")
        copies = _BEGIN_COPIES if any(" @llvm.nvvm.cp.async." in other for other in self._lines) else ""
        self._prologue = "\n".join([_BEGIN, copies, *loads])

    def _end(self) -> None:
        self._out += [_END, "}", _WRAPPERS]

    # -- inside it
    def _line(self, line: str) -> None:
        label = re.match(r"^([\w.$-]+|\"[^\"]+\"):", line)
        if label:
            self._label = label[1]
            self._last_label[self._label] = self._label
            self._out.append(f"{self._label}:")
        elif line.strip() == "ret void":
            self._out += ["  call void @xloom_finish(ptr %context)", "  br label %coroutine.final"]
            return
        elif line.strip():
            self._instruction(re.sub(r"(, )?![\w.]+ !\d+", "", line))
        if self._prologue and label:
            self._out.append(self._prologue)
            self._prologue = ""

    def _instruction(self, line: str) -> None:
        if call := _CALL.match(line):
            self._intrinsic(line, *call.groups())
            return
        if assembly := _ASSEMBLY.match(line):
            self._assembly(line, *assembly.groups())
            return
        line = _SCOPE.sub("", line)
        line = re.sub(r"addrspacecast ptr (\S+) to ptr", r"getelementptr i8, ptr \1, i64 0", line)
        self._out.append(self._checked_access(line))

    def _find_own(self) -> None:
        """Finds all pointers that come of a thread's own memory, whatever loops they go through."""
        bases: dict[str, list[str]] = {}
        for line in self._lines:
            if origin := _ORIGIN.match(re.sub(r" ?addrspace\(\d+\)", "", line)):
                name, operation, rest = origin.groups()
                pattern = r"\[ (getelementptr [^(]*\(.*?\)|\S+?)," if operation == "phi" else rf"{_POINTER}(?:,|$| )"
                bases[name] = [] if operation == "alloca" else re.findall(pattern, rest) or ["unknown"]
        self._own = set(bases)
        while lost := {name for name in self._own if not all(map(self._is_own, bases[name]))}:
            self._own -= lost

    def _is_own(self, pointer: str) -> bool:
        return pointer in self._own or (pointer.startswith(("@", "getelementptr")) and "shared" not in pointer)

    def _checked_access(self, line: str) -> str:
        store = None
        if load := _LOAD.match(line):
            kind, pointer, access = load[3], load[4], Access.READ
        elif store := _STORE.match(line):
            kind, pointer, access = _leading_type(store[2]), store[3], Access.WRITE
        elif atomic := _ATOMIC.match(line):
            kind, pointer, access = _leading_type(atomic[4]), atomic[3], Access.ATOMIC
        elif fill := _FILL.search(line):
            return self._checked_fill(line, fill[1], fill[2])
        else:
            return line
        if self._is_own(pointer):
            return line
        value = "null"
        if store and self._may_store_again:
            access, value = Access.WRITE_AGAIN, "%coroutine.value"
            self._out.append(f"  store {store[2]}, ptr {value}")
        alignment = int(_ALIGNMENT.findall(line)[-1])
        safe = self._access(pointer, f"i64 {_nbytes(kind)}", access, line, alignment=alignment, value=value)
        return line.replace(f"ptr {pointer},", f"ptr {safe},")

    def _checked_fill(self, line: str, name: str, arguments: str) -> str:
        operands = [a.split()[-1] for a in arguments.split(", ")]
        size = f"i64 {operands[2]}"
        if not self._is_own(operands[0]):
            self._access(operands[0], size, Access.WRITE, line)
        if name != "memset" and not self._is_own(operands[1]):
            self._access(operands[1], size, Access.READ, line)
        return line

    def _access(
        self, pointer: str, size: str, access: Access, line: str, *, alignment: int = 1, value: str = "null"
    ) -> str:
        safe, how = self._name(), f"i32 {int(access)}, i32 {self._site(line)}, ptr {value}"
        operands = f"ptr %context, ptr {pointer}, {size}, i64 {alignment}, {how}"
        self._out.append(f"  {safe} = call ptr @xloom_access({operands})")
        return safe

    def _name(self) -> str:
        self._names += 1
        return f"%xloom.{self._names}"

    def _site(self, line: str) -> int:
        self._result.sites.append(shorten(line, 200))
        return len(self._result.sites) - 1

    # -- what is NVIDIA's own
    def _intrinsic(self, line: str, name: str | None, kind: str, function: str, arguments: str) -> None:
        short = function.removeprefix("llvm.nvvm.")
        operands = _split(arguments)
        for prefix, rewrite in _REWRITES.items():
            if short.startswith(prefix):
                rewrite(self, line, name or "", short.removeprefix(prefix), operands)
                return
        raise LoweringError(f"the emulator has no {function}", hint="add it to cuda/emulator/coroutines.py")

    def _special(self, line: str, name: str, register: str, operands: list[str]) -> None:
        if register in _FIXED_REGISTERS:
            self._out.append(f"  {name} = add i32 0, {_FIXED_REGISTERS[register]}")
            return
        place = self._name()
        self._out.append(f"  {place} = getelementptr i8, ptr %context, i64 {_REGISTERS[register]}")
        self._out.append(f"  {name} = load i32, ptr {place}")

    def _suspend(self) -> None:
        """Cuts the block in two."""
        state, rest = self._name(), self._name()
        self._out.append(f"  {state} = call i8 @llvm.coro.suspend(token none, i1 false)")
        targets = f"[i8 0, label {rest} i8 1, label %coroutine.cleanup]"
        self._out.append(f"  switch i8 {state}, label %coroutine.suspended {targets}")
        self._out.append(f"{rest[1:]}:")
        self._last_label[self._label] = rest[1:]

    def _barrier(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        self._out.append(f"  call void @xloom_wait(ptr %context, i32 {self._site(line)})")
        self._suspend()

    def _meet(self, line: str, mask: str, words: list[str]) -> None:
        """What a lane puts where others see it, before all lanes of the mask are there."""
        self._out.append(f"  call void @xloom_offer(ptr %context, i32 {self._site(line)}, {mask})")
        for number, value in enumerate(words):
            self._out.append(f"  call void @xloom_put(ptr %context, i32 {number}, {value})")
        self._suspend()

    def _shuffle(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        mode, kind = rest.split(".")
        mask, value, by, control = operands
        if kind == "f32":
            value = f"i32 {self._cast('bitcast', value, 'i32')}"
        self._meet(line, mask, [value])
        moved = self._name() if kind == "f32" else name
        self._out.append(f"  {moved} = call i32 @xloom_shuffle_{mode}(ptr %context, {by}, {control})")
        if kind == "f32":
            self._out.append(f"  {name} = bitcast i32 {moved} to float")

    def _ballot(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        mask, predicate = operands
        self._meet(line, mask, [f"i32 {self._cast('zext', predicate, 'i32')}"])
        self._out.append(f"  {name} = call i32 @xloom_ballot(ptr %context)")

    def _warp_barrier(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        self._meet(line, operands[0], [])
        self._out.append("  call void @xloom_turn(ptr %context)")

    def _product(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        kind = _PRODUCTS[rest]
        element, count = {"f64": ("double", 2), "s8": ("i32", 4), "u8": ("i32", 4)}.get(kind, ("float", 4))
        words = [word for o in operands[:-count] for word in self._words(o)]
        self._meet(line, "i32 -1", words)
        sums, made, result = ", ".join(operands[-count:]), self._name(), "undef"
        self._out.append(f"  {made} = call <{count} x {element}> @xloom_mma_{kind}(ptr %context, {sums})")
        for number in range(count):
            part, whole = self._name(), name if number == count - 1 else self._name()
            self._out.append(f"  {part} = extractelement <{count} x {element}> {made}, i64 {number}")
            kinds = f"{{ {', '.join([element] * count)} }}"
            self._out.append(f"  {whole} = insertvalue {kinds} {result}, {element} {part}, {number}")
            result = whole

    def _words(self, operand: str) -> list[str]:
        """A value of 32 or 64 bits as words."""
        if not operand.startswith("double"):
            return [operand if operand.startswith("i32") else f"i32 {self._cast('bitcast', operand, 'i32')}"]
        whole = f"i64 {self._cast('bitcast', operand, 'i64')}"
        high = self._name()
        self._out.append(f"  {high} = lshr {whole}, 32")
        return [f"i32 {self._cast('trunc', each, 'i32')}" for each in (whole, f"i64 {high}")]

    def _assembly(self, line: str, name: str | None, kind: str, code: str, arguments: str) -> None:
        """What is written in PTX."""
        if code.startswith("fence.proxy.async"):
            self._out.append("  call void @xloom_show(ptr %context)")
            return
        products = list(_WARPGROUP.finditer(code))
        if not products:
            raise LoweringError(f"the emulator has no {code}", hint="add it to cuda/emulator/coroutines.py")
        operands, count = _split(arguments), kind.count("float")
        descriptors = operands[: len(operands) - count]
        for number, value in enumerate(operands[len(descriptors) :]):
            self._out.append(f"  store {value}, ptr {self._sum(number)}")
        self._meet(line, "i32 -1", [])
        self._out.append("  call void @xloom_turn(ptr %context)")
        for product in products:
            columns, dtype, left, right, left_turned, right_turned = product.groups()
            places = ", ".join(descriptors[int(number) - count] for number in (left, right))
            turned = f"i32 {left_turned or 0}, i32 {right_turned or 0}"
            given = f"ptr {_SUMS}, {places}, i32 {columns}, {turned}, i32 {self._site(line)}"
            self._out.append(f"  call void @xloom_wgmma_{dtype}(ptr %context, {given})")
        result = "poison"
        for number in range(count):
            value, part = self._name(), name if number == count - 1 else self._name()
            self._out.append(f"  {value} = load float, ptr {self._sum(number)}")
            self._out.append(f"  {part} = insertvalue {kind} {result}, float {value}, {number}")
            result = part

    def _sum(self, number: int) -> str:
        """Where one of the sums of a warpgroup's product is."""
        place = self._name()
        self._out.append(f"  {place} = getelementptr float, ptr {_SUMS}, i64 {number}")
        return place

    def _copy(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        if rest == "commit.group":
            self._out.append(f"  call void @xloom_copy_commit(ptr {_COPIES})")
            return
        if rest.startswith("wait"):
            if rest == "wait.all":
                self._out.append(f"  call void @xloom_copy_commit(ptr {_COPIES})")
            newest = operands[0] if operands else "i32 0"
            self._out.append(f"  call void @xloom_copy_wait(ptr %context, ptr {_COPIES}, {newest})")
            return
        nbytes = int(rest.removesuffix(".s").rpartition(".")[2])
        read = operands[2] if rest.endswith(".s") else f"i32 {nbytes}"
        of_copy = f"{operands[0]}, {operands[1]}, i32 {nbytes}, {read}, i32 {self._site(line)}"
        self._out.append(f"  call void @xloom_copy_begin(ptr %context, ptr {_COPIES}, {of_copy})")

    def _rows_of_matrices(self, line: str, name: str, rest: str, operands: list[str]) -> None:
        """Four matrices; each lane reads the row that it names."""
        safe = self._access(operands[0].removeprefix("ptr "), "i64 16", Access.READ, line, alignment=16)
        words = []
        for number in range(4):
            place, value = self._name(), self._name()
            self._out.append(f"  {place} = getelementptr i32, ptr {safe}, i64 {number}")
            self._out.append(f"  {value} = load i32, ptr {place}")
            words.append(f"i32 {value}")
        self._meet(line, "i32 -1", words)
        kind = "trans" if rest.startswith("trans.") else "plain"
        self._out.append(f"  {name} = call {{ i32, i32, i32, i32 }} @xloom_ldmatrix_{kind}(ptr %context)")

    def _cast(self, operation: str, operand: str, kind: str) -> str:
        name = self._name()
        self._out.append(f"  {name} = {operation} {operand} to {kind}")
        return name

    def _phi(self, line: str) -> str:
        if " = phi " not in line:
            return line
        return re.sub(r", %([\w.$-]+|\"[^\"]+\") \]", lambda m: f", %{self._last_label.get(m[1], m[1])} ]", line)


_Rewrite = Callable[[_Rewriting, str, str, str, list[str]], None]
_REWRITES: dict[str, _Rewrite] = {
    "read.ptx.sreg.": _Rewriting._special,
    "barrier.cta.sync.aligned.all": _Rewriting._barrier,
    "barrier0": _Rewriting._barrier,
    "shfl.sync.": _Rewriting._shuffle,
    "vote.ballot.sync": _Rewriting._ballot,
    "bar.warp.sync": _Rewriting._warp_barrier,
    "mma.": _Rewriting._product,
    "cp.async.": _Rewriting._copy,
    "ldmatrix.sync.aligned.m8n8.x4.": _Rewriting._rows_of_matrices,
}
"""By the beginning of an intrinsic's name."""


def _split(arguments: str) -> list[str]:
    """Operands, each with its type and without attributes."""
    return [_plain(operand) for operand in re.split(r", (?![^<({]*[>)}])", arguments) if operand]


def _plain(operand: str) -> str:
    if "(" in operand:
        return f"ptr {operand[operand.index('getelementptr') :]}"
    words = operand.split()
    return operand if operand.startswith("<") else f"{words[0]} {words[-1]}"


def _leading_type(text: str) -> str:
    """The type that an operand begins with."""
    return text[: text.index(">") + 1] if text.startswith("<") else text.split()[0]


def _nbytes(kind: str) -> int:
    vector = re.match(r"<(\d+) x (.+)>", kind)
    if vector:
        return int(vector[1]) * _nbytes(vector[2])
    array = re.match(r"\[(\d+) x (.+)\]", kind)
    if array:
        return int(array[1]) * _nbytes(array[2])
    return _BYTES[kind] if kind in _BYTES else -(-int(kind[1:]) // 8)


_BEGIN = """  %coroutine.value = alloca [512 x i8], align 64
  %coroutine.id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)
  %coroutine.size = call i64 @llvm.coro.size.i64()
  %coroutine.more = add i64 %coroutine.size, 63
  %coroutine.whole = and i64 %coroutine.more, -64
  %coroutine.memory = call ptr @aligned_alloc(i64 64, i64 %coroutine.whole)
  %coroutine.handle = call ptr @llvm.coro.begin(token %coroutine.id, ptr %coroutine.memory)"""
_COPIES = "%coroutine.copies"
_SUMS = "%coroutine.value"
"""Room for 128 sums, too."""
_BEGIN_COPIES = f"""  {_COPIES} = alloca [{at.COPY_ENTRIES + at.MOST_COPIES * at.COPY_BYTES} x i8], align 8
  store i64 0, ptr {_COPIES}"""
_END = """coroutine.final:
  %coroutine.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %coroutine.last, label %coroutine.suspended [i8 0, label %coroutine.never i8 1, label %coroutine.cleanup]
coroutine.never:
  unreachable
coroutine.cleanup:
  %coroutine.freed = call ptr @llvm.coro.free(token %coroutine.id, ptr %coroutine.handle)
  call void @free(ptr %coroutine.freed)
  br label %coroutine.suspended
coroutine.suspended:
  call void @llvm.coro.end(ptr %coroutine.handle, i1 false, token none)
  ret ptr %coroutine.handle"""
_WRAPPERS = f"""define ptr @{START}(ptr %context, ptr %arguments) {{
  %handle = call ptr @coroutine(ptr %context, ptr %arguments)
  ret ptr %handle
}}
define void @{RESUME}(ptr %handle) {{
  call void @llvm.coro.resume(ptr %handle)
  ret void
}}
define void @{DESTROY}(ptr %handle) {{
  call void @llvm.coro.destroy(ptr %handle)
  ret void
}}"""
_DECLARATIONS = """declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare ptr @xloom_access(ptr, ptr, i64, i64, i32, i32, ptr)
declare void @xloom_wait(ptr, i32)
declare void @xloom_offer(ptr, i32, i32)
declare void @xloom_put(ptr, i32, i32)
declare void @xloom_finish(ptr)
declare void @xloom_turn(ptr)
declare i32 @xloom_ballot(ptr)
declare i32 @xloom_shuffle_up(ptr, i32, i32)
declare i32 @xloom_shuffle_down(ptr, i32, i32)
declare i32 @xloom_shuffle_bfly(ptr, i32, i32)
declare i32 @xloom_shuffle_idx(ptr, i32, i32)
declare void @xloom_show(ptr)
declare void @xloom_wgmma_bf16(ptr, ptr, i64, i64, i32, i32, i32, i32)
declare void @xloom_wgmma_f16(ptr, ptr, i64, i64, i32, i32, i32, i32)
declare void @xloom_wgmma_tf32(ptr, ptr, i64, i64, i32, i32, i32, i32)
declare { i32, i32, i32, i32 } @xloom_ldmatrix_plain(ptr)
declare { i32, i32, i32, i32 } @xloom_ldmatrix_trans(ptr)
declare void @xloom_copy_begin(ptr, ptr, ptr, ptr, i32, i32, i32)
declare void @xloom_copy_commit(ptr)
declare void @xloom_copy_wait(ptr, ptr, i32)
declare <4 x float> @xloom_mma_bf16(ptr, float, float, float, float)
declare <4 x float> @xloom_mma_f16(ptr, float, float, float, float)
declare <4 x float> @xloom_mma_tf32(ptr, float, float, float, float)
declare <4 x i32> @xloom_mma_s8(ptr, i32, i32, i32, i32)
declare <4 x i32> @xloom_mma_u8(ptr, i32, i32, i32, i32)
declare <2 x double> @xloom_mma_f64(ptr, double, double)
"""
