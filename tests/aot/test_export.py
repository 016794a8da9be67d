"""Programs compiled ahead of time, called from C and from Python."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.aot.interface import identifier, interface_of

PRODUCT = """HloModule product
ENTRY main {
  x = f32[300,200] parameter(0)
  w = f32[200,100] parameter(1)
  c = f32[100] constant({CONSTANT})
  d = f32[300,100] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[300,100] sine(d)
  b = f32[300,100] broadcast(c), dimensions={1}
  ROOT t = (f32[300,100], f32[300,100]) tuple(s, b)
}""".replace("CONSTANT", ", ".join(map(str, range(100))))
HALVED = """HloModule halved
ENTRY main {
  x = f32[1000] parameter(0)
  ROOT r = f32[1000] custom-call(x), custom_call_target="halve", api_version=VERSION, backend_config="2"
}"""
HALVE = {
    "API_VERSION_ORIGINAL": """void halve(void *out, const void **in) {
  for (int k = 0; k < 1000; ++k) ((float *)out)[k] = ((const float **)in)[0][k] / 2; }""",
    "API_VERSION_STATUS_RETURNING": """#include <xloom/custom_call.h>
void halve(void *out, const void **in, XlaCustomCallStatus *status) {
  if (((const float **)in)[0][0] < 0) { XlaCustomCallStatusSetFailure(status, "less than nothing", 17); return; }
  for (int k = 0; k < 1000; ++k) ((float *)out)[k] = ((const float **)in)[0][k] / 2; }""",
    "API_VERSION_STATUS_RETURNING_UNIFIED": """#include <xloom/custom_call.h>
void halve(void *out, const void **in, const char *opaque, size_t length, XlaCustomCallStatus *status) {
  if (length != 1) { XlaCustomCallStatusSetFailure(status, "one digit", 9); return; }
  for (int k = 0; k < 1000; ++k) ((float *)out)[k] = ((const float **)in)[0][k] / (opaque[0] - '0'); }""",
}


def arrays(*dims: tuple[int, ...]) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    return [r.standard_normal(d).astype(np.float32) for d in dims]


@pytest.mark.parametrize("apart", [False, True])
def test_the_results_are_those_of_the_compiled_program(tmp_path, apart):
    module = xl.parse(PRODUCT)
    saved = xl.export(module).save(tmp_path / "libproduct.so", weights=tmp_path / "w" if apart else None)
    loaded = xl.load_exported(saved.program, saved.weights)
    arguments = arrays((300, 200), (200, 100))
    for found, expected in zip(loaded(*arguments), xl.compile(module)(*arguments), strict=True):
        assert np.array_equal(found, expected)


def test_threads_take_turns(tmp_path):
    loaded = xl.load_exported(xl.export(xl.parse(PRODUCT)).save(tmp_path / "libproduct.so").program)
    arguments = arrays((300, 200), (200, 100))
    expected = loaded(*arguments)[0]
    with ThreadPoolExecutor(4) as threads:
        assert all(np.array_equal(r[0], expected) for r in threads.map(lambda _: loaded(*arguments), range(40)))


def test_weights_of_another_program_are_refused(tmp_path):
    saved = xl.export(xl.parse(PRODUCT)).save(tmp_path / "liba.so", weights=tmp_path / "a")
    other = xl.export(xl.parse(PRODUCT.replace("99}", "98}"))).save(tmp_path / "libb.so", weights=tmp_path / "b")
    for weights in (None, other.weights, saved.header):
        with pytest.raises(xl.EvaluationError, match="weights"):
            xl.load_exported(saved.program, weights)


def test_another_library_is_no_exported_program(tmp_path):
    (tmp_path / "a.c").write_text("int a;")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True)
    with pytest.raises(xl.XloomError, match="is no exported program"):
        xl.load_exported(tmp_path / "a.so")


def test_arguments_that_do_not_fit(tmp_path):
    loaded = xl.load_exported(xl.export(xl.parse(PRODUCT)).save(tmp_path / "libproduct.so").program)
    with pytest.raises(xl.ShapeError, match="takes 2 arguments, found 1"):
        loaded(np.zeros(3))
    with pytest.raises(xl.ShapeError, match=r"argument w must be f32\[200,100\], found float64\[200, 100\]"):
        loaded(np.zeros((300, 200), np.float32), np.zeros((200, 100)))


@pytest.mark.parametrize("version", HALVE)
def test_custom_calls_are_the_linkers_symbols(tmp_path, version):
    (tmp_path / "halve.c").write_text(HALVE[version])
    exported = xl.export(xl.parse(HALVED.replace("VERSION", version)))
    assert "Link with what defines halve." in exported.header()
    saved = exported.save(tmp_path / "libhalved.so", link_with=[tmp_path / "halve.c"])
    loaded = xl.load_exported(saved.program)
    x = np.arange(1, 1001, dtype=np.float32)
    assert np.array_equal(loaded(x), x / 2)
    if version == "API_VERSION_STATUS_RETURNING":
        with pytest.raises(xl.EvaluationError, match=r"halve \(at %r\): less than nothing"):
            loaded(-x)
        assert np.array_equal(loaded(x), x / 2)


MAIN = """
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "product.h"
#include "halved.h"
void halve(void *out, const void **in) { for (int k = 0; k < 1000; ++k) ((float *)out)[k] = ((const float **)in)[0][k] / 2; }

static int calls;
static void backwards(void *pool, void (*body)(void *, int64_t), void *context, int64_t count) {
  ++*(int *)pool;
  while (count-- > 0) body(context, count);
}
static float x[300][200], w[200][100], s[4][300][100], b[300][100];
static void *runs(void *number) {
  product *p;
  if (product_create(&p) != PRODUCT_OK) exit(2);
  product_arguments arguments = {x[0], w[0]};
  product_results results = {s[(size_t)number][0], b[0]};
  for (int k = 0; k < 20; ++k)
    if (product_run(p, &arguments, &results) != PRODUCT_OK) exit(3);
  product_destroy(p);
  return NULL;
}
int main(void) {
  for (int i = 0; i < 60000; ++i) x[0][i] = sinf(i);
  for (int i = 0; i < 20000; ++i) w[0][i] = cosf(i);
  pthread_t threads[3];
  for (size_t k = 0; k < 3; ++k) pthread_create(&threads[k], NULL, runs, (void *)k);
  for (size_t k = 0; k < 3; ++k) pthread_join(threads[k], NULL);
  product_limit_threads(1);
  product_use_threads(backwards, &calls, 5);
  runs((void *)3);
  for (int k = 1; k < 4; ++k)
    for (int i = 0; i < 30000; ++i)
      if (s[k][0][i] != s[0][0][i]) exit(4);
  product *p;
  product_create(&p);
  product_arguments arguments = {x[0], NULL};
  product_results results = {s[0][0], b[0]};
  int refused = product_run(p, &arguments, &results) == PRODUCT_BAD_ARGUMENT;
  printf("%d %s\\n", refused, product_message(p));
  product_destroy(p);
  halved *h;
  halved_create(&h);
  float four[1000] = {2, 4, 6, 8};
  halved_arguments given = {four};
  _Alignas(64) float half[1016];
  halved_results made = {half};
  halved_status status = halved_run(h, &given, &made);
  printf("%d %g %g\\n", status, half[0], half[3]);
  made.result = (float *)((char *)half + 4);
  status = halved_run(h, &given, &made);
  printf("%d %s\\n", status, halved_message(h));
  halved_destroy(h);
  return 0;
}"""


def test_two_object_files_in_one_program_of_several_threads(tmp_path):
    xl.export(xl.parse(PRODUCT), threads=4).save(tmp_path / "product.o")
    xl.export(xl.parse(HALVED.replace("VERSION", "API_VERSION_ORIGINAL"))).save(tmp_path / "halved.o")
    (tmp_path / "main.c").write_text(MAIN)
    command = [
        "cc",
        "-Wall",
        "-Werror",
        "-std=c11",
        "main.c",
        "product.o",
        "halved.o",
        "-lm",
        "-lpthread",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "1 argument w is NULL",
        "0 1 4",
        "4 result result is for a custom call, and must lie at a multiple of 64 bytes",
    ]


def test_only_the_headers_functions_are_visible(tmp_path):
    saved = xl.export(xl.parse(PRODUCT)).save(tmp_path / "libproduct.so")
    told = subprocess.run(["nm", "-D", "--defined-only", saved.program], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in told.stdout.splitlines()}
    assert all(name.startswith("product_") or name == "xloom_exported_interface" for name in names)
    declared = saved.header.read_text()
    assert all(f"{name}(" in declared for name in names - {"product_interface", "xloom_exported_interface"})


def test_the_header_compiles_as_c_and_as_cpp(tmp_path):
    types = ("pred", "s8", "u16", "s64", "f16", "bf16", "f64", "c64", "c128", "f8e4m3fn", "s4")
    parameters = "\n".join(f"p{k} = {t}[2] parameter({k})" for k, t in enumerate(types))
    names = ", ".join(f"p{k}" for k in range(len(types)))
    text = (
        f"HloModule types\nENTRY e {{ {parameters}\n ROOT t = ({', '.join(f'{t}[2]' for t in types)}) tuple({names}) }}"
    )
    (tmp_path / "types.h").write_text(xl.export(xl.parse(text)).header())
    for compiler, file in (("cc", "a.c"), ("c++", "a.cpp")):
        (tmp_path / file).write_text('#include "types.h"\n#include "types.h"\ntypes_arguments a; types_results r;\n')
        command = [compiler, "-Wall", "-Werror", "-pedantic", "-c", file, "-o", "a.o"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_results_may_lie_where_arguments_do(tmp_path):
    module = xl.parse("""HloModule step, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { state = f32[8] parameter(0) one = f32[] constant(1) ones = f32[8] broadcast(one), dimensions={}
ROOT next = f32[8] add(state, ones) }""")
    exported = xl.export(module)
    assert "may be the memory of state" in exported.header()
    loaded = xl.load_exported(exported.save(tmp_path / "libstep.so").program)
    assert np.array_equal(loaded(np.zeros(8, np.float32)), np.ones(8))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ENTRY e { t = token[] after-all() i = (f32[2], token[]) infeed(t) "
            "ROOT r = f32[2] get-tuple-element(i), index=0 }",
            "has no infeed",
        ),
        ("ENTRY e { a = f32[<=4] parameter(0) ROOT r = f32[<=4] negate(a) }", "dynamic size cannot be exported"),
        ("ENTRY e { ROOT r = () tuple() }", "a program without results"),
    ],
)
def test_what_needs_python_is_refused(text, message):
    with pytest.raises(xl.LoweringError, match=message):
        xl.export(xl.parse(text))


def test_a_program_for_another_architecture_is_refused():
    with pytest.raises(xl.LoweringError, match="cannot be exported on"):
        xl.export(xl.parse(PRODUCT), target="aarch64")


def test_names_are_identifiers_and_differ():
    assert [identifier(n) for n in ("int", "Arg_0.1", "3d", "a--b", "λ")] == [
        "_int",
        "Arg_0_1",
        "_3d",
        "a_b",
        "program",
    ]
    module = xl.parse(PRODUCT)
    told = interface_of(module, "a b", ["x", "x"], ["y.1", "y_1"])
    assert (told.name, [a.name for a in told.arguments], [r.name for r in told.results]) == (
        "a_b",
        ["x", "x_1"],
        ["y_1", "y_1_1"],
    )


def test_a_failing_linker_says_why(tmp_path):
    (tmp_path / "bad.c").write_text("void f(void) { g( }")
    with pytest.raises(xl.LoweringError, match=r"bad\.c"):
        xl.export(xl.parse(PRODUCT)).save(tmp_path / "liba.so", link_with=[Path(tmp_path / "bad.c")])


def test_something_else_cannot_be_exported():
    with pytest.raises(xl.XloomError, match="a int cannot be exported"):
        xl.export(3)


TILES = """HloModule tiles
ENTRY main {
  x = bf16[64,64] parameter(0)
  ROOT d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}"""
TILES_MAIN = """
#include <stdio.h>
#include "tiles.h"
static uint16_t x[4096];
static float d[4096];
int main(void) {
  for (int k = 0; k < 4096; ++k) x[k] = 0x3f80;
  tiles *p;
  tiles_status status = tiles_create(&p);
  tiles_arguments arguments = {(void *)x};
  tiles_results results = {d};
  if (status == TILES_OK) status = tiles_run(p, &arguments, &results);
  printf("%d %g %g\\n", status, d[0], d[4095]);
  return 0;
}"""


def test_a_program_asks_for_the_registers_that_it_needs(tmp_path):
    xl.export(xl.parse(TILES)).save(tmp_path / "tiles.o")
    (tmp_path / "main.c").write_text(TILES_MAIN)
    subprocess.run(["cc", "main.c", "tiles.o", "-lm", "-lpthread", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 64 64\n")
