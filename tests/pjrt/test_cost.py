"""Which programs run at once, in the thread that asks for them."""

import pytest

import xloom as xl
from xloom.pjrt import Client


def many(count, size):
    """Sums of so many arrays with themselves."""
    shape, numbers = f"f32[{size}]", range(count)
    lines = [f"x.{k} = {shape} parameter({k})  y.{k} = {shape} add(x.{k}, x.{k})" for k in numbers]
    results = ", ".join(f"y.{k}" for k in numbers)
    return f"{' '.join(lines)}  ROOT t = ({', '.join([shape] * count)}) tuple({results})"


CHEAP = {
    "4 MB": "x = f32[1024,1024] parameter(0)  ROOT y = f32[1024,1024] add(x, x)",
    "20 MB in 400 arrays": many(200, 1 << 14),
    "a product": "x = f32[96,96] parameter(0)  ROOT y = f32[96,96] dot(x, x), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
}
OTHERS = {
    "64 MB": "x = f32[4096,4096] parameter(0)  ROOT y = f32[4096,4096] add(x, x)",
    "20 MB in 10 arrays": many(5, 1 << 19),
    "a large product": "x = f32[512,512] parameter(0)  ROOT y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "much arithmetic": "x = f32[512,1024] parameter(0)  a = f32[512,1024] tan(x)  ROOT y = f32[512,1024] tan(a)",
    "moved to and fro": "x = f32[1024,1024] parameter(0)  ROOT y = f32[1024,1024] transpose(x), dimensions={1,0}",
    "a call of unknown cost": "x = f32[512,512] parameter(0)  ROOT y = f32[512,512] custom-call(x), "
    'custom_call_target="tests.cost"',
    "a sort": "x = f32[8] parameter(0)  ROOT y = f32[8] sort(x), dimensions={0}, to_apply=less",
}
_LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"


@xl.custom_call("tests.cost")
def _call(out, x):
    out[...] = x


def is_cheap(body):
    return Client.cpu().compile(xl.parse(f"HloModule m {_LESS} ENTRY e {{ {body} }}")).executable.is_cheap


@pytest.mark.parametrize("body", CHEAP.values(), ids=CHEAP)
def test_cheap(body):
    assert is_cheap(body)


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_not_cheap(body):
    assert not is_cheap(body)
