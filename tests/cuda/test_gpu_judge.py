"""The judge of GPUs, tried on emulated ones: what is made elsewhere runs, and wrong values are told."""

import json
import multiprocessing
from types import SimpleNamespace

import numpy as np
import pytest

import xloom as xl
from tests.cuda.kernel_programs import product
from tests.judges.child import run_cases
from tests.judges.gpu import machine
from tests.judges.gpu.__main__ import main
from tests.judges.gpu.benchmarks import measured, programs
from tests.judges.gpu.build import kernels_of
from tests.judges.gpu.correctness import Item
from tests.judges.gpu.images import Images
from tests.judges.gpu.recorded import exact_product, files, record, recorded
from tests.judges.gpu.sources import kernels
from xloom.cuda.ptxas import tool
from xloom.errors import UnsupportedError
from xloom.llvm.target import target_named
from xloom.pjrt import Client


def judge(*arguments):
    return main(["--target", "sm_80", *arguments])


def test_what_is_made_is_judged(tmp_path, capsys):
    sources, folder = ["--only", "opcodes,products"], ["--folder", str(tmp_path)]
    assert judge("--build", "--no-code", "--share", "0.01", *sources, *folder) == 0
    assert "2 opcodes, 1 products" in capsys.readouterr().out
    (path, *_) = files(tmp_path, "opcodes")
    right = recorded(path)
    runs = [[run + 1 if run.dtype != bool else ~run for run in runs] for runs in right.runs]
    record(tmp_path, "opcodes", 0, right.name, right.module, right.given, runs)
    assert judge("--on", "emulator", *sources, *folder) == 1
    sections = json.loads((tmp_path / "gpu.json").read_text())["sections"]
    assert (sections["opcodes"]["pass"], sections["opcodes"]["fail"], sections["products"]["pass"]) == (1, 1, 1)


def test_programs_get_what_they_are_promised():
    given = {c.name: c.arguments for c in kernels(100) if c.name in ("unique scatter", "triangular system")}
    assert len(np.unique(given["unique scatter"][1])) == given["unique scatter"][1].size
    assert np.linalg.cond(given["triangular system"][0]) < 100


def test_what_is_known_when_time_is_up_is_told(tmp_path):
    assert judge("--build", "--no-code", "--share", "0.03", "--only", "opcodes", "--folder", str(tmp_path)) == 0
    item = Item(str(tmp_path), "opcodes", "emulator", "sm_80")
    verdicts = run_cases("tests.judges.gpu.correctness:cases", [item], 60)
    assert [next(verdicts)["status"] for _ in range(2)] == ["pass", "pass"]
    verdicts.close()
    assert not multiprocessing.active_children()


def test_without_a_gpu_it_says_so_and_judges_nothing(tmp_path, capsys, monkeypatch):
    assert judge("--build", "--no-code", "--share", "0.01", "--only", "opcodes", "--folder", str(tmp_path)) == 0

    def no_driver():
        raise UnsupportedError("no NVIDIA driver")

    monkeypatch.setattr(machine, "libcuda", no_driver)
    assert judge("--folder", str(tmp_path)) == 2
    assert "nothing is judged: no NVIDIA driver" in capsys.readouterr().err
    assert json.loads((tmp_path / "gpu.json").read_text())["nothing"] == "no NVIDIA driver"


def test_machine_code_of_another_gpu_is_not_judged(tmp_path, monkeypatch):
    assert judge("--build", "--no-code", "--share", "0.01", "--only", "opcodes", "--folder", str(tmp_path)) == 0
    monkeypatch.setattr(machine, "libcuda", lambda: None)
    monkeypatch.setattr(machine, "devices_of", lambda *_: [SimpleNamespace(name="H100", target=target_named("sm_90a"))])
    assert "make judge-gpu-build TARGET=sm_90a" in machine.no_gpu(tmp_path)


def test_without_programs_it_says_what_to_do(tmp_path, capsys):
    assert judge("--folder", str(tmp_path)) == 2
    assert "make judge-gpu-build" in capsys.readouterr().err


@pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")
def test_machine_code_is_found_again(tmp_path, monkeypatch):
    target = target_named("sm_80")
    (kernel,) = kernels_of(xl.parse(product("f32", 64, 64, 64)), target)
    monkeypatch.setattr("tests.judges.gpu.images.image_of", lambda kernel, target: b"made here")
    images = Images(tmp_path)
    assert images.image_of(kernel, target) == b"made here"
    images.make(kernel, target)
    assert images.image_of(kernel, target).startswith(b"\x7fELF")


def test_exact_products():
    for layout, left, right in (("nn", (3, 4), (4, 5)), ("tt", (4, 3), (5, 4))):
        given = [np.arange(np.prod(dims)).reshape(dims).astype(np.int8) for dims in (left, right)]
        module = xl.parse(product("f32", 3, 5, 4, layout=layout))
        wanted = xl.evaluate(module, *[g.astype(np.float32) for g in given])
        assert np.array_equal(exact_product(module, given), np.asarray(wanted))


@pytest.mark.sampled
@pytest.mark.parametrize("name", [benchmark.name for benchmark in programs(is_small=True)])
def test_benchmarks_run(name, monkeypatch):
    (chosen,) = [benchmark for benchmark in programs(is_small=True) if benchmark.name == name]
    monkeypatch.setattr("tests.judges.gpu.benchmarks.programs", lambda is_small: [chosen])
    (row,) = measured(Client.cuda_emulator("sm_80"), "sm_80", is_small=True)
    assert "error" not in row, row
