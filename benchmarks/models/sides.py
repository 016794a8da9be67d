"""What runs a model: a function that takes it and its inputs, and gives what runs it, on so many threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

Run = Callable[[], list[torch.Tensor]]
Prepare = Callable[[nn.Module, tuple[torch.Tensor, ...], int], Run]

SIDES: dict[str, Prepare] = {}


class NotTaken(Exception):
    """The side does not take this model, and why."""


def _side(name: str) -> Callable[[Prepare], Prepare]:
    def register(prepare: Prepare) -> Prepare:
        SIDES[name] = prepare
        return prepare

    return register


def listed(results: object) -> list[torch.Tensor]:
    """A result, or several."""
    return [results] if isinstance(results, torch.Tensor) else list(results)  # type: ignore[call-overload]


def _compiled(module: nn.Module, inputs: tuple[torch.Tensor, ...], backend: str) -> Run:
    run = torch.compile(module, backend=backend, dynamic=False)

    def call() -> list[torch.Tensor]:
        with torch.no_grad():
            return listed(run(*inputs))

    return call


@_side("xloom")
def _xloom(module: nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> Run:
    return _compiled(module, inputs, "xloom")


@_side("inductor")
def _inductor(module: nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> Run:
    """With its own freezing of weights."""
    from torch._inductor import config

    config.freezing = True
    return _compiled(module, inputs, "inductor")


def write_onnx(module: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    """Writes a model as ONNX Runtime takes it."""
    with torch.no_grad():
        torch.onnx.export(module, inputs, str(path), dynamo=True, external_data=True, verbose=False)


def open_onnx(path: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Run:
    """A model that `write_onnx` wrote, in ONNX Runtime."""
    import onnxruntime  # type: ignore

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if any(x.dtype == torch.bfloat16 for x in inputs):
        raise NotTaken("arrays of NumPy, which it takes, have no bfloat16")
    names = [i.name for i in session.get_inputs()]
    feed = dict(zip(names, [x.numpy() for x in inputs], strict=True))
    return lambda: [torch.from_numpy(y) for y in session.run(None, feed)]


@_side("onnxruntime")
def _onnxruntime(module: nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        write_onnx(module, inputs, path)
        return open_onnx(path, inputs, threads)


@_side("openvino")
def _openvino(module: nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> Run:
    """In the model's own precision: its default would be bfloat16 for models of f32, where machines have that."""
    import openvino  # type: ignore

    with torch.no_grad():
        model = openvino.convert_model(torch.export.export(module, inputs))
    own = next(module.parameters()).dtype
    compiled = openvino.Core().compile_model(
        model,
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "bf16" if own == torch.bfloat16 else "f32",
            "INFERENCE_NUM_THREADS": str(threads),
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    request = compiled.create_infer_request()
    tensors = [_openvino_tensor(x) for x in inputs]

    def call() -> list[torch.Tensor]:
        request.infer(tensors, share_inputs=True, share_outputs=True)
        return [_torch_tensor(t) for t in request.output_tensors]

    return call


def _openvino_tensor(x: torch.Tensor):
    import openvino  # type: ignore

    if x.dtype == torch.bfloat16:
        return openvino.Tensor(x.view(torch.int16).numpy(), x.shape, openvino.Type.bf16)
    return openvino.Tensor(np.ascontiguousarray(x.numpy()), shared_memory=True)


def _torch_tensor(tensor) -> torch.Tensor:
    import openvino  # type: ignore

    if tensor.element_type == openvino.Type.bf16:
        raw = np.frombuffer(tensor.data.tobytes(), np.int16).reshape(tuple(tensor.shape))
        return torch.from_numpy(raw.copy()).view(torch.bfloat16)
    return torch.from_numpy(tensor.data)
