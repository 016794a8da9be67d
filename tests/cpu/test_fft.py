"""Fourier transforms against the interpreter's, which are in f64."""

import numpy as np
import pytest
from kernels import run_kernel

import xloom as xl
from xloom.cpu.kernel_modules import deduplication

KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]


def check(kind: str, dtype: str, outer: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    complex_dtype = {"f32": "c64", "f64": "c128"}[dtype]
    full = ",".join(map(str, (*outer, *lengths)))
    half = ",".join(map(str, (*outer, *lengths[:-1], lengths[-1] // 2 + 1)))
    real, spectrum = f"{dtype}[{full}]", f"{complex_dtype}[{half}]"
    same = f"{complex_dtype}[{full}]"
    operand, result = {"RFFT": (real, spectrum), "IRFFT": (spectrum, real)}.get(kind, (same, same))
    text = (
        f"HloModule m\nENTRY e {{ a = {operand} parameter(0)\n"
        f"ROOT r = {result} fft(a), fft_type={kind}, fft_length={{{','.join(map(str, lengths))}}} }}"
    )
    module = xl.parse(text)
    shape = module.entry.parameters[0].shape
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape.dims)
    if shape.dtype.is_complex:  # whose first point is not real, though IRFFT takes it for real
        x = x + 1j * rng.normal(size=shape.dims)
    x = x.astype(shape.dtype.numpy)
    expected, got = xl.evaluate(module, x), run_kernel(text, x, split=3)
    assert isinstance(got, np.ndarray)
    assert got.dtype == expected.dtype
    tolerance = {"f32": 5e-7, "f64": 4e-15}[dtype] * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 17, 26, 64, 77, 97, 202, 1024, 999])
def test_one_line(kind: str, n: int) -> None:
    check(kind, "f32", (), (n,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 13, 17, 32, 30])
def test_many_lines(kind: str, n: int) -> None:
    check(kind, "f64", (4, 5), (n,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [(6, 7), (5, 4, 6), (16, 32), (19, 3), (1, 1, 2)])
def test_dimensions(kind: str, lengths: tuple[int, ...]) -> None:
    check(kind, "f32", (2,), lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("outer", "n"), [((), 4096), ((2,), 4100), ((), 4099), ((), 2022), ((2,), 1 << 14)])
def test_long_lines(kind: str, outer: tuple[int, ...], n: int) -> None:
    check(kind, "f64", outer, (n,))


@pytest.mark.parametrize("kind", ["FFT", "RFFT"])
def test_no_lines(kind: str) -> None:
    check(kind, "f32", (0,), (4,))


def spectrum_program(kind: str, dims: tuple[int, ...], lengths: tuple[int, ...]) -> xl.Module:
    """A transform of a temporary array, between operators that are steps of their own."""
    full, half = (",".join(map(str, (*dims[:-1], n))) for n in (dims[-1], dims[-1] // 2 + 1))
    operand, result = {"RFFT": (f"f32[{full}]", f"c64[{half}]"), "IRFFT": (f"c64[{half}]", f"f32[{full}]")}.get(
        kind, (f"c64[{full}]",) * 2
    )
    return xl.parse(
        f"ENTRY e {{ p = {operand} parameter(0) a = {operand} negate(p)\n"
        f"f = {result} fft(a), fft_type={kind}, fft_length={{{','.join(map(str, lengths))}}}\n"
        f"ROOT r = {result} negate(f) }}"
    )


@pytest.mark.parametrize(
    ("kind", "dims", "lengths", "arrays"),
    [
        ("FFT", (64, 300), (300,), 0),  # in the result, from first to last
        ("FFT", (37, 300), (300,), 1),  # of the last lines some would be done twice
        ("IFFT", (3, 32, 53, 19), (32, 53, 19), 0),
        ("FFT", (1 << 14,), (1 << 14,), 1),
        ("RFFT", (64, 500), (500,), 0),
        ("RFFT", (3, 64, 90), (64, 90), 0),
        ("IRFFT", (64, 500), (500,), 0),
        ("IRFFT", (1 << 15,), (1 << 15,), 1),
    ],
)
def test_transforms_in_place(kind: str, dims: tuple[int, ...], lengths: tuple[int, ...], arrays: int) -> None:
    module = spectrum_program(kind, dims, lengths)
    shape = module.entry.parameters[0].shape
    x = np.random.default_rng(0).normal(size=(*shape.dims, 2)).astype(np.float32)
    x = x.view(np.complex64)[..., 0] if shape.dtype.is_complex else x[..., 0]
    executable = xl.compile(module)
    beside = shape.nbytes if kind in ("RFFT", "IRFFT") else 0  # what is negated
    needed = beside + arrays * module.entry.root.shape.nbytes
    assert executable.memory.temporary_bytes <= -(-needed // 64) * 64
    expected = xl.evaluate(module, x)
    np.testing.assert_allclose(executable(x), expected, rtol=0, atol=5e-7 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("outer", "n"), [((), 1 << 18), ((3,), 99_999 * 2), ((2, 2), 40_000), ((3,), 6 * 7 * 11 * 13)])
def test_long_lines_need_no_memory(kind: str, outer: tuple[int, ...], n: int) -> None:
    """What the first half of a transform makes lies where the second half's results do."""
    real, spectrum = (f"{t}[{','.join(map(str, (*outer, m)))}]" for t, m in (("f32", n), ("c64", n // 2 + 1)))
    full = real.replace("f32", "c64")
    operand, result = {"RFFT": (real, spectrum), "IRFFT": (spectrum, real)}.get(kind, (full, full))
    module = xl.parse(
        f"ENTRY e {{ x = {operand} parameter(0) ROOT y = {result} fft(x), fft_type={kind}, fft_length={{{n}}} }}"
    )
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == 0
    shape = module.entry.parameters[0].shape
    x = np.random.default_rng(0).normal(size=(*shape.dims, 2)).astype(np.float32)
    x = x.view(np.complex64)[..., 0] if shape.dtype.is_complex else x[..., 0]
    expected = xl.evaluate(module, x)
    np.testing.assert_allclose(executable(x), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("n", [101, 257])
def test_the_sum_of_real_points_is_real(n: int) -> None:
    text = (
        f"ENTRY e {{ a = f64[{n}] parameter(0) ROOT r = c128[{n // 2 + 1}] fft(a), fft_type=RFFT, fft_length={{{n}}} }}"
    )
    assert run_kernel(text, np.random.default_rng(0).normal(size=n))[0].imag == 0


@pytest.mark.parametrize("kind", ["FFT", "IRFFT"])
def test_one_kernel_serves_any_number_of_transforms_of_any_length(kind, monkeypatch, tmp_path):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))  # an earlier run's kernels serve, too
    emitted = []
    emit = deduplication._for_sizes
    monkeypatch.setattr(deduplication, "_for_sizes", lambda form, *rest: emitted.append(form.text) or emit(form, *rest))
    x = np.random.default_rng(0).standard_normal((77, 509)) + 1j
    # passes in registers, passes by loops, a convolution; of the last count vectors are full
    for count, n in ((70, 91), (77, 91), (77, 35), (71, 17 * 23), (75, 509), (72, 91)):
        points = 2 * (n - 1) if kind == "IRFFT" else n
        result = "f64" if kind == "IRFFT" else "c128"
        text = f"HloModule m\nENTRY e {{ x = c128[{count},{n}] parameter(0)\n ROOT y = {result}[{count},{points}] fft(x), fft_type={kind}, fft_length={{{points}}} }}"
        lines = x[:count, :n]
        expected = np.fft.fft(lines) if kind == "FFT" else np.fft.irfft(lines)
        np.testing.assert_allclose(xl.compile(xl.parse(text))(lines), expected, rtol=1e-9, atol=1e-9)
    assert len(emitted) in (0, 2)  # the package may have brought both


def test_kernels_of_one_form_in_a_program_read_their_own_tables():
    text = """ENTRY e { x = c64[4,36] parameter(0) y = c64[4,35] parameter(1) big = f32[1000] constant({...})
        a = c64[4,36] fft(x), fft_type=FFT, fft_length={36} b = c64[4,35] fft(y), fft_type=FFT, fft_length={35}
        ROOT r = (c64[4,36], c64[4,35], f32[1000]) tuple(a, b, big) }""".replace(
        "{...}", "{" + ", ".join(map(str, range(1000))) + "}"
    )
    rng = np.random.default_rng(0)
    x, y = ((rng.normal(size=(4, n)) + 1j * rng.normal(size=(4, n))).astype(np.complex64) for n in (36, 35))
    executable = xl.compile(xl.parse(text))
    a, b, big = executable(x, y)
    np.testing.assert_allclose(a, np.fft.fft(x), rtol=0, atol=1e-5)
    np.testing.assert_allclose(b, np.fft.fft(y), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(big, np.arange(1000))
    assert executable.memory.constant_bytes > 4000 + 8 * (36 + 35)
