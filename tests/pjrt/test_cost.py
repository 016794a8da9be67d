"""Which programs run at once, in the thread that asks for them."""

import pytest

import xloom as xl
from xloom.pjrt import Client, InterpreterCompiler
from xloom.pjrt.execution_mode import ExecutionMode

_LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"
_STATE = "(s32[], f32[1024,1024])"
_LOOP = f"""
more4 {{
  s = {_STATE} parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(4)
  ROOT p = pred[] compare(i, k), direction=LT
}}
more1000 {{
  s = {_STATE} parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(1000)
  ROOT p = pred[] compare(i, k), direction=LT
}}
body {{
  s = {_STATE} parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[1024,1024] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  y = f32[1024,1024] add(x, x)  ROOT t = {_STATE} tuple(j, y)
}}"""


def many(count, size):
    """Sums of so many arrays with themselves."""
    shape, numbers = f"f32[{size}]", range(count)
    lines = [f"x.{k} = {shape} parameter({k})  y.{k} = {shape} add(x.{k}, x.{k})" for k in numbers]
    results = ", ".join(f"y.{k}" for k in numbers)
    return f"{' '.join(lines)}  ROOT t = ({', '.join([shape] * count)}) tuple({results})"


def _loop(count):
    """So many sums of four megabytes."""
    return f"""x = f32[1024,1024] parameter(0)  zero = s32[] constant(0)  t = {_STATE} tuple(zero, x)
      w = {_STATE} while(t), condition=more{count}, body=body  ROOT y = f32[1024,1024] get-tuple-element(w), index=1"""


CHEAP = {
    "a sort": "x = f32[1000] parameter(0)  ROOT y = f32[1000] sort(x), dimensions={0}, to_apply=less",
    "a loop of four": _loop(4),
    "rows of 64 MB": "x = f32[4096,4096] parameter(0)  i = s32[100] parameter(1)  ROOT y = f32[100,4096] gather(x, i), "
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4096}",
    "4 MB": "x = f32[1024,1024] parameter(0)  ROOT y = f32[1024,1024] add(x, x)",
    "32 MB in 400 arrays": many(200, 20_000),
    "moved to and fro": "x = f32[1024,1024] parameter(0)  ROOT y = f32[1024,1024] transpose(x), dimensions={1,0}",
    "a product": "x = f32[96,96] parameter(0)  ROOT y = f32[96,96] dot(x, x), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
}
OTHERS = {
    "64 MB": "x = f32[4096,4096] parameter(0)  ROOT y = f32[4096,4096] add(x, x)",
    "64 MB in 10 arrays": many(5, 1 << 21),
    "a large product": "x = f32[1024,1024] parameter(0)  ROOT y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "much arithmetic": "x.0 = f32[1024,1024] parameter(0)"
    + "".join(f"  x.{k} = f32[1024,1024] tan(x.{k - 1})" for k in range(1, 10)),
    "a call of unknown cost": "x = f32[512,512] parameter(0)  ROOT y = f32[512,512] custom-call(x), "
    'custom_call_target="tests.cost"',
    "a long sort": "x = f32[1000000] parameter(0)  ROOT y = f32[1000000] sort(x), dimensions={0}, to_apply=less",
    "a loop of a thousand": _loop(1000),
}

UNKNOWN_LOOP = """until { s = f32[8,8] parameter(0)  i = s32[] constant(0)  e = f32[1,1] dynamic-slice(s, i, i),
    dynamic_slice_sizes={1,1}  x = f32[] reshape(e)  k = f32[] constant(9)
    ROOT p = pred[] compare(x, k), direction=LT }
  twice { s = f32[8,8] parameter(0)  ROOT r = f32[8,8] add(s, s) }"""
CALLS = {
    "a routine of LAPACK": 'lapack_sgetrf_ffi", api_version=API_VERSION_TYPED_FFI, backend_config="{}"',
    "a call of ours": 'tests.cost"',
}


@xl.custom_call("tests.cost")
def _call(out, x):
    out[...] = x


def is_cheap(body, client=None):
    module = xl.parse(f"HloModule m {_LESS} {_LOOP} ENTRY e {{ {body} }}")
    return (client or Client.cpu()).compile(module).executable.is_cheap


@pytest.mark.parametrize("body", CHEAP.values(), ids=CHEAP)
def test_cheap(body):
    assert is_cheap(body)


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_not_cheap(body):
    assert not is_cheap(body)


def test_only_native_code_is():
    assert not is_cheap(next(iter(CHEAP.values())), Client(InterpreterCompiler()))


@pytest.mark.parametrize("name", CALLS)
def test_loops_beside_calls(name):
    """Only a call that may wait for something is kept from the caller's thread."""
    factors = "(f32[8,8]{0,1}, s32[8], s32[])" if "lapack" in CALLS[name] else "f32[8,8]"
    module = xl.parse(
        f"""HloModule m {UNKNOWN_LOOP} ENTRY e {{ x = f32[8,8]{{0,1}} parameter(0)
        w = f32[8,8] while(x), condition=until, body=twice
        c = {factors} custom-call(x), custom_call_target="{CALLS[name]}
        ROOT t = (f32[8,8], {factors}) tuple(w, c) }}"""
    )
    expected = ExecutionMode.BY_RUN_LENGTH if "lapack" in CALLS[name] else ExecutionMode.ASYNCHRONOUS
    assert Client.cpu().compile(module).executable.execution_mode is expected
