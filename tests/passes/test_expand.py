import itertools

import numpy as np
import pytest

from xloom.errors import PassError
from xloom.hlo.module import Module
from xloom.hlo.text.lexer import escape
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import Expand, run_passes
from xloom.passes.carried_hlo import carries_hlo
from xloom.passes.hooks import difference


def host(carried: str, operands: str = "f32[4]", result: str = "f32[4]", more: str = "") -> str:
    """A module whose entry passes its parameters to one carrier."""
    shapes = operands.split(";") if operands else []
    lines = [f"  p{k} = {s} parameter({k})" for k, s in enumerate(shapes)]
    names = ", ".join(f"p{k}" for k in range(len(shapes)))
    lines.append(
        f'  ROOT call = {result} custom-call({names}), custom_call_target="Carrier", '
        f'metadata={{op_name="op" source_file="m.py" source_line=3}}, backend_config="{escape(carried)}"{more}'
    )
    return "HloModule host\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def expanded(text: str, pipeline: str = "expand") -> Module:
    module = parse(text)
    run_passes(module, pipeline)
    assert len({i.name for i in module.instructions}) == sum(map(len, module.computations))
    assert len({c.name for c in module.computations}) == len(module.computations)
    return module


SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
PROGRAMS = {
    "elementwise": ("f32[4]", "f32[4]", "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] tanh(x) }"),
    "reduce": (
        "f32[4];f32[]",
        "f32[]",
        SUM + "ENTRY e { x = f32[4] parameter(0) z = f32[] parameter(1) "
        "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum }",
    ),
    "parameters out of order": (
        "f32[2];f32[3]",
        "f32[5]",
        "ENTRY e { y = f32[3] parameter(1) x = f32[2] parameter(0) ROOT r = f32[5] concatenate(y, x), dimensions={0} }",
    ),
    "unused parameter": (
        "f32[2];f32[3]",
        "f32[2]",
        "ENTRY e { y = f32[3] parameter(1) x = f32[2] parameter(0) ROOT r = f32[2] abs(x) }",
    ),
    "no operands": ("", "s32[3]", "ENTRY e { ROOT r = s32[3] iota(), iota_dimension=0 }"),
    "constant": ("", "f32[10]", "ENTRY e { ROOT r = f32[10] constant({1, 0, 0, 0, 0, 0, 0, 0, 0, 0}) }"),
    "identity": ("f32[2]", "f32[2]", "ENTRY e { ROOT x = f32[2] parameter(0) }"),
    "tuple operand and result": (
        "(f32[2], s32[]);f32[2]",
        "(s32[], (f32[2], f32[2]))",
        "ENTRY e { t = (f32[2], s32[]) parameter(0) x = f32[2] parameter(1) "
        "a = f32[2] get-tuple-element(t), index=0 b = s32[] get-tuple-element(t), index=1 "
        "c = f32[2] add(a, x) d = (f32[2], f32[2]) tuple(c, a) ROOT r = (s32[], (f32[2], f32[2])) tuple(b, d) }",
    ),
    "while": (
        "f32[]",
        "f32[]",
        "cond { x = f32[] parameter(0) n = f32[] constant(50) ROOT r = pred[] compare(x, n), direction=LT }\n"
        "body { x = f32[] parameter(0) n = f32[] constant(7) ROOT r = f32[] add(x, n) }\n"
        "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] while(x), condition=cond, body=body }",
    ),
    "conditional": (
        "pred[];f32[]",
        "f32[]",
        "yes { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\nno { x = f32[] parameter(0) ROOT r = f32[] abs(x) }\n"
        "ENTRY e { p = pred[] parameter(0) x = f32[] parameter(1) "
        "ROOT r = f32[] conditional(p, x, x), true_computation=yes, false_computation=no }",
    ),
    "call of call": (
        "f32[4]",
        "f32[4]",
        "f { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }\n"
        "g { x = f32[4] parameter(0) y = f32[4] call(x), to_apply=f ROOT r = f32[4] call(y), to_apply=f }\n"
        "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] call(x), to_apply=g }",
    ),
    "fusion": (
        "f32[4]",
        "f32[4]",
        "f { x = f32[4] parameter(0) ROOT r = f32[4] cosine(x) }\n"
        "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] fusion(x), kind=kLoop, calls=f }",
    ),
    "dot, transpose and slice": (
        "f32[2,3];f32[3,4]",
        "f32[4,1]",
        "ENTRY e { x = f32[2,3] parameter(0) y = f32[3,4] parameter(1) "
        "d = f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} "
        "t = f32[4,2] transpose(d), dimensions={1,0} ROOT r = f32[4,1] slice(t), slice={[0:4], [1:2]} }",
    ),
    "with a header": (
        "f32[4]",
        "f32[4]",
        "HloModule guest, replica_count=1\n\nENTRY e { ROOT r = f32[4] parameter(0) }",
    ),
    "with comments": (
        "f32[4]",
        "f32[4]",
        "// what it does\n/* and why */ HloModule guest\nENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sine(x) }",
    ),
    "no ENTRY, typed head": (
        "f32[4]",
        "f32[4]",
        "%e (x: f32[4]{0}) -> f32[4]{0} { %x = f32[4]{0} parameter(0) ROOT %r = f32[4]{0} sine(%x) }",
    ),
    "no ENTRY, the last one": (
        "f32[4]",
        "f32[]",
        SUM + "e { x = f32[4] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum }",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_values_as_the_carried_module(name: str) -> None:
    operands, result, carried = PROGRAMS[name]
    module = expanded(host(carried, operands, result))
    assert not any(carries_hlo(i) for i in module.instructions)
    for seed, edges in itertools.product(range(2), (False, True)):
        arguments = random_arguments(module, seed, edges=edges)
        assert not difference(evaluate(parse(carried), *arguments), evaluate(module, *arguments))
    text = module.to_text(print_large_constants=True)
    assert parse(text).to_text(print_large_constants=True) == text


@pytest.mark.parametrize("name", PROGRAMS)
def test_nested_to_any_depth(name: str) -> None:
    operands, result, carried = PROGRAMS[name]
    text = carried
    for _ in range(4):
        text = host(text, operands, result)
    module = expanded(text)
    assert module.entry.root.opcode != "custom-call"
    arguments = random_arguments(module, 1)
    assert not difference(evaluate(parse(carried), *arguments), evaluate(module, *arguments))
    assert not any(run.changed for run in run_passes(module, "expand"))


def test_jaxlib_reads_what_comes_out() -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    for operands, result, carried in PROGRAMS.values():
        text = expanded(host(host(carried, operands, result), operands, result)).to_text(print_large_constants=True)
        assert hlo.hlo_module_from_text(text).to_string() is not None


def test_clones_once_a_carrier() -> None:
    _, _, carried = PROGRAMS["reduce"]
    call = f'custom-call(x, z), custom_call_target="C", backend_config="{carried}"'
    lines = "\n".join(f"  r{k} = f32[] {call}" for k in range(3))
    module = expanded(
        f"ENTRY main {{\n  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n{lines}\n"
        "  ROOT t = (f32[], f32[], f32[]) tuple(r0, r1, r2)\n}"
    )
    names = [c.name for c in module.computations]
    assert names == ["main", "sum.clone", "sum.clone.1", "sum.clone.2"]
    assert [i["to_apply"].name for i in module.entry if i.opcode == "reduce"] == names[1:]


def test_only_what_the_entry_calls_is_cloned() -> None:
    module = expanded(host(SUM + "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sine(x) }"))
    assert [c.name for c in module.computations] == ["main"]


def test_metadata_fills_gaps_and_reaches_called_computations() -> None:
    carried = (
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b), metadata={op_name='own'} }\n"
        "ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0), metadata={op_name='zero'} "
        "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum }"
    )
    module = expanded(host(carried, result="f32[]"))
    found = {i.opcode: i.metadata.op_name for i in module.instructions}
    assert found == {"reduce": "op", "constant": "zero", "add": "own", "parameter": "op"}
    assert module.entry.root.metadata.location == "m.py:3"


def test_stack_frames_are_appended() -> None:
    table = """
FileNames
1 "{file}"

FunctionNames
1 "{name}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}

"""
    guest = (
        "HloModule guest\n"
        + table.format(file="guest.py", name="g")
        + "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sine(x), metadata={stack_frame_id=1} }"
    )
    text = (
        host(guest)
        .replace("HloModule host\n", "HloModule host\n" + table.format(file="host.py", name="h"))
        .replace("op_name=", "stack_frame_id=1 op_name=")
    )
    module = expanded(text)
    assert module.stack_frames.file_names == ("host.py", "guest.py")
    frame = module.stack_frames.frames[module.entry.root.metadata.stack_frame_id - 1]
    assert module.stack_frames.file_names[module.stack_frames.locations[frame[0] - 1][0] - 1] == "guest.py"


def test_channels_do_not_clash() -> None:
    reduce = "all-reduce({0}), channel_id={1}, replica_groups={{{{0}}}}, to_apply={2}"
    carried = (
        SUM + "ENTRY e { x = f32[4] parameter(0) a = f32[4] " + reduce.format("x", 1, "sum") + " "
        "ROOT r = f32[4] " + reduce.format("a", 2, "sum") + " }"
    )
    text = (
        SUM
        + "ENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] "
        + reduce.format("x", 1, "sum")
        + f'\n  ROOT c = f32[4] custom-call(y), custom_call_target="C", backend_config="{carried}"\n}}'
    )
    channels = [i["channel_id"] for i in expanded(text).instructions if i.opcode == "all-reduce"]
    assert channels[0] == 1
    assert len(set(channels)) == 3


def test_in_a_fusion_and_an_async_computation() -> None:
    module = expanded(
        """fused {
  x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="C", backend_config="ENTRY e { x = f32[4] parameter(0) a = f32[4] sine(x) ROOT r = f32[4] negate(a) }"
}

wrapped {
  x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="C", backend_config="ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] cosine(x) }"
}

ENTRY main {
  x = f32[4] parameter(0)
  f = f32[4] fusion(x), kind=kLoop, calls=fused
  start = ((f32[4]), f32[4], s32[]) async-start(f), calls=wrapped
  ROOT done = f32[4] async-done(start)
}"""
    )
    x = np.array([0.5, 1.0, -2.0, 0.0], np.float32)
    np.testing.assert_allclose(evaluate(module, x), np.cos(-np.sin(x)), rtol=1e-6)


def test_side_effects_are_kept_and_ordered() -> None:
    carried = (
        "ENTRY e { x = f32[4] parameter(0) t = token[] after-all() "
        "o = token[] outfeed(x, t), outfeed_shape=f32[4]{0} ROOT r = f32[4] negate(x) }"
    )
    text = (
        host(carried)
        .replace("ROOT call", "call")
        .replace("\n}\n", "\n  ROOT after = f32[4] abs(p0), control-predecessors={call}\n}\n")
    )
    module = expanded(text, "expand,dce")
    root = module.entry.root
    assert [i.opcode for i in root.control_predecessors] == ["outfeed"]


@pytest.mark.parametrize(
    ("operands", "result", "carried", "message"),
    [
        (
            "f32[4]",
            "f32[4]",
            "ENTRY e { ROOT r = f32[4] constant({1, 2, 3, 4}) }",
            "takes 0 parameters, but the custom",
        ),
        (
            "f32[4]",
            "f32[5]",
            "ENTRY e { ROOT x = f32[4] parameter(0) }",
            r"returns f32\[4\] \(x\), but the custom call re",
        ),
        (
            "f32[4]",
            "f32[4]",
            "ENTRY e { ROOT x = f64[4] parameter(0) }",
            r"takes f64\[4\] as parameter 0 \(x\), but the c",
        ),
        ("f32[4]", "f32[4]", "ENTRY e { ROOT x = f32[4] parameter(1) }", "are numbered 1"),
        ("(f32[4])", "f32[4]", "ENTRY e { ROOT x = f32[4] parameter(0) }", r"passes \(f32\[4\]\) \(p0\)"),
    ],
)
def test_what_does_not_fit_is_named(operands: str, result: str, carried: str, message: str) -> None:
    with pytest.raises(PassError, match=message) as caught:
        expanded(host(carried, operands, result))
    assert "custom call call to 'Carrier' m.py:3" in str(caught.value)


@pytest.mark.parametrize(
    ("carried", "line", "column", "hint"),
    [
        ("HloModule g\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sinus(x)\n}", 4, 19, "'sine'"),
        ("HloModule g\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(z)\n}", 4, 24, ""),
        ("HloModule g", 1, 12, ""),
        ("ENTRY e {", 1, 10, ""),
    ],
)
def test_malformed_carriers_point_into_the_carried_text(carried: str, line: int, column: int, hint: str) -> None:
    with pytest.raises(PassError, match="the HLO that this custom call carries is malformed") as caught:
        expanded(host(carried))
    error = caught.value
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.file) == (line, column, "<backend_config of call>")
    assert hint in error.hint


@pytest.mark.parametrize(
    "config",
    [
        "",
        "{}",
        '{"HloModule": 1}',
        "config { size: 3 }",
        "HloModules",
        "entry",
        "a(b)",
        "x -> y",
        "f(x) { y }",
        "a = b",
    ],
)
def test_other_backend_configs_are_left_alone(config: str) -> None:
    module = parse(host(config))
    before = str(module)
    assert not Expand().run(module)
    assert str(module) == before


def test_a_misspelt_target_is_an_error() -> None:
    text = host("ENTRY e { ROOT x = f32[4] parameter(0) }")
    with pytest.raises(PassError, match="no custom call has the target 'Carier'") as caught:
        expanded(text, "expand{target=Carier}")
    assert "'Carrier'" in caught.value.hint
    assert not Expand(target="Other").run(parse(text))
    assert Expand(target="Carrier").run(parse(text))
