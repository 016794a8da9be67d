"""Writing the plugin's native functions: LLVM IR by llvmlite, with structures whose fields have names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from xloom.llvm.struct_layout import StructLayout
from xloom.llvm.types import I8, I32, I64, POINTER, VOID
from xloom.pjrt.capi.ctypes_structs import least_size, struct
from xloom.pjrt.capi.native_structs import PREFIX

NULL = ir.Constant(POINTER, None)
REFUSED = 1
"""What an attempt returns that leaves it to Python: the address of nothing."""
IN_PYTHON = "_in_python"
"""What the name of an entry's function in Python ends with, if it has a native one."""
_FIELD = {1: I8, 4: I32, 8: I64}


class NativeModule:
    """Functions of one LLVM module; those of other modules are declared when they are first used."""

    def __init__(self) -> None:
        self._module = ir.Module()

    def __str__(self) -> str:
        return str(self._module)

    @contextmanager
    def function(self, name: str, kinds: str) -> Iterator[Builder]:
        """Defines a function, whose body is what is emitted in the `with`.

        `kinds` has a letter for the result and each argument: p(ointer), q (64 bits), v(oid)."""
        function = self.declared(f"{PREFIX}{name}", kinds)
        yield Builder(self, function)

    @contextmanager
    def entry(self, name: str) -> Iterator[Entry]:
        """Defines an entry of PJRT's tables; where its body ends or `Entry.python` says so, Python does it."""
        function = self.declared(f"{PREFIX}{name}", "pp")
        yield Entry(self, function, name)

    @contextmanager
    def attempt(self, name: str, entry: str) -> Iterator[Attempt]:
        """Defines a function that does what an entry does, or returns REFUSED."""
        function = self.declared(f"{PREFIX}{name}", "pp")
        yield Attempt(self, function, entry)

    def declared(self, symbol: str, kinds: str) -> ir.Function:
        """A function, which may be defined elsewhere."""
        if symbol not in self._module.globals:
            result, *arguments = (_KINDS[kind] for kind in kinds)
            ir.Function(self._module, ir.FunctionType(result, arguments), symbol)
        return self._module.globals[symbol]

    def word(self, name: str, count: int = 1, *, is_own: bool = False) -> ir.Value:
        """The address of words of the plugin's, which one of the modules owns."""
        symbol = f"{PREFIX}{name}"
        if symbol not in self._module.globals:
            ir.GlobalVariable(self._module, ir.ArrayType(I64, count), symbol).type = POINTER
        if is_own:
            self._module.globals[symbol].initializer = ir.Constant(ir.ArrayType(I64, count), None)
        return self._module.globals[symbol]


_KINDS = {"p": POINTER, "q": I64, "i": I32, "v": VOID}


class Builder(ir.IRBuilder):
    """Writes one native function."""

    def __init__(self, native: NativeModule, function: ir.Function):
        super().__init__(function.append_basic_block("entry"))
        self.native = native
        self.arguments: Sequence[Any] = function.args

    def variable(self, kind: ir.Type) -> ir.Value:
        """Memory for a value that changes, which LLVM turns into registers."""
        with self.goto_entry_block():
            made = self.alloca(kind)
        made.type = POINTER
        return made

    def pointer_at(self, base: ir.Value, offset: int | ir.Value) -> ir.Value:
        """The pointer `offset` bytes behind another."""
        return self.gep(base, [I64(offset) if isinstance(offset, int) else offset], inbounds=True, source_etype=I8)

    def get(self, layout: StructLayout, base: ir.Value, name: str, kind: ir.Type = I64) -> ir.Value:
        """A field of a structure."""
        return self.load(self.pointer_at(base, layout.offset(name)), typ=kind)

    def set(self, layout: StructLayout, base: ir.Value, **values: ir.Value | int) -> None:
        """Writes fields of a structure."""
        for name, value in values.items():
            self.store(I64(value) if isinstance(value, int) else value, self.pointer_at(base, layout.offset(name)))

    def get_now(self, layout: StructLayout, base: ir.Value, name: str) -> ir.Value:
        """A field that other threads may be writing."""
        return self.load_atomic(self.pointer_at(base, layout.offset(name)), "acquire", 8, typ=I64)

    def item(self, table: ir.Value, number: ir.Value, layout: StructLayout | None = None) -> ir.Value:
        """The address of an element of an array of structures, or of words of eight bytes."""
        return self.pointer_at(table, self.mul(number, I64(layout.size if layout else 8)))

    def has(self, value: ir.Value, flags: int) -> ir.Value:
        """Whether one of the flags is set."""
        return self.icmp_unsigned("!=", self.and_(value, I64(flags)), I64(0))

    def is_zero(self, value: ir.Value) -> ir.Value:
        """Whether an integer is 0, or a pointer NULL (i1)."""
        return self.icmp_unsigned("==", value, ir.Constant(value.type, None if value.type == POINTER else 0))

    def add_to(self, pointer: ir.Value, value: int) -> ir.Value:
        """Adds to a word that other threads change too; what it was before."""
        return self.atomic_rmw("add", pointer, I64(value), "seq_cst")

    def do(self, name: str, kinds: str, *arguments: ir.Value) -> ir.Value:
        """Calls a function of the plugin's."""
        return self.call(self.native.declared(f"{PREFIX}{name}", kinds), arguments)

    def do_c(self, symbol: str, kinds: str, *arguments: ir.Value) -> ir.Value:
        """Calls a function of the process's."""
        return self.call(self.native.declared(symbol, kinds), arguments)

    def do_at(self, function: ir.Value, kinds: str, *arguments: ir.Value) -> ir.Value:
        """Calls the function at an address."""
        result, *kinds_ = (_KINDS[kind] for kind in kinds)
        function.type = ir.FunctionType(result, kinds_).as_pointer()  # llvmlite must know what it calls
        return self.call(function, arguments)

    @contextmanager
    def chain(self, layout: StructLayout, first: ir.Value) -> Iterator[ir.Value]:
        """A loop over the structures of a chain, each of which may be freed in it."""
        left = self.variable(POINTER)
        self.store(first, left)
        look, body, done = (self.append_basic_block(name) for name in ("look", "body", "done"))
        self.branch(look)
        self.position_at_end(look)
        each = self.load(left, typ=POINTER)
        self.cbranch(self.is_zero(each), done, body)
        self.position_at_end(body)
        self.store(self.get(layout, each, "next", POINTER), left)
        yield each
        self.branch(look)
        self.position_at_end(done)

    def return_if(self, condition: ir.Value, value: ir.Value | None = None) -> None:
        """Returns `value` where the condition (i1) holds."""
        with self.if_then(condition):
            self.ret_void() if value is None else self.ret(value)


class Entry(Builder):
    """Writes an entry of PJRT's tables: a function of its arguments' structure."""

    def __init__(self, native: NativeModule, function: ir.Function, name: str):
        super().__init__(native, function)
        self._struct = struct(f"{name}_Args")
        self.name = name
        self.args = self.arguments[0]
        self.python_if(self.icmp_unsigned("<", self.arg("struct_size"), I64(least_size(f"{name}_Args"))))

    def arg(self, name: str) -> ir.Value:
        """A field of the arguments' structure: a pointer or an integer."""
        field = getattr(self._struct, name)
        kind = dict(self._struct._fields_)[name]
        is_pointer = kind.__name__ == "c_void_p"
        return self.load(self.pointer_at(self.args, field.offset), typ=POINTER if is_pointer else _FIELD[field.size])

    def answer(self, **values: ir.Value | int) -> None:
        """Writes results to fields of the arguments' structure."""
        for name, value in values.items():
            field = getattr(self._struct, name)
            field_value = _FIELD[field.size](value) if isinstance(value, int) else value
            self.store(field_value, self.pointer_at(self.args, field.offset))

    def done(self) -> None:
        """Returns NULL: no error."""
        self.ret(NULL)

    def in_python(self) -> ir.Value:
        """What Python does of it; the value is an error or NULL."""
        return self.do(f"{self.name}{IN_PYTHON}", "ppppp", self.args, NULL, NULL, NULL)

    def python(self) -> None:
        """Returns what the entry's function in Python does."""
        self.ret(self.in_python())

    def python_if(self, condition: ir.Value) -> None:
        """Leaves it to Python where the condition holds."""
        with self.if_then(condition, likely=False):
            self.python()


class Attempt(Entry):
    """Writes what an entry does without Python, which is not called."""

    def python(self) -> None:
        """Returns that it is left to Python."""
        self.ret(self.inttoptr(I64(REFUSED), POINTER))
