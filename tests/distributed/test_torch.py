"""Two processes of PyTorch, by MPI and without; and the example, one of whose processes dies."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("torch")

PROGRAMS = Path(__file__).with_name("torch_programs.py")
COLLECTIVES = [
    "reductions",
    "averages",
    "broadcasts",
    "gathers",
    "gathers_to_one",
    "scatters",
    "reduce_scatters",
    "exchanges",
    "of_wrong_arguments",
    "between_two",
    "into_views",
    "beside_autograd",
    "dispatched",
    "waited_for_as_one",
    "objects",
    "one_prints",
    "of_groups",
    "functional",
    "functional_of_the_host",
    "one_is_not_at_the_barrier",
]
WRAPPERS = [
    "data_parallel",
    "data_parallel_from_the_third_step",
    "data_parallel_on_the_default_device",
    "data_parallel_with_unused_parameters",
    "optimizer_in_parts",
    "synchronised_batch_norm",
    "sharded",
    "tensor_parallel",
    "fully_sharded",
    "fully_sharded_in_part",
    "fully_sharded_unevenly",
    "fully_sharded_from_the_host",
    "fully_sharded_kept_on_the_host",
    "fully_sharded_by_flat_parameters",
    "fully_sharded_whole_state_on_the_host",
    "fully_sharded_holds_parts",
    "checkpoints",
    "compiled",
    "compiled_on_device",
    "names_of_torch_xla",
]
"""What calls them, whatever engine they have."""
COMPILED = ["compiled_data_parallel", "compiled_fully_sharded", "compiled_tensor_parallel"]
BY_MPI = [*COLLECTIVES, "in_the_callers_thread", *WRAPPERS]
BY_GLOO = [*COLLECTIVES, "compiled"]


@pytest.fixture(scope="module")
def by_mpi():
    if not library.find().path:
        pytest.skip(library.find().why_not)
    return finish(start(PROGRAMS, BY_MPI))


@pytest.mark.parametrize("name", BY_MPI)
def test_program(by_mpi, name):
    check(by_mpi, name)


ENGINES = {
    "mpi": pytest.param({}, marks=pytest.mark.skipif(not library.find().path, reason=library.find().why_not)),
    "gloo": {"XLOOM_MPI": "none"},
}
"""What the environment says."""


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_programs_that_differ(engine):
    names = ["other_shapes", "other_shapes_later"]
    both = finish(start(PROGRAMS, names, XLOOM_DISTRIBUTED_TIMEOUT="20", **engine))
    for name in names:
        check(both, name)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("name", ["one_dies", "one_dies_before_many"])
def test_who_dies_is_named(engine, name):
    (_, said, errors), (status, _, _) = finish(start(PROGRAMS, [name], XLOOM_DISTRIBUTED_TIMEOUT="20", **engine))
    assert status < 0
    assert re.search(r"process 0 (has )?waited [\d.]+ s for process 1,? .*f32\[(2,)?3\]", said), said + errors


@pytest.mark.skipif(not library.find().path, reason=library.find().why_not)
def test_who_ends_is_waited_for_in_no_run():
    (_, said, errors), (status, _, _) = finish(start(PROGRAMS, ["one_ends_before_many"]))
    assert status == 0
    assert re.search(r"process 0 waited for process 1 at .*f32\[2,18\].*, and was ended: process 1 has ended", said), (
        said + errors
    )


@pytest.fixture(scope="module")
def by_gloo():
    return finish(start(PROGRAMS, BY_GLOO, XLOOM_MPI="none"))


@pytest.mark.parametrize("name", BY_GLOO)
def test_program_without_mpi(by_gloo, name):
    check(by_gloo, name)


def check(processes, name):
    for status, out, errors in processes:
        assert f"ok {name}\n" in out, out[out.find(f"failed\n{name}\n") :] or errors
        assert status == 0, errors


@pytest.fixture(scope="module")
def compiled():
    if not library.find().path:
        pytest.skip(library.find().why_not)
    return finish(start(PROGRAMS, COMPILED))


@pytest.mark.long
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(compiled, name):
    check(compiled, name)


def job(*arguments: str) -> subprocess.Popen[str]:
    """Two processes of the example, which are all started again if one dies, with a new store."""
    example = Path(__file__).parent.parent.parent / "examples" / "train_fsdp2.py"
    command = ["--nproc-per-node", "2", "--max-restarts", "1", "--standalone", str(example)]
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *command, *arguments],
        env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(said: str) -> list[str]:
    return re.findall(r"step +(\d+: loss [\d.]+)", said)


def second_process(of: int) -> int:
    """The child with rank 1."""
    for child in Path(f"/proc/{of}/task/{of}/children").read_text().split():
        if b"RANK=1" in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError("no process has rank 1")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds the process to end in /proc")
def test_the_example_goes_on_when_a_process_was_killed(tmp_path):
    ((status, out, errors),) = finish([job("--steps", "40")])
    assert status == 0, errors
    whole = losses(out)
    assert float(whole[-1].split()[-1]) < float(whole[0].split()[-1]) / 2
    running = job("--steps", "40", "--checkpoint", str(tmp_path))
    assert running.stdout is not None
    seen = ""
    for line in running.stdout:
        seen += line
        if len(losses(seen)) == 2:
            break
    os.kill(second_process(running.pid), signal.SIGKILL)
    ((status, out, errors),) = finish([running])
    assert status == 0, errors
    assert losses(seen + out)[-1] == whole[-1]
