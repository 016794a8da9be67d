"""Devices whose own operators are few: native code of the CPU's does the rest, in groups, in the device's memory."""

import numpy as np
import pytest

import xloom as xl
from xloom.interpreter.samples import random_arguments
from xloom.sim import DeviceArray, DeviceMemoryError, Simulator, as_matrices, operator
from xloom.trace import trace


class Products(Simulator):
    platform = "products"
    native = True
    memory_bytes = 1 << 16
    scratchpad_bytes = 1 << 14

    @operator("dot", types="f32")
    def product(self, instruction, a, b):
        assert self.memory.holds(a) or self.scratchpad.holds(a)
        self.charge("matrix", 10)
        x, y = (self.load(v) for v in as_matrices(instruction, a, b))
        return (x @ y).reshape(instruction.shape.dims)

    def cost(self, instruction):
        return {"vector": instruction.shape.size if instruction.shape.is_array else 1}

    def dma_cycles(self, nbytes):
        return nbytes


LOOP = """HloModule loop
body {
  p = (s32[], f32[4,4], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4,4] get-tuple-element(p), index=1
  w = f32[4,4] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[4,4] tanh(x)
  d = f32[4,4] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[4,4] add(d, x)
  ROOT t2 = (s32[], f32[4,4], f32[4,4]) tuple(j, y, w)
}
condition {
  p = (s32[], f32[4,4], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[4,4], f32[4,4]) tuple(zero, x, w)
  r = (s32[], f32[4,4], f32[4,4]) while(t), condition=condition, body=body
  y = f32[4,4] get-tuple-element(r), index=1
  i = s32[] get-tuple-element(r), index=0
  ROOT z = ((f32[4,4], s32[]), f32[4,4]) tuple(s, y)
}""".replace("ROOT z", "s = (f32[4,4], s32[]) tuple(y, i)\n  ROOT z")
WITHOUT_PRODUCTS = """HloModule native
less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
body { p = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  x = f32[5] get-tuple-element(p), index=1 j = s32[] add(i, one) y = f32[5] sine(x)
  ROOT t = (s32[], f32[5]) tuple(j, y) }
condition { p = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e {
  p = (f32[5], f32[]) parameter(0)
  x = f32[5] get-tuple-element(p), index=0
  i = s32[5] iota(), iota_dimension=0
  sorted = (f32[5], s32[5]) sort(x, i), dimensions={0}, to_apply=less
  first = f32[5] get-tuple-element(sorted), index=0
  zero = s32[] constant(0)
  t = (s32[], f32[5]) tuple(zero, first)
  loop = (s32[], f32[5]) while(t), condition=condition, body=body
  y = f32[5] get-tuple-element(loop), index=1
  six = f32[] constant(6)
  sixes = f32[5] broadcast(six), dimensions={}
  z = f32[5] multiply(sixes, y)
  ROOT all = ((f32[5], s32[5]), f32[5], f32[], f32[5], s32[]) tuple(sorted, z, six, sixes, zero)
}"""
CHAIN = """HloModule chain
ENTRY e {
  a = f32[3,4] parameter(0)
  w = f32[4,3] parameter(1)
  e0 = f32[3,4] exponential(a)
  d1 = f32[3,3] dot(e0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n1 = f32[3,3] negate(d1)
  late = f32[3,4] sine(a)
  r = f32[9] reshape(n1)
  back = f32[3,3] reshape(r)
  d2 = f32[3,4] dot(back, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  both = f32[3,4] add(d2, late)
  whole = s32[2,2] parameter(2)
  d3 = s32[2,2] dot(whole, whole), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  flat = f32[12] reshape(a)
  ROOT t = (f32[3,4], s32[2,2], f32[3,4], f32[12], f32[3,4]) tuple(both, d3, e0, flat, both)
}"""


ODD = """HloModule odd
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  a = f32[3,4] parameter(0)
  n = s32[] parameter(1)
  half = f32[] constant(0.5)
  halves = f32[4,3] broadcast(half), dimensions={}
  d = f32[3,3] dot(a, halves), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  unused = f32[] reduce(a, zero), dimensions={0,1}, to_apply=add
  some = f32[<=3,4] set-dimension-size(a, n), dimensions={0}
  size = s32[] get-dimension-size(some), dimensions={0}
  sums = f32[4] reduce(some, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[3,3], s32[], f32[4]) tuple(d, size, sums)
}"""


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("text", [LOOP, WITHOUT_PRODUCTS, CHAIN, ODD], ids=["loop", "without", "chain", "odd"])
def test_values(text):
    module, device = xl.parse(text), Products()
    arguments = random_arguments(module, 0)
    if text is ODD:  # a product of what costs nothing, something dead, a dynamic size
        arguments[1] = np.int32(2)
    found, expected = (leaves(run(module, *arguments)) for run in (device.run, xl.evaluate))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert isinstance(ours, np.ndarray) and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert device.memory.statistics()["bytes_in_use"] == device.scratchpad.statistics()["bytes_in_use"] == 0


def test_custom_calls_of_the_host_are_part_of_what_it_does():
    @xl.custom_call("of.the.host")
    def twice(out, x):
        out[...] = 2 * x

    module = xl.parse("""ENTRY e { x = f32[4] parameter(0) s = f32[4] sine(x)
      ROOT c = f32[4] custom-call(s), custom_call_target="of.the.host" }""")
    (x,) = random_arguments(module, 0)
    np.testing.assert_allclose(Products().run(module, x), 2 * np.sin(x), rtol=1e-6)
    with pytest.raises(xl.CustomCallError, match="registered for platform 'sim'"):
        Simulator().run(module, x)


def test_groups_are_as_large_as_the_device_s_own_instructions_allow():
    device, module = Products(), xl.parse(CHAIN)
    steps = device.planned(device.prepare(module)).steps
    groups = [[i.name for i in s.group.instructions] for s in steps(next(iter(device._plans)).entry) if s.group]
    assert groups == [["e0", "late", "d3"], ["n1", "r", "back"], ["both"]]


def test_cycles_are_charged_to_the_instruction_that_takes_them():
    device = Products()
    module = xl.parse(LOOP)
    device.run(module, *random_arguments(module, 0))
    accounts = {name: account for (_, name), account in device.ledger.accounts.items()}
    assert (accounts["d"].runs, accounts["d"].cycles) == (3, {"matrix": 30, "dma": 3 * 2 * 64})
    assert accounts["t"].cycles == {"vector": 3 * 16, "dma": 3 * 2 * 64}  # reads x, and the product reads it
    assert accounts["y"].cycles == {"vector": 3 * 16, "dma": 3 * 3 * 64}
    assert device.ledger.total["matrix"] == 30
    rows = device.ledger.report(2).splitlines()
    assert rows[0].split() == ["cycles", "share", "runs", "dma", "matrix", "vector", "instruction"]
    assert rows[1].split()[-2:] == ["y", "add"] and "more instructions" in rows[3] and rows[4].split()[1] == "100%"


def test_memory_that_is_full_is_told_with_the_instruction():
    device, module = Products(memory_bytes=300), xl.parse(CHAIN)
    with pytest.raises(DeviceMemoryError, match=r"\(at e0\)"):
        device.run(module, *random_arguments(module, 0))


def test_traces_tell_cycles():
    device, module = Products(), xl.parse(CHAIN)
    with trace() as taken:
        device.run(module, *random_arguments(module, 0))
    spans = {s["name"]: s["args"] for s in taken.spans("kernel")}
    assert spans["d1"]["cycles"] == device.ledger.accounts["chain", "d1"].cycles.total()
    assert spans["e0, late, d3"]["opcode"] == "exponential sine dot"


class Fusing(Products):
    platform = "fusing"
    fused = ("gelu", "softmax")


GELU = """HloModule layer
ENTRY main {
  a = f32[4,8] parameter(0)
  w = f32[8,16] parameter(1)
  x = f32[4,16] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[4,16] broadcast(f32[] constant(0.044715)), dimensions={}
  s = f32[4,16] broadcast(f32[] constant(0.797884583)), dimensions={}
  half = f32[4,16] broadcast(f32[] constant(0.5)), dimensions={}
  one = f32[4,16] broadcast(f32[] constant(1)), dimensions={}
  cube = f32[4,16] multiply(multiply(x, x), x)
  inner = f32[4,16] add(x, multiply(k, cube))
  t = f32[4,16] tanh(multiply(s, inner))
  y = f32[4,16] multiply(x, multiply(half, add(one, t)))
  ROOT all = (f32[4,16], f32[4,16]) tuple(y, t)
}"""


@pytest.mark.parametrize("room", [1 << 14, 1 << 10])
def test_fused_kernels_keep_what_is_between_in_the_scratchpad(room):
    class Sized(Fusing):
        scratchpad_bytes = room

    module, device = xl.parse(GELU), Sized()
    arguments = random_arguments(module, 0)
    calls = [i["custom_call_target"] for i in device.prepare(module).instructions if i.opcode == "custom-call"]
    assert calls == (["fusing.gelu"] if room == 1 << 14 else [])
    for ours, theirs in zip(device.run(module, *arguments), xl.evaluate(module, *arguments), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    if calls:
        (account,) = [a for a in device.ledger.accounts.values() if a.opcode == "fusing.gelu"]
        assert account.cycles["dma"] == 3 * 4 * 16 * 4  # one array in, two out
        assert account.cycles["vector"] >= 8 * 4 * 16


def test_what_the_host_sees():
    device = Products()
    program = device.prepare(xl.parse(CHAIN))
    results = device.call(program, [device.copy_in(v) for v in random_arguments(program, 0)])
    assert all(isinstance(r, DeviceArray) for r in results)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        (
            "f32[2,4,5]",
            "lhs_contracting_dims={1}, rhs_contracting_dims={2}, lhs_batch_dims={0,3}, rhs_batch_dims={1,0}",
        ),
        ("f32[5,4,4]", "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,2}"),
        ("f32[2,3,5,4,4,2,3]", "lhs_contracting_dims={}, rhs_contracting_dims={}"),
    ],
)
def test_any_product_is_one_of_matrices(shape, dims):
    module = xl.parse(f"""ENTRY e {{ x = f32[2,3,5,4] parameter(0)  y = f32[4,2,3] parameter(1)
      ROOT d = {shape} dot(x, y), {dims} }}""")
    x, y = random_arguments(module, 0)
    expected = xl.evaluate(module, x, y)
    np.testing.assert_allclose(np.matmul(*as_matrices(module.entry.root, x, y)).reshape(expected.shape), expected, 1e-5)
