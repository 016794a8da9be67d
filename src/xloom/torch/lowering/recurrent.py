"""Cells of recurrent networks, each as one operator: what nn.LSTM and nn.GRU call on a device."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


def _parts(g: Graph, x: Instruction, count: int) -> list[Instruction]:
    size = x.shape.dims[1] // count
    return [g.slice_along(x, 1, k * size, (k + 1) * size) for k in range(count)]


def _biased(g: Graph, gates: Instruction, bias: Instruction | None) -> Instruction:
    wide = g.widened(gates)
    return wide if bias is None else g.add(wide, g.expand(g.widened(bias), wide.shape.dims))


def _slope(g: Graph, y: Instruction) -> Instruction:
    """The slope of the logistic function where it is y."""
    return g.multiply(y, g.subtract(g.full_like(y, 1), y))


def _tanh_slope(g: Graph, y: Instruction) -> Instruction:
    return g.subtract(g.full_like(y, 1), g.multiply(y, y))


@lowers("aten._thnn_fused_lstm_cell.default")
def lstm_cell(g: Graph, input_gates, hidden_gates, cx, input_bias, hidden_bias):
    """The next hidden state and cell, and the gates for the gradient."""
    own = input_gates.shape.dtype
    gates = g.add(_biased(g, input_gates, input_bias), _biased(g, hidden_gates, hidden_bias))
    i, f, c, o = _parts(g, gates, 4)
    i, f, c, o = g.logistic(i), g.logistic(f), g.tanh(c), g.logistic(o)
    cell = g.add(g.multiply(f, g.widened(cx)), g.multiply(i, c))
    hidden = g.multiply(o, g.tanh(cell))
    return [g.cast(hidden, own), g.cast(cell, own), g.cast(g.concat([i, f, c, o], 1), own)]


@lowers("aten._thnn_fused_lstm_cell_backward_impl.default")
def lstm_cell_backward(g: Graph, grad_hy, grad_cy, cx, cy, workspace, has_bias: bool):
    """The gradients of gates, cell and bias."""
    own = workspace.shape.dtype
    i, f, c, o = _parts(g, g.widened(workspace), 4)
    top = g.tanh(g.widened(cy))
    of_hidden = g.full_like(top, 0) if grad_hy is None else g.widened(grad_hy)
    of_cell = g.multiply(g.multiply(of_hidden, o), _tanh_slope(g, top))
    if grad_cy is not None:
        of_cell = g.add(of_cell, g.widened(grad_cy))
    gates = g.concat(
        [
            g.multiply(g.multiply(of_cell, c), _slope(g, i)),
            g.multiply(g.multiply(of_cell, g.widened(cx)), _slope(g, f)),
            g.multiply(g.multiply(of_cell, i), _tanh_slope(g, c)),
            g.multiply(g.multiply(of_hidden, top), _slope(g, o)),
        ],
        1,
    )
    bias = g.cast(g.reduce_with(gates, "add", 0, [0]), own) if has_bias else None
    return [g.cast(gates, own), g.cast(g.multiply(of_cell, f), own), bias]


@lowers("aten._thnn_fused_gru_cell.default")
def gru_cell(g: Graph, input_gates, hidden_gates, hx, input_bias, hidden_bias):
    """The next hidden state, and what its gradient needs: gates, the state before, the hidden candidate."""
    own = input_gates.shape.dtype
    ir, iz, ic = _parts(g, _biased(g, input_gates, input_bias), 3)
    hr, hz, hc = _parts(g, _biased(g, hidden_gates, hidden_bias), 3)
    before = g.widened(hx)
    reset, update = g.logistic(g.add(ir, hr)), g.logistic(g.add(iz, hz))
    candidate = g.tanh(g.add(ic, g.multiply(reset, hc)))
    hidden = g.add(g.multiply(g.subtract(before, candidate), update), candidate)
    return [g.cast(hidden, own), g.cast(g.concat([reset, update, candidate, before, hc], 1), own)]


@lowers("aten._thnn_fused_gru_cell_backward.default")
def gru_cell_backward(g: Graph, grad_hy, workspace, has_bias: bool):
    """The gradients of both gates, the state before, and both biases."""
    own = workspace.shape.dtype
    reset, update, candidate, before, hc = _parts(g, g.widened(workspace), 5)
    grad = g.widened(grad_hy)
    of_update = g.multiply(g.multiply(grad, g.subtract(before, candidate)), _slope(g, update))
    kept = g.subtract(g.full_like(update, 1), update)
    of_candidate = g.multiply(g.multiply(grad, kept), _tanh_slope(g, candidate))
    of_reset = g.multiply(g.multiply(of_candidate, hc), _slope(g, reset))
    inputs = g.concat([of_reset, of_update, of_candidate], 1)
    hidden = g.concat([of_reset, of_update, g.multiply(of_candidate, reset)], 1)
    biases = [g.cast(g.reduce_with(each, "add", 0, [0]), own) if has_bias else None for each in (inputs, hidden)]
    return [g.cast(inputs, own), g.cast(hidden, own), g.cast(g.multiply(grad, update), own), *biases]
