"""The doors to kernels for GPUs: the shell, and a client."""

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from tests.cuda.kernel_programs import mapped, product
from tests.cuda.simulation import simulated_gpus
from xloom.cli.main import cli
from xloom.cuda import ptxas
from xloom.cuda.data_sheets import DATA_SHEETS
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.lower import lowered
from xloom.cuda.printers.kernel_choices import least_times, resident_blocks
from xloom.cuda.program import Launch
from xloom.cuda.ptxas import Assembled, tool
from xloom.errors import LoweringError
from xloom.llvm.target import GPUS, target_named
from xloom.pjrt import Client, cuda

TEXT = (
    "HloModule axpy\nENTRY main { x = f32[4096] parameter(0) y = f32[4096] parameter(1) "
    "t = f32[4096] tanh(x) ROOT z = f32[4096] add(t, y) }\n"
)


@pytest.fixture
def model(tmp_path):
    file = tmp_path / "model.hlo"
    file.write_text(TEXT)
    return str(file)


def xloom(*arguments):
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_what_opt_prints_of_a_gpu(model):
    code, text = xloom("opt", "--emit", "launches", model)
    assert code == 0
    assert text.splitlines()[1:3] == [
        "  launch kernel 0 on 4 x 256 threads: %z",
        "    a thread does 4 of 4096 elements",
    ]
    code, text = xloom("opt", "--emit", "ptx", "--target", "sm_90a", model)
    assert code == 0
    assert ".target sm_90a" in text
    code, text = xloom("opt", "--explain", "kernel:z", "--target", "sm_90a", model)
    assert code == 0
    assert "8 of the blocks on a multiprocessor, 100 % of its threads" in text


@pytest.mark.parametrize(
    "arguments", [("--emit", "asm", "--target", "sm_80"), ("--emit", "ptx", "--target", "x86-64-v3")]
)
def test_what_a_target_has_not_is_refused(model, arguments):
    code, text = xloom("opt", *arguments, model)
    assert code == 2
    assert "is nothing that" in text


def test_run_on_the_emulator(model):
    code, text = xloom("run", model, "--on", "emulator", "--target", "sm_90a", "--compare", "interpreter")
    assert code == 0, text
    assert "equal to interpreter" in text


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(cuda, "gpus", lambda count=None: simulated_gpus(count or 1)[0])


def test_run_and_measure_on_a_gpu(model, one_gpu):
    code, text = xloom("run", model, "--on", "cuda", "--compare", "interpreter")
    assert code == 0, text
    assert "equal to interpreter" in text
    code, text = xloom("bench", model, "--on", "cuda", "--repeats", "1")
    assert code == 0, text
    assert "run  " in text and "memory" in text
    code, text = xloom("bench", model, "--on", "cuda", "--profile")
    assert code == 2 and "are of the processor" in text


def test_tuples_and_calls_on_a_gpu(tmp_path, one_gpu):
    file = tmp_path / "pair.hlo"
    file.write_text(
        "HloModule pair\nENTRY e { p = (f32[4], (s32[])) parameter(0) x = f32[4] get-tuple-element(p), index=0 "
        "q = (s32[]) get-tuple-element(p), index=1 ROOT t = (f32[4], (s32[])) tuple(negate(x), q) }\n"
    )
    code, text = xloom("run", str(file), "--on", "cuda", "--compare", "interpreter")
    assert code == 0, text
    file.write_text('HloModule c\nENTRY e { ROOT r = f32[4] custom-call(), custom_call_target="nobody" }\n')
    done = CliRunner().invoke(cli, ["run", str(file), "--on", "cuda"])
    assert "platform 'CUDA'" in str(done.exception)


def test_machine_code_is_shown(model, monkeypatch):
    if tool("ptxas") and tool("nvdisasm"):
        code, text = xloom("opt", "--emit", "sass", "--target", "sm_90a", model)
        assert code == 0 and "EXIT" in text
    monkeypatch.setattr(ptxas, "tool", lambda name: None)
    done = CliRunner().invoke(cli, ["opt", "--emit", "sass", model])
    assert "pip install 'xloom[cuda]'" in str(done.exception)


def test_a_client():
    client = Client.cuda_emulator("sm_90a", devices=2)
    assert client.compiler.device_kind == "sm_90a"
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    (z,) = client.compile(xl.parse(TEXT)).execute([client.buffer_from_host(x), client.buffer_from_host(x)])
    np.testing.assert_allclose(np.asarray(z), np.tanh(x) + x, rtol=1e-6)


def test_what_has_no_kernels_is_refused_by_name():
    client = Client.cuda_emulator()
    text = "ENTRY e { t = token[] after-all() ROOT r = (f32[4], token[]) infeed(t) }"
    with pytest.raises(LoweringError, match="infeed has no kernel for GPUs yet"):
        client.compile(xl.parse(text))


def test_how_full_a_multiprocessor_is():
    assert set(DATA_SHEETS) == set(GPUS)
    launch = Launch(DeviceKernel("", 256, 0, ""), 1, (), "")
    made = Assembled(b"", registers=65, spilled_bytes=0, stack_bytes=0, shared_bytes=40 << 10, barriers=0)
    assert resident_blocks(launch, DATA_SHEETS["sm_90"]) == (8, "its threads")
    assert resident_blocks(launch, DATA_SHEETS["sm_90"], made) == (3, "its registers")
    asks = Launch(DeviceKernel("", 256, 0, "", dynamic_shared_bytes=60 << 10), 1, (), "")
    assert resident_blocks(asks, DATA_SHEETS["sm_90"], made) == (2, "its shared memory")


@pytest.mark.parametrize(
    ("program", "bound", "kind"),
    [
        (mapped("f32", 1 << 20, "add"), "memory", "f32"),
        (product("f64", 1024, 1024, 1024), "arithmetic", "tensor f64"),
        (product("bf16", 4096, 4096, 4096), "arithmetic", "tensor bf16"),
    ],
)
def test_what_bounds_a_kernel(tmp_path, program, bound, kind):
    file = tmp_path / "model.hlo"
    file.write_text(program)
    code, text = xloom("opt", "--explain", "kernel", "--target", "sm_90a", str(file))
    assert code == 0
    assert f"bound by {bound}" in text
    assert f"TFLOP/s ({kind})" in text


def test_least_times_are_those_of_data_sheets():
    (launch,) = lowered(xl.parse(product("bf16", 4096, 4096, 4096)), target_named("sm_80")).launches
    memory, arithmetic = least_times(launch, DATA_SHEETS["sm_80"])
    assert launch.flops == 2 * 4096**3
    assert memory == pytest.approx(3 * 2 * 4096**2 / 1555e9 * 1e6)
    assert arithmetic == pytest.approx(2 * 4096**3 / 312e12 * 1e6)
