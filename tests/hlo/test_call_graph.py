from xloom.hlo.call_graph import callees_first
from xloom.hlo.text.parser import parse
from xloom.passes import run_passes

# XLA's own order puts `condition` after `outer`, which calls it too
SHARED = """condition {
  p = (f32[], f32[]) parameter(0)
  ROOT no = pred[] constant(false)
}

inner {
  p = (f32[], f32[]) parameter(0)
  ROOT r = (f32[], f32[]) copy(p)
}

outer {
  p = (f32[], f32[]) parameter(0)
  ROOT w = (f32[], f32[]) while(p), condition=condition, body=inner
}

ENTRY main {
  x = (f32[], f32[]) parameter(0)
  ROOT w = (f32[], f32[]) while(x), condition=condition, body=outer
}"""


def test_callees_come_first() -> None:
    module = parse(SHARED)
    order = callees_first([module.entry])
    place = {c: k for k, c in enumerate(order)}
    assert order[-1] is module.entry
    assert len(order) == 4
    for computation in order:
        for instruction in computation:
            assert all(place[callee] < place[computation] for callee in instruction.called_computations)


def test_a_module_with_shared_callees_is_cloned_whole() -> None:
    module = parse(SHARED)
    copy = module.clone("")
    assert str(copy) == str(module)
    assert not {c for i in copy.instructions for c in i.called_computations} & set(module.computations)


def test_deep_call_chains_need_no_recursion() -> None:
    parts = ["f0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"]
    parts += [f"f{k} {{ x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f{k - 1} }}" for k in range(1, 3000)]
    chain = "\n".join(parts)
    module = parse(
        chain + "\nENTRY e { x = f32[] parameter(0) c = f32[] constant(1) unused = f32[] call(c), to_apply=f2999\n"
        "same = f32[] call(x), to_apply=f2999 y = f32[] call(x), to_apply=f2999 ROOT r = f32[] add(same, y) }"
    )
    assert len(callees_first([module.entry])) == 3001
    run_passes(module, "constant-folding,cse,dce,call-inlining,dce")
    assert sorted(i.opcode for i in module.instructions) == ["add", "negate", "parameter"]
