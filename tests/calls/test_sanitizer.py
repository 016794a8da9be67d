"""The sanitizer: kernels that commit each fault, from the interpreter and from native code."""

import ctypes
import faulthandler
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_c, register_pointer, register_symbol
from xloom.calls.c_compiler import compile_source
from xloom.calls.sanitizer import NonFiniteWarning, Settings, active, sanitize
from xloom.calls.sanitizer.memory import Region
from xloom.calls.sanitizer.poison import poison, unwritten
from xloom.calls.sanitizer.trap import Trap
from xloom.calls.sanitizer.watchdog import Watchdog
from xloom.cli.main import main
from xloom.sim import Simulator

KERNELS = """
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xloom/custom_call.h>
#ifdef DEVICE
#define KERNEL(name)                                                         \
  static void name##_(void* out, const void** in);                           \
  void name(void* stream, void** buffers, const char* opaque, size_t size) { \
    name##_(buffers[1], (const void**)buffers);                              \
  }                                                                          \
  static void name##_(void* out, const void** in)
void scratch(void* stream, void** buffers, const char* opaque, size_t size) { memcpy(buffers[1], buffers[0], 16); }
void fails(void* stream, void** buffers, const char* opaque, size_t size, XlaCustomCallStatus* s) {
  XlaCustomCallStatusSetFailure(s, "no", 2);
}
#else
#define KERNEL(name) void name(void* out, const void** in)
KERNEL(scratch) { memcpy(((void**)out)[0], in[0], 16); }
void fails(void* out, const void** in, XlaCustomCallStatus* s) { XlaCustomCallStatusSetFailure(s, "no", 2); }
#endif
static void copy(void* out, const void** in) { memcpy(out, in[0], 16); }
KERNEL(right) { copy(out, in); }
KERNEL(overrun) { copy(out, in); ((float*)out)[4] = 1; }
KERNEL(underrun) { copy(out, in); ((float*)out)[-1] = 1; }
KERNEL(far_overrun) { copy(out, in); ((float*)out)[100000] = 1; }
KERNEL(far_read) { ((float*)out)[0] = ((const float*)in[0])[100000]; }
KERNEL(write_input) { copy(out, in); ((float*)in[0])[1] = 1; }
KERNEL(unwritten) { memcpy(out, in[0], 12); }
KERNEL(first_only) { ((float*)out)[0] = 1; }
KERNEL(make_nan) { copy(out, in); ((float*)out)[2] = nanf(""); }
KERNEL(make_infinity) { copy(out, in); ((float*)out)[0] = ((float*)out)[3] = INFINITY; }
KERNEL(last_number) { for (int i = 0; i < 4; ++i) ((int*)out)[i] = ((const int*)in[0])[i + 1] & 1; }
KERNEL(unused_behind) { copy(out, in); volatile float unused = ((const float*)in[0])[4]; }
KERNEL(unused_before) { copy(out, in); volatile float unused = ((const float*)in[0])[-1]; }
KERNEL(hang) { for (volatile int k = 0;; ++k); }
KERNEL(segfault) { *(volatile int*)8 = 1; }
KERNEL(give_up) { abort(); }
KERNEL(leave) { exit(3); }
KERNEL(five_numbers) { for (int i = 0; i < 5; ++i) ((int*)out)[i] = i; }
KERNEL(increment) { ((float*)out)[0] += 1; }
"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("XLOOM_SANITIZE", raising=False)


def compiled(module, *arguments):
    return xl.compile(module)(*arguments)


DEVICE = Simulator(memory_bytes=1 << 20)


def on_device(module, *arguments):
    return DEVICE.run(module, *arguments)


@pytest.fixture(params=[xl.evaluate, compiled, on_device], ids=["interpreter", "compiled", "device"])
def run(request):
    return request.param


def module(version="API_VERSION_ORIGINAL"):
    b = xl.Builder("m")
    x = b.parameter(xl.f32[4])
    b.custom_call("t", [x], xl.f32[4], name="called", api_version=version)
    return b.build()


def kernel(symbol):
    register_c("t", KERNELS, symbol)
    register_c("t", f"#define DEVICE\n{KERNELS}", symbol, platform="sim")


def python_kernel(function):
    for platform in ("Host", "sim"):
        xl.custom_call("t", platform=platform)(function)
    return function


# -- faults of native kernels, by element type
BY_TYPE = """
#include <stdint.h>
#include <string.h>
typedef struct { char bytes[WIDTH]; } element;
#define ALL(n) for (int i = 0; i < (n); ++i)
void right(element* out, const element** in) { ALL(5) out[i] = in[0][i]; }
void read_past(element* out, const element** in) { ALL(5) out[i] = in[0][i + 1]; }
void read_before(element* out, const element** in) { ALL(5) out[i] = in[0][i - 1]; }
void read_behind(element* out, const element** in) { ALL(5) out[i] = in[0][i]; out[2] = in[1][7]; }
void write_past(element* out, const element** in) { ALL(6) out[i] = in[0][i % 5]; }
void write_before(element* out, const element** in) { ALL(6) out[i - 1] = in[0][i % 5]; }
void partial(element* out, const element** in) { ALL(4) out[i] = in[0][i]; }
"""
FAULTS_BY_TYPE = {
    "right": "",
    "read_past": "read the element past the end of operand 0",
    "read_before": "read the element before operand 0",
    "read_behind": "read 3 elements past the end of operand 1",
    "write_past": "wrote to the element past the end of the result",
    "write_before": "wrote to the element before the result",
    "partial": "did not write element [4] of the result",
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [d for d in xl.DTYPES.values() if d.is_array], ids=str)
def test_each_fault_of_each_type_is_found(dtype):
    width = dtype.numpy.itemsize
    library = compile_source(BY_TYPE.replace("WIDTH", str(width)))
    b = xl.Builder("m")
    x, y = b.parameter(dtype[5]), b.parameter(dtype[5])
    b.custom_call("t", x, y, shape=dtype[5], name="called")
    m = b.build()
    given = np.ones(5, dtype.numpy), np.zeros(5, dtype.numpy)
    for symbol, message in FAULTS_BY_TYPE.items():
        register_symbol("t", library, symbol, abi="original")
        with sanitize():
            if not message:
                assert np.array_equal(xl.evaluate(m, *given), given[0])
                continue
            with pytest.raises(xl.CustomCallError, match=rf"'t' {re.escape(message)}.*\(at %called, .*\.py:\d+\)"):
                xl.evaluate(m, *given)


@pytest.mark.parametrize("kind", ["float", "int32_t", "uint8_t", "int8_t", "double"])
@pytest.mark.parametrize("choice", ["<", ">"])
def test_reads_that_only_a_comparison_sees(kind, choice):
    names = {"float": xl.f32, "int32_t": xl.s32, "uint8_t": xl.u8, "int8_t": xl.s8, "double": xl.f64}
    text = f"""#include <stdint.h>
    void t(void* out, const void** in) {{
      const {kind}* x = in[0];
      {kind} m = x[0];
      for (int i = 1; i <= 7; ++i) if (x[i] {choice} m) m = x[i];
      *({kind}*)out = m;
    }}"""
    register_c("t", text)
    dtype = names[kind]
    b = xl.Builder("m")
    b.custom_call("t", b.parameter(dtype[7]), shape=dtype[()])
    with sanitize(), pytest.raises(xl.CustomCallError, match="read the element past the end of operand 0"):
        xl.evaluate(b.build(), np.full(7, 3, dtype.numpy))


# -- what reruns must not take for faults
def test_state_and_chance_are_no_reads(run):
    state = "static int n; float v = ++n;"
    chance = "struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); float v = t.tv_nsec;"
    for body in (state, chance):
        for device in ("", "#define DEVICE\n"):
            text = f"{device}#include <time.h>\n{KERNELS}\nKERNEL(other) {{ {body} for (int i = 0; i < 4; ++i) ((float*)out)[i] = v; }}"
            register_c("t", text, "other", platform="sim" if device else "Host")
        with sanitize():
            first, second = run(module(), X)[0], run(module(), X)[0]
        assert second - first == 1 or body is chance


def test_calls_with_side_effects_run_once(tmp_path):
    log = tmp_path / "log"
    register_c(
        "t",
        f"""#include <stdio.h>
    void t(void* out, const void** in) {{
      FILE* f = fopen("{log}", "a"); fputs("x", f); fclose(f); *(float*)out = 1;
    }}""",
    )
    b = xl.Builder("m")
    b.custom_call("t", [], xl.f32[()], custom_call_has_side_effect=True)
    with sanitize():
        xl.evaluate(b.build())
    assert log.read_text() == "x"


# -- faults of native kernels
FAULTS = {
    "overrun": "wrote to the element past the end of the result",
    "underrun": "wrote to the element before the result",
    "far_overrun": "wrote to 99997 elements past the end of the result (SIGSEGV)",
    "far_read": "read 99997 elements past the end of operand 0 (SIGSEGV)",
    "write_input": "wrote to element [1] of operand 0 (SIGSEGV)",
    "unwritten": "did not write element [3] of the result",
    "last_number": "read the element past the end of operand 0: what lies there changes the outputs",
    "unused_behind": "read the element past the end of operand 0 (SIGSEGV)",
    "unused_before": "read the element before operand 0 (SIGSEGV)",
    "first_only": "did not write element [1] and 2 more of the result",
    "segfault": "accessed address 0x8, which is in none of its buffers (SIGSEGV)",
    "give_up": "raised SIGABRT",
}


@pytest.mark.parametrize("isolate", [False, True], ids=["here", "isolated"])
@pytest.mark.parametrize("symbol", FAULTS)
def test_each_fault_is_an_error(run, symbol, isolate):
    kernel(symbol)
    message = rf"custom call 't' {re.escape(FAULTS[symbol])} \(at %called, .*test_sanitizer\.py:\d+\)$"
    with sanitize(isolate=isolate), pytest.raises(xl.CustomCallError, match=message):
        run(module(), X)
    kernel("right")  # and the process is well
    with sanitize(isolate=isolate):
        assert np.array_equal(run(module(), X), X)


@pytest.mark.parametrize("isolate", [False, True], ids=["here", "isolated"])
@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("make_nan", "made nan of finite operands: element [2] of the result (at %called"),
        (
            "make_infinity",
            "made inf of finite operands: element [0] of the result, and 1 more are not finite (at %called",
        ),
    ],
)
def test_numbers_that_are_not_finite_are_warned_of(run, symbol, text, isolate):
    kernel(symbol)
    with sanitize(isolate=isolate), pytest.warns(NonFiniteWarning, match=re.escape(text)):
        assert not np.isfinite(run(module(), X)).all()
    with sanitize(isolate=isolate):  # those of operands are nobody's fault
        run(module(), np.full(4, np.inf, np.float32))


def test_a_hang_is_ended_and_its_stack_shown(run, capfd):
    kernel("hang")
    begin = time.monotonic()
    with sanitize(seconds=1), pytest.raises(xl.CustomCallError, match=r"has not returned after 1 s") as caught:
        run(module(), X)
    assert time.monotonic() - begin < 20
    err = capfd.readouterr().err
    assert "custom call 't' (at %called" in err and "test_sanitizer.py" in err
    assert "test_sanitizer.py" in caught.value.__notes__[0]


def test_a_hang_that_begins_after_its_limit_is_ended():
    endless = ctypes.CDLL(None).pause  # which waits for a signal
    address = ctypes.cast(endless, ctypes.c_void_p).value or 0
    with Trap(address) as trap, Watchdog(0.01, trap, "a call") as watchdog:
        time.sleep(0.2)
        ctypes.CFUNCTYPE(ctypes.c_int)(trap.address)()
    assert watchdog.fired


def test_the_stack_of_a_hang_is_shown_where_many_threads_are(run):
    kernel("hang")
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(150)]
    for thread in threads:
        thread.start()
    try:
        with sanitize(seconds=1), pytest.raises(xl.CustomCallError, match=r"after 1 s") as caught:
            run(module(), X)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    of_the_call, of_all = caught.value.__notes__[0].partition("\n\n")[0], caught.value.__notes__[0]
    assert "test_sanitizer.py" in (of_all if run is on_device else of_the_call)


def test_a_hang_in_a_child_is_ended_and_its_stack_kept(run):
    kernel("hang")
    with (
        sanitize(isolate=True, seconds=1),
        pytest.raises(xl.CustomCallError, match=r"has not returned after 1 s") as caught,
    ):
        run(module(), X)
    assert ("sim/custom_call.py" if run is on_device else "test_sanitizer.py") in caught.value.__notes__[0]


def test_a_child_does_not_wait_for_a_watchdog_of_its_parent(run, tmp_path):
    kernel("right")
    with open(tmp_path / "stacks", "w") as stacks, sanitize(isolate=True, seconds=20):
        faulthandler.dump_traceback_later(100, file=stacks)
        try:
            run(module(), X)
        finally:
            faulthandler.cancel_dump_traceback_later()


def test_a_hang_in_python_is_ended(run, capfd):
    @python_kernel
    def forever(out, x):
        while True:
            time.sleep(0.001)

    with sanitize(seconds=1), pytest.raises(xl.CustomCallError, match=r"has not returned after 1 s"):
        run(module(), X)
    assert "in forever" in capfd.readouterr().err


def test_kernels_that_end_the_process_are_isolated(run):
    kernel("leave")
    with sanitize(isolate=True), pytest.raises(xl.CustomCallError, match="'t' ended its process with exit status 3"):
        run(module(), X)


def test_faults_of_python_are_isolated(run):
    @python_kernel
    def crash(out, x):
        ctypes.string_at(8)

    with sanitize(isolate=True), pytest.raises(xl.CustomCallError, match=r"'t' died of SIGSEGV \(at %called") as caught:
        run(module(), X)
    assert "in crash" in caught.value.__notes__[0]


def test_writes_of_python_outside_its_arrays(run):
    @python_kernel
    def overrun(out, x):
        ctypes.c_float.from_address(out.ctypes.data + 16).value = 1

    with sanitize(), pytest.raises(xl.CustomCallError, match="wrote to the element past the end of the result"):
        run(module(), X)


def test_faults_of_several_threads_at_once(run):
    kernel("far_overrun")
    inputs = [X + k for k in range(16)]
    with sanitize(), ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(run, module(), x) for x in inputs]
        for future in futures:
            with pytest.raises(xl.CustomCallError, match="99997 elements past the end"):
                future.result()
        kernel("right")
        for x, y in zip(inputs, threads.map(lambda x: run(module(), x), inputs), strict=True):
            assert np.array_equal(x, y)


def test_a_crash_that_nobody_can_catch_shows_its_stack():
    code = """
import ctypes, numpy as np, xloom as xl
@xl.custom_call("t")
def crash(out, x):
    ctypes.string_at(8)
x = np.zeros(4, np.float32)
xl.evaluate(xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), custom_call_target="t" }'), x)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLOOM_SANITIZE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr and "in crash" in done.stderr


def test_an_abort_that_is_nobodys_fault_shows_its_stack():
    code = "import faulthandler, os; faulthandler.enable(); from xloom.calls.sanitizer.trap import Trap"
    code += "\nwith Trap(0):\n    pass\nos.abort()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in done.stderr


# -- what is not a fault
def test_python_sees_zeros_as_it_is_promised(run):
    @python_kernel
    def part(out, x):
        assert not out.any() and out.ctypes.data % 64 == 0 and not x.flags.writeable
        out[1] = 5

    for isolate in (False, True):
        with sanitize(isolate=isolate):
            assert np.array_equal(run(module(), X), [0, 5, 0, 0])


def test_kernels_may_need_what_is_aligned():
    register_c(
        "t",
        """typedef float four __attribute__((vector_size(16)));
    void t(float* out, const float** in) { *(four*)out = *(const four*)in[0]; out[4] = in[0][4]; }""",
    )
    b = xl.Builder("m")
    b.custom_call("t", b.parameter(xl.f32[5]), shape=xl.f32[5])
    x = np.arange(5, dtype=np.float32)
    with sanitize():
        assert np.array_equal(xl.evaluate(b.build(), x), x)


def test_failures_of_the_kernel_stay_what_they_are(run):
    kernel("fails")
    for isolate in (False, True):
        with sanitize(isolate=isolate), pytest.raises(xl.CustomCallError, match=r"'t' failed: no \(at %called"):
            run(module("API_VERSION_STATUS_RETURNING"), X)

    @python_kernel
    def boom(out, x):
        raise RuntimeError("boom")

    for isolate in (False, True):
        with sanitize(isolate=isolate), pytest.raises(xl.CustomCallError, match="failed: RuntimeError: boom") as caught:
            run(module(), X)
        if isolate:
            assert "in boom" in caught.value.__notes__[0]
        else:
            assert isinstance(caught.value.__cause__, RuntimeError)


def test_scratch_that_nobody_reads_may_stay_unwritten(run):
    kernel("scratch")
    text = """ENTRY e { x = f32[4] parameter(0)
      c = (f32[4], f32[9]) custom-call(x), custom_call_target="t"
      ROOT r = f32[4] get-tuple-element(c), index=0 }"""
    with sanitize():
        assert np.array_equal(run(xl.parse(text), X), X)
        unused = text.replace("ROOT r", "s = f32[9] get-tuple-element(c), index=1 ROOT r")
        assert np.array_equal(run(xl.parse(unused), X), X)
    both = text.replace("ROOT r", "r").replace("index=0 }", "index=0 ROOT s = (f32[4], f32[9]) copy(c) }")
    with sanitize(), pytest.raises(xl.CustomCallError, match=re.escape("element [0] and 8 more of the result {1}")):
        run(xl.parse(both), X)


def test_an_aliased_operand_is_written_and_starts_with_its_values(run):
    kernel("increment")
    text = """ENTRY e { x = f32[4] parameter(0)
      ROOT c = f32[4] custom-call(x), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})} }"""
    given = X.copy()
    with sanitize():
        assert np.array_equal(run(xl.parse(text), given), X + [1, 0, 0, 0])
    assert np.array_equal(given, X)


def test_faults_are_named_by_index_in_any_layout(run):
    kernel("five_numbers")
    m = xl.parse("""ENTRY e { x = s32[2,3] parameter(0)
      ROOT c = s32[2,3]{0,1} custom-call(x), custom_call_target="t" }""")
    with sanitize(), pytest.raises(xl.CustomCallError, match=re.escape("did not write element [1, 2] of the result")):
        run(m, np.zeros((2, 3), np.int32))


# -- re-entrancy
def test_a_callback_that_needs_its_own_device(run):
    inner = xl.parse("HloModule inner ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
    other = compiled if run is xl.evaluate else xl.evaluate
    wanted = run

    @python_kernel
    def back(out, x):
        out[...] = wanted(inner, x)

    assert np.array_equal(run(module(), X), -X)  # which happens to work today
    with sanitize():
        with pytest.raises(
            xl.CustomCallError, match=r"'t' runs the program inner on the [\w:]+, which waits for that call"
        ):
            run(module(), X)
        wanted = other
        assert np.array_equal(run(module(), X), -X)
        assert np.array_equal(run(inner, X), -X)
    with sanitize(isolate=True), pytest.raises(xl.CustomCallError, match="which waits for that call"):
        wanted = run
        run(module(), X)


def test_faults_inside_callbacks_of_native_kernels_are_left_to_python():
    called = []
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

    @prototype
    def callback(out, operands):
        called.append(1)
        ctypes.string_at(8)

    register_pointer("t", callback)
    with sanitize(isolate=True), pytest.raises(xl.CustomCallError, match="'t' died of SIGSEGV"):
        xl.evaluate(module(), X)


# -- settings
@pytest.mark.parametrize("python", [False, True])
def test_programs_compiled_before_are_watched(python):
    if python:
        python_kernel(lambda out, x: ctypes.memset(out.ctypes.data, 0, 20) and None)
    else:
        kernel("overrun")
    program = xl.compile(module())
    for _ in range(2):
        with sanitize(), pytest.raises(xl.CustomCallError, match="wrote to the element past the end of the result"):
            program(X)


def test_settings_come_from_the_environment(monkeypatch):
    assert active() is None
    monkeypatch.setenv("XLOOM_SANITIZE", "0")
    assert active() is None
    monkeypatch.setenv("XLOOM_SANITIZE", "1")
    assert active() == Settings(False, 60)
    monkeypatch.setenv("XLOOM_SANITIZE", "isolate")
    monkeypatch.setenv("XLOOM_SANITIZE_SECONDS", "2.5")
    assert active() == Settings(True, 2.5)
    with sanitize(seconds=1):
        assert active() == Settings(False, 1)
    monkeypatch.setenv("XLOOM_SANITIZE", "yes")
    with pytest.raises(xl.XloomError, match="'yes'"):
        active()


def test_without_it_nothing_is_guarded(monkeypatch):
    monkeypatch.setattr("xloom.calls.sanitizer.call.sanitized", None)
    kernel("right")
    assert np.array_equal(xl.evaluate(module(), X), X)


@pytest.mark.parametrize("option", ["--sanitize", "--isolate"])
@pytest.mark.parametrize("on", ["cpu", "interpreter"])
def test_command(option, on, tmp_path, monkeypatch, capsys):
    (tmp_path / "m.hlo").write_text(module().to_text())
    (tmp_path / "k.c").write_text(
        textwrap.dedent("""
        #include <xloom/custom_call.h>
        void t(void* out, const void** in) { for (int i = 0; i < 5; ++i) ((float*)out)[i] = 1; }
        XLA_REGISTER_CUSTOM_CALL_TARGET(t, "Host");
        """)
    )
    arguments = ["xloom", "run", str(tmp_path / "m.hlo"), "--load", str(tmp_path / "k.c"), "--on", on]
    monkeypatch.setattr(sys, "argv", [*arguments, option])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert out == "" and "wrote to the element past the end of the result" in err


# -- parts
def test_regions_are_aligned_and_see_each_byte():
    for nbytes in (0, 1, 7, 64, 4096, 5000):
        region = Region(nbytes)
        assert region.address % 64 == 0 and region.data.size == nbytes and region.damage() == []
        region.data[...] = 1
        assert region.damage() == []
        for offset in (-1, -17, nbytes, nbytes + 63):
            other = Region(nbytes)
            ctypes.c_uint8.from_address(other.address + offset).value ^= 1
            assert other.damage() == [offset]


@pytest.mark.parametrize("dtype", [d for d in xl.DTYPES.values() if d.is_array], ids=str)
def test_poison_of_each_type(dtype):
    rng = np.random.default_rng(1)
    data = np.zeros(64 * dtype.numpy.itemsize, np.uint8)
    poison(data, dtype)
    assert np.array_equal(unwritten(data, dtype), np.arange(64))
    array = data.view(dtype.numpy)
    array[:8] = rng.integers(0, 2, 8).astype(np.int32).astype(dtype.numpy)
    array[16:] = rng.integers(0, 2, 48).astype(np.int32).astype(dtype.numpy)
    assert np.array_equal(unwritten(data, dtype), np.arange(8, 16))
    array[...] = np.zeros((), dtype.numpy)
    assert unwritten(data, dtype).size == 0


def test_the_child_does_not_outlive_the_call():
    before = os.getpid()
    kernel("segfault")
    with sanitize(isolate=True), pytest.raises(xl.CustomCallError):
        xl.evaluate(module(), X)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert os.getpid() == before
