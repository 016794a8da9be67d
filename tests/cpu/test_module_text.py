"""The text of modules is llvmlite's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from llvmlite import ir

import xloom as xl
from xloom.cpu.entry import function as entry_function
from xloom.cpu.kernel_modules import batched_modules, copies, deduplication
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.module_text import global_text, module_text
from xloom.llvm.target import process_target
from xloom.llvm.types import FLOAT, I1, I8, I32, I64, POINTER

PROGRAMS = {
    "elements": lambda x: jnp.where(x > 0, jnp.tanh(x), jnp.exp(x)) + jnp.arange(48.0),
    "columns": lambda x: x.sum(0) * 2,
    "product": lambda x: x @ x.T,
    "sort": lambda x: jnp.sort(x, 1),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 2 + i, x),
    "scatter": lambda x: x.at[jnp.array([1, 3])].add(1),
    "convolution": lambda x: jnp.convolve(x[0], x[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_of_programs(name, monkeypatch):
    seen = []

    def both(value):
        text = (global_text if isinstance(value, ir.values.GlobalValue) else module_text)(value)
        assert text == str(value)
        seen.append(text)
        return text

    for module in (batched_modules, copies, deduplication, entry_function):
        for function in ("module_text", "global_text"):
            monkeypatch.setattr(module, function, both, raising=False)
    x = jax.ShapeDtypeStruct((40, 48), np.float32)
    lowered(prepared(xl.from_stablehlo(jax.jit(PROGRAMS[name]).lower(x).as_text())), process_target())
    assert seen


def test_text_of_what_is_rare():
    module = ir.Module('a "name"')
    table = ir.GlobalVariable(module, ir.ArrayType(I32, 2), "table")
    table.initializer = table.value_type([1, 2])
    callee = ir.Function(module, ir.FunctionType(I64, [I64], var_arg=True), "some.callee")
    function = ir.Function(module, ir.FunctionType(FLOAT, [POINTER, FLOAT, I1]), 'of "quotes"')
    b = ir.IRBuilder(function.append_basic_block("the entry"))
    pointer, x, flag = function.args
    vector = ir.VectorType(FLOAT, 4)
    for constant in (None, ir.Undefined, 1.5, [0.0, 1.0, float("nan"), -2.0]):
        b.store(vector(constant), pointer, align=4)
    loaded = b.load(pointer, "a\\b", align=16, typ=vector)
    loaded.set_metadata("nontemporal", module.add_metadata([I32(1)]))
    mixed = b.shuffle_vector(loaded, vector(ir.Undefined), ir.VectorType(I32, 2)([3, 0]))
    b.insert_element(mixed, b.extract_element(loaded, I32(1)), I32(0))
    place = b.gep(b.alloca(I8, I64(3)), [I64(1)], inbounds=True, source_etype=I8)
    b.call(callee, [I64(1), I64(2)], tail=True)
    b.select(flag, x, FLOAT(2), flags=["fast"])
    b.fcmp_ordered("<", x, b.sitofp(b.ptrtoint(place, I64), FLOAT), flags=["nnan"])
    with b.if_then(b.and_(flag, I1(True)), likely=False):
        b.fence("seq_cst")
    phi = b.phi(FLOAT)
    phi.add_incoming(x, function.entry_basic_block)
    b.ret(b.fadd(phi, x, flags=["contract", "nsz"]))
    assert module_text(module) == str(module)
