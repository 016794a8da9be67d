"""Programs of several devices, checked: the device that does it says which instruction, and the others have results."""

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from xloom.checks import NotCheckedWarning
from xloom.cli.main import cli
from xloom.errors import CheckError, XloomError
from xloom.pjrt import Client

PROGRAM = """HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { x = f32[4] parameter(0) l = f32[4] log(x)
  one = f32[] constant(1) ones = f32[4] broadcast(one), dimensions={} d = f32[4] add(l, ones)
  r = f32[4] all-reduce(d), replica_groups={}, to_apply=sum ROOT t = (f32[4], f32[4]) tuple(r, d) }"""
LOOP = """HloModule m, replica_count=2
body { s = (s32[], f32[4]) parameter(0) k = s32[] get-tuple-element(s), index=0 x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1) n = s32[] add(k, one) y = f32[4] sqrt(x)
  m = f32[4] collective-permute(y), source_target_pairs={{0,1},{1,0}} z = f32[4] negate(m)
  ROOT r = (s32[], f32[4]) tuple(n, z) }
condition { s = (s32[], f32[4]) parameter(0) k = s32[] get-tuple-element(s), index=0 c = s32[] constant(2)
  ROOT p = pred[] compare(k, c), direction=LT }
ENTRY main { x = f32[4] parameter(0) zero = s32[] constant(0) t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body ROOT y = f32[4] get-tuple-element(w), index=1 }"""


@pytest.fixture
def client():
    made = Client.cpu(2)
    yield made
    made.close()


def _execute(client, text, arrays):
    rows = [[client.buffer_from_host(a, d)] for a, d in zip(arrays, client.devices, strict=True)]
    return client.compile(xl.parse(text)).execute_sharded(rows)


def test_the_device_that_does_it_says_which_instruction(client, monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "nan")
    good, bad = np.ones(4, np.float32), np.array([1, -1, 1, 1], np.float32)
    for row in _execute(client, PROGRAM, [good, good]):
        assert np.array_equal(np.asarray(row[0]), [2, 2, 2, 2]) and np.array_equal(np.asarray(row[1]), good)
    first, second = _execute(client, PROGRAM, [good, bad])
    assert np.isnan(np.asarray(first[0])[1])  # what another device made
    with pytest.raises(XloomError, match=r"log does what is checked for \(nan\) on this device \(at l\)") as found:
        np.asarray(second[0])
    assert isinstance(found.value, CheckError) and found.value.instruction == "l"


def test_a_loop_is_named_as_a_whole(client, monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "nan,inf")
    ones = np.ones(4, np.float32)
    for row in _execute(client, LOOP, [ones, ones]):  # sqrt(-1) in the second iteration, of both
        with pytest.raises(CheckError, match=r"while does what is checked for .* \(at w\)"):
            np.asarray(row[0])


def test_the_command_runs_it_on_all_devices(tmp_path):
    (tmp_path / "m.hlo").write_text(PROGRAM)
    np.save(tmp_path / "bad.npy", np.array([1, -1, 1, 1], np.float32))
    np.save(tmp_path / "good.npy", np.ones(4, np.float32))

    def run(*options):
        return CliRunner().invoke(cli, ["run", str(tmp_path / "m.hlo"), *options], standalone_mode=False)

    good = run("-i", str(tmp_path / "good.npy"), "--check", "nan", "--compare", "interpreter", "-o", str(tmp_path))
    assert good.exit_code == 0 and "equal to interpreter" in good.output
    for device in range(2):
        assert np.array_equal(np.load(tmp_path / f"device{device}.out0.npy"), [2, 2, 2, 2])
    bad = run("-i", str(tmp_path / "bad.npy"), "--check", "nan")
    assert isinstance(bad.exception, CheckError)
    assert bad.exception.message.startswith("device 0: log does what is checked for (nan)")
    assert "one device alone" in str(run("--on", "interpreter", "--check", "nan").exception)
    assert "the interpreter alone" in str(run("--compare", "jaxlib").exception)


def test_what_is_not_checked_is_said():
    text = """HloModule m
      ENTRY main { x = f32[<=4] parameter(0) y = f32[<=4] log(x) t = token[] after-all()
      c = f32[2] constant({1,2}) o = token[] outfeed(c, t), outfeed_shape=f32[2] ROOT r = f32[<=4] negate(y) }"""
    with pytest.warns(NotCheckedWarning, match="m is not checked for nan: it has arrays of dynamic size"):
        xl.compile(xl.parse(text), check=["nan"])


def test_run_on_one_device_it_says_how_many_it_is_for():
    with pytest.raises(XloomError, match=r"a program of 2 devices, run on one \(at m\)"):
        xl.compile(xl.parse(PROGRAM))(np.ones(4, np.float32))
