"""The benchmarks' programs convert, and their harness measures, compares and reports what it says it does."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from benchmarks import bandwidth, libraries, sides, timing, trial
from benchmarks.agreement import difference
from benchmarks.chart import chart
from benchmarks.child import ChildError, run_child
from benchmarks.cli import main
from benchmarks.curves import Curve, curves
from benchmarks.figures import duration, size, summarise, summary_lines
from benchmarks.machine import Machine
from benchmarks.programs import PROGRAMS
from benchmarks.programs.registry import program
from benchmarks.recompile import recompile
from benchmarks.result import Result, Times
from benchmarks.scaling import exponent
from benchmarks.sweep import cli as sweep_cli
from benchmarks.sweep import runner as sweep_runner
from benchmarks.sweep.families import CASES
from benchmarks.sweep.report import report
from benchmarks.table import markdown, terminal_table
from benchmarks.timing import alternate, cpu_ratios, ratios
from xloom.llvm.target import Target

MACHINE = Machine("A processor", 2, 0.5, bandwidth=20e9, peak=200e9, versions={"xloom": "0.1.0", "jaxlib": "0.10.2"})


def good(name: str, ratio: float, **more) -> Result:
    xla = Times(run=2e-3, cpu=3e-3, compile=0.1, peak_bytes=2 << 20)
    ours = Times(run=2e-3 / ratio, cpu=2e-3, compile=0.05, peak_bytes=1 << 20)
    return Result(name, "ok", "", xla, ours, 0.005, ratio, ratio, ratio, 1.5, **more)


def array(dtype: str, values: list[float]) -> np.ndarray:
    return np.array(values, dtype)


RESULTS = [
    good("matmul/gemm", 4.0, bound="FMA", reached=0.1),
    good("reduction/sum", 0.25, bound="memory", reached=0.1),
    Result("reduction/<odd>", "not compiled", "sort|stable is not native"),
    Result("sorting/sort", "differs", "result 0: 3 of 8 differ"),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_converts(name):
    case = PROGRAMS[name]
    module = xl.from_stablehlo(sides.bytecode(case))
    assert [p.shape.dims for p in module.entry.parameters] == [a.shape for a in case.leaves]
    assert [p.shape.dtype.numpy for p in module.entry.parameters] == [a.dtype for a in case.leaves]


def test_every_family_is_there():
    assert {p.family for p in PROGRAMS.values()} >= {
        *("elementwise", "reduction", "layout", "matmul", "convolution", "pooling", "scan", "sorting", "indexing"),
        *("random", "linalg", "loops", "training", "simulation", "dispatch"),
    }


@pytest.mark.parametrize("name", ["7x7-stride-2", "transposed", "3x3-nchw", "gradient-filter", "gradient-input"])
def test_library_convolutions_give_the_sets_results(name, monkeypatch):
    monkeypatch.setattr(libraries, "_REPEATS", 1)
    theirs, ours, ratio = libraries.CASES["oneDNN (PyTorch)"][name]()
    assert min(theirs, ours, ratio) > 0


def test_a_library_that_disagrees_is_not_timed(monkeypatch):
    monkeypatch.setattr(np, "sort", lambda x: x)
    with pytest.raises(ValueError, match="sorting/sort: result 0"):
        libraries.CASES["NumPy"]["sort-f32-1024"]()


def test_arguments_are_aligned_and_the_same_in_every_run():
    case = PROGRAMS["indexing/bilinear"]
    first, second = case.make_arguments(), case.make_arguments()
    assert all(a.ctypes.data % 64 == 0 for a in first)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_names_are_unique():
    with pytest.raises(ValueError, match="two programs named test_benchmarks/twice"):
        program("twice")(program("twice")(lambda: 0))
    del PROGRAMS["test_benchmarks/twice"]


def test_bytes_moved_counts_arguments_and_results():
    assert PROGRAMS["elementwise/add"].bytes_moved == 3 * 4 * 4096 * 1024
    assert PROGRAMS["matmul/gemm-64"].bytes_moved == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (array("float32", [1, 2, np.nan]), array("float32", [1, 2, np.nan]), None),
        (array("float32", [1, 2.0001, 3]), array("float32", [1, 2, 3]), None),
        (array("float32", [1, 2.01, 3]), array("float32", [1, 2, 3]), "1 of 3 differ, at [1]"),
        (array("float32", [1, np.nan]), array("float32", [1, 2]), "1 of 2 differ, at [1] nan"),
        (array("float32", [1, np.inf]), array("float32", [1, -np.inf]), "at [1] inf in place of -inf"),
        (array("int32", [7, 8]), array("int32", [7, 9]), "at [1] 8 in place of 9"),
        (array("int32", [7]), array("int64", [7]), "result 0 is int32[1] in place of int64[1]"),
        (np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), "[2, 3] in place of"),
    ],
)
def test_difference(ours, theirs, said):
    found = difference([ours], [theirs])
    assert (found is None) if said is None else said in (found or "")


def test_outliers_are_allowed_up_to_their_share():
    ours, theirs = np.zeros(1000, np.int32), np.zeros(1000, np.int32)
    ours[:2] = 7
    assert difference([ours], [theirs], outliers=0.002) is None
    ours[2] = 7
    assert difference([ours], [theirs], outliers=0.002) == "result 0: 3 of 1000 differ, at [0] 7 in place of 0"


def test_missing_result_is_a_difference():
    assert difference([], [np.zeros(1)]) == "0 results in place of 1"


def test_ratio_is_first_over_second(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    first, second = alternate(lambda: clock.sleep(0.006), lambda: clock.sleep(0.002), repeats=3)
    assert ratios(first, second) == pytest.approx([3.0] * 3)
    assert cpu_ratios(first, second) == pytest.approx([3.0] * 3)
    assert [b.cpu for b in first] == pytest.approx([0.0015] * 3)


class Clock:
    """A process that computes for a quarter of its time."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 4


class Executable:
    """What `xloom.compile` gives, by the interpreter."""

    class memory:
        peak_bytes = 1234

    def __init__(self, module: xl.Module, target: Target) -> None:
        assert target.flushes_denormals, "as XLA's programs do"
        self.module = module

    def __call__(self, *arguments):
        return xl.evaluate(self.module, *arguments)


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setattr(xl, "compile", Executable, raising=False)


def run_trial(name: str) -> tuple[Result, list[str]]:
    stages: list[str] = []
    return trial.try_program(PROGRAMS[name], sides.bytecode(PROGRAMS[name]), 2, stages.append), stages


def test_trial_measures(interpreted):
    result, stages = run_trial("dispatch/hundred-results")
    assert result.status == "ok", result.message
    assert stages == ["XLA compiles", "xloom compiles", "compare", "run"]
    assert result.xla and result.ours and result.ours.peak_bytes == 1234
    # XLA's results are a hundred arrays of 32 bytes, and its argument is one
    assert result.xla.peak_bytes >= 101 * 32
    assert result.ratio > 0
    assert result.cpu_ratio > 0
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_trial_tells_what_bounds_a_program(interpreted):
    result, _ = run_trial("matmul/gemm-64")
    assert result.bound == "FMA"
    assert 0 < result.reached < 0.5  # an interpreter is no compiler


def test_recompilation_is_timed(interpreted):
    assert 0 < recompile(sides.bytecode(PROGRAMS["reduction/sum-all"])) < 10


def test_trial_says_what_does_not_compile(monkeypatch):
    def refuse(*_):
        raise xl.UnsupportedError("add is not native\nat length")

    monkeypatch.setattr(xl, "compile", refuse, raising=False)
    result, stages = run_trial("dispatch/empty")
    assert (result.status, result.message) == ("not compiled", "add is not native")
    assert stages[-1] == "xloom compiles"


def test_trial_does_not_time_wrong_results(monkeypatch):
    class Wrong(Executable):
        def __call__(self, *arguments):
            return np.float32(3.0)

    monkeypatch.setattr(xl, "compile", Wrong, raising=False)
    result, stages = run_trial("dispatch/empty")
    assert (result.status, result.message) == ("differs", "result 0: 1 of 1 differ, at [] 3 in place of 2")
    assert "run" not in stages


def test_child_that_fails_says_why():
    with pytest.raises(ChildError, match="KeyError"):
        run_child(["benchmarks.trial", "no/program", "1", "unused"], "", 60.0)


def test_child_that_hangs_is_ended():
    with pytest.raises(ChildError, match="took more than 0 s"):
        run_child(["benchmarks.trial", "dispatch/empty", "1", "unused"], "", 0.01)


def test_summary():
    summary = summarise(RESULTS)
    assert (summary.measured, summary.total) == (2, 4)
    assert summary.ratio == pytest.approx(1.0)
    assert summary.families == pytest.approx({"matmul": 4.0, "reduction": 0.25})
    assert summary.slowest is RESULTS[1]
    text = "\n".join(summary_lines(summary))
    assert "2 of 4 programs" in text
    assert "ours is 0.50 of XLA's with nothing cached, and 0.05 from the cache on disk" in text
    assert "XLA's is 1.50 times ours" in text


def test_summary_tells_dispatch():
    assert summary_lines(summarise([good("dispatch/empty", 2.0)]))[-1].endswith("takes XLA 2.00 ms, and us 1.00 ms.")
    assert "Dispatch" not in "".join(summary_lines(summarise(RESULTS)))


def test_nothing_measured_is_said_so():
    page = markdown(RESULTS[2:], MACHINE, "results.svg")
    assert "0 of 2 programs" in page and "nan" not in page


def test_markdown_hides_nothing():
    page = markdown(RESULTS, MACHINE, "results.svg")
    row = next(line for line in page.splitlines() if line.startswith("| matmul/gemm |"))
    assert row == (
        "| matmul/gemm | 2.00 ms | 500 µs | 4.00 | 1.50 | 100 ms | 50.0 ms | 0.50 | 0.05 | 1.00 MiB | 0.50 | 10% FMA |"
    )
    assert any(line.startswith("| reduction/sum |") and line.endswith("| 10% memory |") for line in page.splitlines())
    assert "- reduction/<odd>: not compiled: sort|stable is not native" in page
    assert "- sorting/sort: differs: result 0: 3 of 8 differ" in page
    assert "(results.svg)" in page and "at best 20.0 GB/s and 200 GFLOP/s, load before the run 0.5" in page


def test_a_page_says_what_processors_its_code_is_for():
    page = markdown(RESULTS, MACHINE, "results.svg", "x86-64-v3 (AVX2)").splitlines()
    assert page[0] == "# Benchmarks: xloom and XLA:CPU for x86-64-v3 (AVX2)"
    assert "## Cost against size" not in page


def test_terminal_table_has_a_row_a_measured_program():
    assert terminal_table(RESULTS).row_count == 2


def test_chart_draws_bars_from_one():
    root = ET.fromstring(chart(RESULTS))
    svg = "{http://www.w3.org/2000/svg}"
    one = next(float(line.get("x1", "")) for line in root.iter(f"{svg}line") if line.get("class") == "one")
    fast, slow = (next(r for r in root.iter(f"{svg}rect") if r.get("class") == k) for k in ("fast", "slow"))
    assert float(fast.get("x", "")) == pytest.approx(one, abs=0.1)
    assert float(slow.get("x", "")) + float(slow.get("width", "")) == pytest.approx(one, abs=0.2)
    # 4 and 1/4 are as far from 1
    assert float(slow.get("width", "")) == pytest.approx(float(fast.get("width", "")), abs=0.2)
    texts = [t.text for t in root.iter(f"{svg}text")]
    assert {"4.00", "0.25", "<odd>", "not compiled", "differs", "matmul", "reduction"} <= set(texts)


def test_chart_holds_any_ratio():
    root = ET.fromstring(chart([good("a/b", 1000.0), good("a/c", 0.01), replace(good("a/d", 1.0))]))
    width = float(root.get("width", ""))
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(rect.get("x", "0")) >= 0 and float(rect.get("x", "0")) + float(rect.get("width", "")) <= width


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0421, "42.1 ms"), (3.2e-6, "3.20 µs"), (5e-8, "50.0 ns")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(12, "12 B"), (1536, "1.50 KiB"), (5 << 30, "5.00 GiB")])
def test_size(count, text):
    assert size(count) == text


def test_list_and_filter():
    listed = CliRunner().invoke(main, ["--list", "--filter", "^scan/cumsum-"])
    assert listed.output.split() == [n for n in PROGRAMS if n.startswith("scan/cumsum-")]
    nothing = CliRunner().invoke(main, ["--filter", "no such program"])
    assert nothing.exit_code == 2 and "no program has" in nothing.output


# --- cost against size


def test_exponent_is_that_of_the_upper_half():
    points = [[n, n, 5.0 if n < 100 else n**2 / 2000] for n in (10, 20, 50, 100, 1000, 10000)]
    assert exponent(points, 1) == pytest.approx(1)
    assert exponent(points, 2) == pytest.approx(2)


def test_curves_are_drawn_for_both_sides():
    picture = curves([Curve("sum", "elements", [(1024, 1e-5, 5e-6), (4096, 4e-5, 1e-5)])])
    paths = [e.get("class") for e in ET.fromstring(picture).iter() if e.tag.endswith("path")]
    assert paths.count("xla") == paths.count("ours") == 2  # the legend and the curve


# --- the sweep


def test_sweep_names_are_unique():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) > 2500


def test_sweep_knows_what_needs_64_bits():
    wide = {case.name for case in CASES if case.wide}
    assert {"elementwise/exp-f64-1000", "conversions/f32-s64", "fourier/rfft-f64-64x256"} <= wide
    assert not wide & {"elementwise/exp-f32-1000", "conversions/f32-s32"}


@pytest.mark.parametrize(
    ("wide", "names"),
    [("False", ["loops/fibonacci", "indexing/dynamic-slice-s8"]), ("True", ["indexing/dynamic-slice-f64"])],
)
def test_sweep_child_measures(tmp_path, wide, names):
    lines: list[dict] = []
    run_child(["benchmarks.sweep.child", wide, "1", "60", *names], str(tmp_path), 120.0, lines.append)
    assert [data["begins"] for data in lines[::2]] == names
    for name, data in zip(names, lines[1::2], strict=True):
        result = Result.from_json(data["result"])
        assert (result.name, result.status, result.message) == (name, "ok", "")
        assert result.xla and result.ours and result.ours.peak_bytes > 0
        assert result.ratio > 0 and result.cpu_ratio > 0


def test_sweep_goes_on_after_a_crash(monkeypatch):
    def crash_at_second(arguments, cache, timeout, line):
        for k, name in enumerate(arguments[4:]):
            line({"begins": name})
            if k == 1:
                raise ChildError("SIGSEGV: nothing was said")
            line({"result": good(name, 2.0).to_json()})

    monkeypatch.setattr(sweep_runner, "run_child", crash_at_second)
    results: list[Result] = []
    sweep_runner.sweep([c for c in CASES if c.family == "loops"][:4], 1, lambda _: None, results.append)
    assert [r.status for r in results] == ["ok", "failed", "ok", "failed"]


def test_sweep_that_cannot_start_says_so(monkeypatch):
    def refuse(*_):
        raise ChildError("ModuleNotFoundError")

    monkeypatch.setattr(sweep_runner, "run_child", refuse)
    with pytest.raises(ChildError, match="ModuleNotFoundError"):
        sweep_runner.sweep(CASES[:2], 1, lambda _: None, lambda _: None)


def test_sweep_goes_on_from_a_file(monkeypatch, tmp_path):
    out = tmp_path / "out.jsonl"
    measured: list[str] = []

    def sweep(cases, repeats, begin, record):
        for case in cases:
            measured.append(case.name)
            record(good(case.name, 0.5))

    monkeypatch.setattr(sweep_cli, "sweep", sweep)
    arguments = ["--filter", "^loops/scan-", "--out", str(out)]
    first = CliRunner().invoke(sweep_cli.main, arguments)
    assert "4 of 4 programs" in first.output and "Slower than XLA by the clock: 4" in first.output
    kept = out.read_text()
    out.write_text(kept[:-10])  # stopped in the middle of a line
    assert CliRunner().invoke(sweep_cli.main, arguments).output == first.output
    assert measured == [json.loads(line)["name"] for line in [*kept.splitlines(), kept.splitlines()[-1]]]


def test_sweep_reports_what_is_not_as_it_should_be():
    large = replace(good("a/large", 2.0), ours=Times(1e-3, 1e-3, 0.1, 3 << 20))
    busy = replace(good("a/busy", 2.0), cpu_ratio=0.5)
    parts = list(report([good("a/slow", 0.5), large, busy, good("a/good", 2.0), *RESULTS[2:]], 1.0))
    titles = [part.title for part in parts if not isinstance(part, str)]
    assert titles == [
        "Slower than XLA by the clock: 1",
        "More processor time than XLA's: 1",
        "More memory than XLA's: 1",
        "Not measured: 2",
    ]


@pytest.mark.parametrize("name", ["elementwise/gelu", "matmul/gemv-bf16", "reduction/cross-entropy", "training/adam"])
def test_parts_for_the_bandwidth_have_fewer_rows(name):
    whole = PROGRAMS[name]
    part = bandwidth._part(whole, 16)
    assert part is not None
    assert whole.bytes_moved / 20 < part.bytes_moved < whole.bytes_moved / 8
    assert len(part.leaves) == len(whole.leaves)
