"""When the units of a device are busy: beside each other, where values and buffers allow."""

import numpy as np

import xloom as xl
from xloom.sim import Simulator, as_matrices, operator
from xloom.sim.timeline import Timeline


def test_transfers_overlap_with_work_on_what_came_before() -> None:
    line = Timeline()
    line.begin(0)
    for _ in range(4):
        line.load("dma", 10)
        line.compute("matrix", 7)
    line.store("dma", 5)
    # 10 | 10 with 7 | 10 with 7 | 10 with 7 | 7 | 5
    assert (line.loaded, line.done, line.elapsed) == (40, 52, 52)


def test_there_are_two_buffers() -> None:
    line = Timeline()
    line.begin(0)
    for _ in range(4):
        line.load("dma", 1)
        line.compute("matrix", 100)
    # the third load waits for the first tile's work, 101; the fourth for the second's, 201
    assert (line.loaded, line.done) == (202, 401)


def test_instructions_wait_for_their_operands_alone() -> None:
    line = Timeline()
    line.begin(0)
    line.compute("matrix", 50)
    line.begin(0)
    line.compute("vector", 20)
    assert line.done == 20
    line.begin(50)
    line.compute("vector", 5)
    assert (line.done, line.elapsed) == (55, 55)


class Device(Simulator):
    platform = "timed"
    native = True

    @operator("dot")
    def product(self, instruction, lhs, rhs):
        x, y = (self.load(v) for v in as_matrices(instruction, lhs, rhs))
        self.charge("matrix", 100)
        return self.store((x @ y).reshape(instruction.shape.dims))

    def cost(self, instruction):
        return {"vector": 30}

    def dma_cycles(self, nbytes):
        return 10


PROGRAM = """HloModule p
ENTRY main {
  a = f32[4,4] parameter(0)
  b = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,4] exponential(OPERAND)
  ROOT r = (f32[4,4], f32[4,4]) tuple(b, c)
}"""


def elapsed(operand: str) -> tuple[int, int]:
    device = Device()
    device.run(xl.parse(PROGRAM.replace("OPERAND", operand)), np.ones((4, 4), np.float32))
    assert device.ledger.total == {"dma": 40, "matrix": 100, "vector": 30}
    return device.ledger.timeline.elapsed, device.ledger.total.total()


def test_what_depends_comes_later_and_what_does_not_beside() -> None:
    dependent, busy = elapsed("b")
    assert (dependent, busy) == (10 + 10 + 100 + 10 + 10 + 30, 170)
    # what it needs comes while the matrix unit works, before the product is stored
    assert elapsed("a")[0] == 10 + 10 + 100 + 10


def test_runs_and_iterations_come_one_after_the_other() -> None:
    device = Device()
    module = xl.parse(PROGRAM.replace("OPERAND", "b"))
    for _ in range(2):
        device.run(module, np.ones((4, 4), np.float32))
    assert device.ledger.timeline.elapsed == 2 * 170
    assert device.ledger.report().splitlines()[-1].split()[:4] == ["340", "23.5%", "58.8%", "17.6%"]
    device.ledger.clear()
    assert device.ledger.timeline.elapsed == 0
