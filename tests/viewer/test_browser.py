"""Pages in Chromium: opened, searched, clicked, folded, by mouse and by keyboard."""

import pytest

import xloom as xl
from tests.viewer import chromium
from tests.viewer.programs import layers
from xloom.roofline.kernel_times import KernelTime
from xloom.roofline.limits import Limits
from xloom.viewer.profile import Profile

PROGRAM = chromium.find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium: install the package `chromium`")

WHERE = """(() => {
  const { scene, camera, canvas } = app.graphView;
  const box = scene.boxes.find(({ item }) => item && (item.row !== undefined ? app.program.name(item.row) : item.title) === NAME);
  const { left, top } = canvas.getBoundingClientRect();
  return [left + camera.x + (box.x + box.width / 2) * camera.scale, top + camera.y + (box.y + 16) * camera.scale];
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    module = xl.parse(layers())
    kernels = [
        KernelTime("r0", "reduce", "jit(f)/layer_0/norm/reduce", 3e-6, 3e-6, 1.0, 640, 128),
        KernelTime("m0", "dot", "jit(f)/layer_0/mix/dot_general", 1e-6, 5e-6, 5.0, 1664, 4096),
    ]
    profile = Profile(kernels, Limits(1e10, 1e11))
    return {
        "layers": xl.show(module, passes=True, profile=profile).save(folder / "layers.html"),
        "plain": xl.show(xl.parse(layers(300)), compiled=False).save(folder / "plain.html"),
    }


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert PROGRAM is not None
    with chromium.chromium(tmp_path_factory.mktemp("profile"), PROGRAM) as tab:
        yield tab


@pytest.fixture
def tab(browser, pages):
    """The page of a program with everything, just opened; it must have no errors and ask for nothing."""
    browser.resize(1280, 800)
    browser.prefer("light")
    browser.errors.clear()
    browser.requests.clear()
    browser.open(pages["layers"])
    yield browser
    assert browser.errors == []
    assert browser.requests == [pages["layers"].as_uri()]


def snapshot(tab):
    return tab.value("app.snapshot()")


def place(tab, name):
    return tab.value(WHERE.replace("NAME", repr(name)))


def test_a_page_opens_with_few_boxes(tab):
    shown = snapshot(tab)
    assert shown["view"] == "graph" and shown["found"] > 50
    assert {"x", "loop", "fusion"} < set(shown["boxes"]) and 5 < len(shown["boxes"]) < 60
    assert shown["edges"] >= len(shown["boxes"]) - 2
    assert shown["drawn"] > 0
    assert tab.value("document.title") == "layers"


def test_a_search_finds_and_leads_to_instructions(tab):
    tab.press("/")
    tab.type("op:dot scope:layer_4/")
    assert snapshot(tab)["found"] == 2
    tab.press("Enter")
    shown = snapshot(tab)
    assert shown["selected"] in ("d4", "m4") and shown["selected"] in shown["boxes"]
    tab.press("ArrowDown")
    assert snapshot(tab)["selected"] != shown["selected"]
    text = tab.value("document.getElementById('inspector').innerText")
    assert "jit(f)/layer_4/mix/dot_general" in text and "f32[16,16]{1,0}" in text
    tab.press("/")
    tab.press("Escape")
    assert snapshot(tab)["found"] > 50


def test_words_exclude_and_say_where(tab):
    find = "(app.listView.input.value = {!r}, app.listView.find(), app.listView.rows.length)"
    assert tab.value(find.format("tanh -name:h3")) == 5
    assert tab.value(find.format("shape:f32[16,16]")) == 6
    assert tab.value(find.format("in:body op:sine")) == 1


def test_a_click_selects_and_a_double_click_unfolds(tab):
    before = snapshot(tab)["boxes"]
    tab.click(*place(tab, "loop"))
    assert snapshot(tab)["selected"] == "loop" and "w" not in before
    tab.click(*place(tab, "loop"), count=2)
    assert {"w", "less"} < set(snapshot(tab)["boxes"])
    tab.value("app.graphView.toggle(app.graphView.selected)")
    assert snapshot(tab)["boxes"] == before


def test_the_keyboard_goes_along_edges_and_folds(tab):
    tab.value(
        "app.select(app.state.order.find((row) => app.program.name(row) === 'loop')); app.graphView.canvas.focus()"
    )
    tab.press("ArrowUp")
    assert snapshot(tab)["selected"] == "state"
    tab.press("ArrowUp")
    assert snapshot(tab)["selected"] == "fusion"
    tab.press("Enter")
    assert {"n", "e"} < set(snapshot(tab)["boxes"])
    tab.press("Enter")
    assert "n" not in snapshot(tab)["boxes"]
    tab.press("ArrowDown")
    assert snapshot(tab)["selected"] == "state"
    assert "state" in tab.value("document.getElementById('live').textContent")
    tab.press("f")
    assert {"fusion", "loop"} < set(snapshot(tab)["boxes"]) and "out" not in snapshot(tab)["boxes"]
    tab.press("f")
    tab.press("Escape")
    assert snapshot(tab)["selected"] is None


def test_users_operands_and_the_stack_are_told(tab):
    tab.value("app.select(app.state.order.find((row) => app.program.name(row) === 'r3'))")
    text = tab.value("document.getElementById('inspector').innerText")
    assert "Operands (2)" in text and "%h3" in text and "Users (1)" in text and "%b3" in text
    assert text.index("model.py:12") < text.index("model.py:40")
    tab.value(
        "[...document.querySelectorAll('#inspector .link')].find((link) => link.innerText.includes('%b3')).click()"
    )
    assert snapshot(tab)["selected"] == "b3"


def test_passes_are_stepped_through(tab):
    states = snapshot(tab)["states"]
    tab.press("2")
    for _ in range(states.index("inlining")):
        tab.press("]")
    assert snapshot(tab)["state"] == "inlining"
    assert "removed" in tab.value("document.getElementById('pass-title').textContent")
    assert "%fusion = " in tab.value("document.getElementById('changes').innerText")
    tab.value("document.getElementById('pass-graph').click()")
    shown = snapshot(tab)
    assert shown["view"] == "graph" and tab.value("app.marks")
    # what is gone is drawn too
    assert "fusion" in shown["boxes"]


def test_kernels_are_groups_in_what_is_compiled(tab):
    tab.value("app.setState(app.program.last)")
    kernels = (
        "app.graphView.scene.boxes.filter(({ item }) => item && item.kind === 'kernel').map(({ item }) => item.title)"
    )
    assert "out" in tab.value(kernels)
    tab.value("app.setOption('kernels', false)")
    assert tab.value(kernels) == [] and "out" in snapshot(tab)["boxes"]


def test_memory_shows_the_peak(tab):
    tab.press("3")
    assert "the peak" in tab.value("document.getElementById('memory-title').textContent")
    most = tab.value("[app.memoryView.most, Math.max(...app.memoryView.live)]")
    assert most[0] == most[1] > 0
    tab.value("app.memoryView.canvas.focus()")
    tab.press("Home")
    tab.press("ArrowRight")
    assert tab.value("app.memoryView.position") == 1
    assert "whole run" in tab.value("document.getElementById('memory-arrays').innerText")


def test_a_profile_has_a_table_and_a_flame_graph(tab):
    tab.press("4")
    assert "8.00 µs a run" in tab.value("document.getElementById('profile-title').textContent")
    flames = tab.value("[...document.querySelectorAll('.flame')].map((flame) => flame.title.split('\\n')[0])")
    assert {"all", "jit(f)", "layer_0", "norm", "mix"} < set(flames)


@pytest.mark.parametrize("width", [1600, 1280, 1000])
def test_columns_of_a_profile_have_their_heads_above_them(tab, width):
    tab.resize(width, 800)
    tab.press("4")
    cells = "[...document.querySelectorAll('%s > *')].filter((each) => each.textContent && each.offsetWidth)"
    edges = f"{cells}.map((each) => Math.round(each.getBoundingClientRect().right))"
    heads = tab.value(f"{cells}.map((each) => each.textContent)" % "#profile .row-head")
    assert {"kernel", "opcode", "share", "time", "of limit"} <= set(heads)
    first = tab.value(f"{cells}.map((each) => each.textContent)" % "#kernel-times-0")
    of_head = dict(zip(heads, first, strict=True))
    assert (of_head["kernel"], of_head["share"], of_head["time"]) == ("%r0", "37 %", "3.00 µs")
    assert tab.value(edges % "#profile .row-head") == pytest.approx(tab.value(edges % "#kernel-times-0"), abs=1)


def test_light_and_dark(tab):
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.value(background)
    assert not snapshot(tab)["dark"]
    tab.prefer("dark")
    tab.until("app.isDark")
    assert tab.value(background) != light
    tab.press("t")
    tab.prefer("dark")
    assert not snapshot(tab)["dark"] and tab.value(background) == light


def test_a_small_screen_has_the_panels_behind_buttons(tab):
    tab.resize(420, 700)
    hidden = "getComputedStyle(document.getElementById('list')).display === 'none'"
    assert tab.value(hidden)
    tab.press("/")
    assert not tab.value(hidden) and tab.value("document.activeElement.id") == "search"
    assert tab.value("document.documentElement.scrollWidth") <= 420


def test_every_control_has_a_name(tab):
    unnamed = """[...document.querySelectorAll('button, input, select, canvas, [role=listbox]')].filter((each) =>
      !each.getAttribute('aria-label') && !each.textContent.trim() && !each.closest('label')).map((each) => each.outerHTML)"""
    assert tab.value(unnamed) == []


def test_a_long_program_is_drawn_in_parts(browser, pages):
    browser.errors.clear()
    browser.open(pages["plain"])
    shown = snapshot(browser)
    assert shown["found"] > 1500 and len(shown["boxes"]) <= 60
    browser.value("app.select(app.state.order.find((row) => app.program.name(row) === 'm250'))")
    assert "m250" in snapshot(browser)["boxes"] and len(snapshot(browser)["boxes"]) < 400
    assert browser.value("document.querySelectorAll('#instructions .row').length") < 80
    assert browser.errors == []
