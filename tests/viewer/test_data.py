"""What pages are made of."""

import json
import re

import numpy as np
import pytest

import xloom as xl
from tests.viewer.programs import layers
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.errors import XloomError
from xloom.llvm.target import process_target
from xloom.roofline.kernel_times import KernelTime
from xloom.roofline.limits import Limits
from xloom.viewer.dump import read_dump
from xloom.viewer.page import SCRIPTS, Page
from xloom.viewer.profile import Profile


@pytest.fixture(scope="module")
def module():
    return xl.parse(layers())


@pytest.fixture(scope="module")
def data(module):
    return xl.show(module, passes=True).data


def rows_of(data, number):
    """The rows of a state, as the page puts them together."""
    rows = []
    for state in data["states"][: number + 1]:
        rows = [row for row in rows if row not in set(state["removed"])] + state["added"]
    return rows


def names(data, rows):
    return {data["strings"][data["instructions"]["name"][row]] for row in rows}


def test_the_first_state_is_the_program_and_the_last_what_is_planned(module, data):
    assert names(data, rows_of(data, 0)) == {i.name for i in module.instructions}
    ready = prepared(module)
    assert names(data, rows_of(data, len(data["states"]) - 1)) == {i.name for i in ready.instructions}
    titles = [state["title"] for state in data["states"]]
    assert titles[0] == "program" and "inlining" in titles and len(titles) > 2


def test_a_state_without_passes_is_the_same(module, data):
    few = xl.show(module).data
    assert len(few["states"]) == 2
    assert names(few, rows_of(few, 1)) == names(data, rows_of(data, len(data["states"]) - 1))


def test_rows_say_what_instructions_are(module, data):
    columns, strings = data["instructions"], data["strings"]
    instruction = next(i for i in module.instructions if i.name == "r3")
    row = next(r for r in rows_of(data, 0) if strings[columns["name"][r]] == "r3")
    starts = np.cumsum([0, *columns["operands_count"]])
    operands = columns["operands"][starts[row] : starts[row + 1]]
    assert [strings[k] for k in operands] == [o.name for o in instruction.operands]
    text, nbytes = data["shapes"][columns["shape"][row]]
    assert (strings[text], nbytes) == (str(instruction.shape), instruction.shape.nbytes)
    assert strings[columns["attributes"][row]] == "dimensions={1}, to_apply=%sum"
    file, function, line, parent = data["frames"][columns["frame"][row] - 1]
    assert (strings[file], strings[function], line) == ("/home/user/model.py", "layer", 12)
    assert strings[data["frames"][parent - 1][1]] == "train"


def test_an_instruction_that_is_changed_in_place_has_another_row():
    module = xl.parse(layers(1))
    from xloom.viewer.graph import InstructionTable, Strings

    table = InstructionTable(Strings())
    root = module.entry.root
    first = table.row(root)
    assert table.row(root) == first
    root.replace_operand(0, module.entry.parameters[0])
    assert table.row(root) != first


def test_the_plan_has_every_thunk_and_no_more_memory_than_there_is(module, data):
    schedule, assignment, program = lowered(prepared(module), process_target())
    plan = data["plan"]
    assert sorted(t["position"] for t in plan["thunks"]) == sorted(assignment.positions.values())
    assert len([t for t in plan["thunks"] if not t["depth"]]) == len(schedule.thunks)
    temporaries = [a for a in plan["arrays"] if a["kind"] in ("arena", "stack")]
    live = [sum(a["bytes"] for a in temporaries if a["first"] <= p <= a["last"]) for p in range(len(plan["thunks"]))]
    memory = CompiledMemoryStats.of(assignment, program)
    arguments = sum(a["bytes"] for a in plan["arrays"] if a["kind"] == "argument")
    assert arguments == memory.argument_bytes
    assert 8 * 16 * 4 <= max(live) <= memory.peak_bytes


def test_the_plan_has_the_scratch_memory_of_kernels():
    text = """ENTRY main { x = f64[200,200] parameter(0) y = f64[200,200] add(x, x)
      ROOT c = f64[200,200] cholesky(y), lower=true }"""
    module = xl.parse(text)
    data = xl.show(module).data
    plan, strings = data["plan"], data["strings"]
    (scratch,) = [a for a in plan["arrays"] if a["kind"] == "scratch"]
    (thunk,) = [t for t in plan["thunks"] if t["opcode"] == "cholesky"]
    assert scratch["first"] == scratch["last"] == thunk["position"]
    assert plan["arrays"].index(scratch) in thunk["writes"] and plan["has_scratch"]
    assert [strings[k] for k in scratch["values"][0]] == [strings[thunk["roots"][0]], "scratch memory", ""]
    _, _, program = lowered(prepared(module), process_target())
    temporaries = [a["bytes"] for a in plan["arrays"] if a["kind"] in ("arena", "scratch")]
    assert min(temporaries) > 0 and sum(temporaries) == program.arena_bytes


def test_what_cannot_be_compiled_is_shown_with_the_reason():
    module = xl.parse("HloModule m\nENTRY e { x = f32[<=4] parameter(0)  ROOT n = f32[<=4] negate(x) }")
    data = xl.show(module).data
    assert data["plan"] is None and "dynamic" in data["why_no_plan"]
    assert len(rows_of(data, 0)) == 2


def test_text_of_programs_is_no_html():
    evil = "</script><script>alert(1)</script>{{DATA}}"
    text = Page(evil, {"name": evil}).html
    assert len(re.findall("<script>", text)) == len(SCRIPTS) and "alert(1)</script>" not in text
    assert "http://" not in text.replace("http://www.w3.org", "") and "src=" not in text


def test_a_page_is_saved_and_shown_in_notebooks(tmp_path, module):
    page = xl.show(module, compiled=False)
    assert page.save(tmp_path / "p.html").read_text("utf-8") == page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe") and shown.count("<script") == 0


def test_a_profile_says_how_near_the_limit_is(module):
    kernel = KernelTime("r0", "reduce", "jit(f)/layer_0", 0.001, 0.002, 2.0, 10_000_000, 1000)
    data = xl.show(module, compiled=False, profile=Profile([kernel], Limits(2e10, 1e11))).data
    assert data["profile"]["kernels"][0]["limit"] == pytest.approx(0.5)
    json.dumps(data)


def test_a_dump_of_passes_is_read_in_order(tmp_path):
    module = xl.parse(layers(2))
    xl.run_passes(module, "fusion-inlining,dce,cse", dump=tmp_path)
    modules = read_dump(tmp_path)
    assert modules[0][0] == "input" and modules[1][0] == "fusion-inlining"
    assert any(i.opcode == "fusion" for i in modules[0][1].instructions)
    assert not any(i.opcode == "fusion" for i in modules[-1][1].instructions)
    states = xl.show(modules, compiled=False).data["states"]
    assert [s["title"] for s in states][:2] == ["input", "fusion-inlining"]


def test_a_dump_as_xla_names_it_is_read(tmp_path):
    text = layers(1)
    for name in (
        "module_0001.jit_f.cpu_after_optimizations.txt",
        "module_0001.jit_f.0010.simplification.after_dce.before_cse.txt",
        "module_0001.jit_f.0002.simplification.after_algsimp.before_dce.txt",
        "module_0001.jit_f.before_optimizations.txt",
        "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt",
        "module_0002.jit_g.before_optimizations.txt",
    ):
        (tmp_path / name).write_text(text)
    titles = [title for title, _ in read_dump(tmp_path, "jit_f")]
    assert [title.split(".")[0] for title in titles] == [
        "before_optimizations",
        "0002",
        "0010",
        "cpu_after_optimizations",
    ]
    with pytest.raises(XloomError, match=r"2 programs: module_0001\.jit_f, module_0002\.jit_g"):
        read_dump(tmp_path)
    with pytest.raises(XloomError, match="no program with 'jit_h'"):
        read_dump(tmp_path, "jit_h")


def test_the_command_writes_a_page(tmp_path, monkeypatch, capsys):
    from xloom.cli.main import cli

    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.hlo").write_text(layers(1))
    cli(["show", "model.hlo", "--graph-only"], standalone_mode=False)
    assert re.fullmatch(r"model\.html  \d+ KiB\n", capsys.readouterr().out)
    assert "<canvas" in (tmp_path / "model.html").read_text("utf-8")


def test_options_that_exclude_each_other_are_wrong_usage(tmp_path):
    import click

    from xloom.cli.main import cli

    (tmp_path / "model.hlo").write_text(layers(1))
    for options in (["--graph-only", "--passes"], ["--input", str(tmp_path / "model.hlo")]):
        with pytest.raises(click.UsageError):
            cli(["show", str(tmp_path / "model.hlo"), *options], standalone_mode=False)
