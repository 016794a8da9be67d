"""Infeed, outfeed, send and receive in compiled programs."""

import numpy as np
import pytest

import xloom as xl

COUNTED = """c { s = (s32[], f32[3], token[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[3], token[]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) x = f32[3] get-tuple-element(s), index=1 k = token[] get-tuple-element(s), index=2
  f = ((f32[3], s32[]), token[]) infeed(k) d = (f32[3], s32[]) get-tuple-element(f), index=0
  k2 = token[] get-tuple-element(f), index=1
  v = f32[3] get-tuple-element(d), index=0 y = f32[3] add(x, v) q = (f32[3], (f32[3], s32[])) tuple(y, d)
  k3 = token[] outfeed(q, k2), outfeed_shape=(f32[3], (f32[3], s32[]))
  ROOT t = (s32[], f32[3], token[]) tuple(j, y, k3) }
ENTRY e { i = s32[] constant(0) p = f32[3] parameter(0) k = token[] after-all()
  s = (s32[], f32[3], token[]) tuple(i, p, k) w = (s32[], f32[3], token[]) while(s), condition=c, body=b
  ROOT r = f32[3] get-tuple-element(w), index=1 }"""
FED = [(np.full(3, k, np.float32), np.int32(k)) for k in range(4)]
X = np.arange(3, dtype=np.float32)


def test_infeed_and_outfeed_in_a_loop():
    module = xl.parse(COUNTED)
    executable = xl.compile(module)
    assert np.array_equal(executable(X, infeed=FED), xl.evaluate(module, X, infeed=FED))
    executable(X, infeed=iter(FED))
    assert len(executable.outfeed) == 8
    total = X
    for k, (sum_, (data, number)) in enumerate(executable.outfeed[:4]):
        total = total + k
        assert np.array_equal(sum_, total) and np.array_equal(data, FED[k][0]) and number == k


def test_an_empty_infeed_and_a_wrong_value_end_the_program():
    module = xl.parse(COUNTED)
    executable = xl.compile(module)
    with pytest.raises(xl.EvaluationError) as expected:
        xl.evaluate(module, X, infeed=FED[:2])
    with pytest.raises(xl.EvaluationError, match="queue is empty") as found:
        executable(X, infeed=FED[:2])
    assert str(found.value) == str(expected.value)
    assert len(executable.outfeed) == 2
    with pytest.raises(xl.ShapeError, match=r"f must be a tuple|argument f"):
        executable(X, infeed=[np.zeros(3, np.float32)])


@pytest.mark.parametrize("size", [3, 500])
def test_send_and_receive_on_one_device(size):
    module = xl.parse(f"""ENTRY e {{ p = f32[{size}] parameter(0) n = f32[{size}] negate(p) k = token[] after-all()
      s = (f32[{size}], u32[], token[]) send(n, k), channel_id=3, is_host_transfer=true
      sd = token[] send-done(s), channel_id=3, is_host_transfer=true
      r = (f32[{size}], u32[], token[]) recv(sd), channel_id=3, is_host_transfer=true
      rd = (f32[{size}], token[]) recv-done(r), channel_id=3, is_host_transfer=true
      d = f32[{size}] get-tuple-element(rd), index=0 ROOT z = f32[{size}] add(d, p) }}""")
    x = np.arange(size, dtype=np.float32)
    assert np.array_equal(xl.compile(module)(x), xl.evaluate(module, x))


def test_receiving_nothing_is_an_error():
    module = xl.parse("""ENTRY e { k = token[] after-all() r = (f32[], u32[], token[]) recv(k), channel_id=3
      rd = (f32[], token[]) recv-done(r), channel_id=3 ROOT d = f32[] get-tuple-element(rd), index=0 }""")
    with pytest.raises(xl.EvaluationError) as expected:
        xl.evaluate(module)
    with pytest.raises(xl.EvaluationError, match="nothing was sent on channel 3") as found:
        xl.compile(module)()
    assert str(found.value) == str(expected.value)


def test_device_numbers():
    module = xl.parse(
        """ENTRY e { a = u32[] partition-id() b = u32[] replica-id() ROOT t = (u32[], u32[]) tuple(a, b) }"""
    )
    assert xl.compile(module)() == (0, 0)


def test_an_unused_infeed_is_still_taken():
    module = xl.parse("""ENTRY e { k = token[] after-all() a = (f32[], token[]) infeed(k) b = (f32[], token[]) infeed(k)
      ROOT x = f32[] get-tuple-element(b), index=0 }""")
    values = [np.float32(1), np.float32(2)]
    assert xl.compile(module)(infeed=values) == xl.evaluate(module, infeed=values) == 2
