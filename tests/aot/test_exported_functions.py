"""Functions of JAX and models of PyTorch, compiled ahead of time."""

from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.aot import Exported, LoadedExport


def loaded(exported: Exported, folder: Path) -> LoadedExport:
    return xl.load_exported(exported.save(folder / "libprogram.so").program)


def test_a_function_of_jax(tmp_path):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    scale = np.arange(4, dtype=np.float32)

    def step(parameters, x, unused):
        y = jnp.tanh(x @ parameters["w"] + parameters["b"]) * scale
        return {"y": y, "sums": (y.sum(), x.sum(0))}

    shapes = {"w": jax.ShapeDtypeStruct((3, 4), np.float32), "b": jax.ShapeDtypeStruct((4,), np.float32)}
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    w, b = np.full((3, 4), 0.5, np.float32), np.ones(4, np.float32)
    for function in (step, jax.jit(step), jax.jit(step, keep_unused=True)):
        program = loaded(xl.export(function, (shapes, x, x)), tmp_path)
        names = [a.name for a in program.interface.arguments]
        kept = names[3:]
        assert names[:3] == ["parameters_b", "parameters_w", "x"] and kept in ([], ["unused"])
        assert [r.name for r in program.interface.results] == ["result_sums_0", "result_sums_1", "result_y"]
        expected = step({"w": w, "b": b}, x, x)
        found = program(b, w, x, *[x for _ in kept])
        for value, right in zip(found, (*expected["sums"], expected["y"]), strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-6, atol=1e-6)


def test_callbacks_are_refused():
    jax = pytest.importorskip("jax")

    def f(x):
        return jax.pure_callback(np.square, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(xl.LoweringError, match="callbacks"):
        xl.export(f, (np.ones(3, np.float32),))


OF_TORCH = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # as torch copies a program of its own


@OF_TORCH
def test_a_model_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.last = torch.nn.Linear(8, 5).bfloat16()

        def forward(self, image, scale):
            h = torch.relu(self.norm(self.convolution(image))).mean((2, 3)) * scale
            return {"h": h.T, "logits": self.last(h.bfloat16())}

    torch.manual_seed(0)
    model, image, scale = Model().eval(), torch.randn(2, 3, 8, 8), torch.tensor(2.0)
    program = torch.export.export(model, (image, scale))
    torch.export.save(program, tmp_path / "net.pt2")
    with torch.no_grad():
        expected = model(image, scale)
    for given in (model, program, tmp_path / "net.pt2"):
        made = loaded(xl.export(given, (image, scale), name="net"), tmp_path)
        assert [a.name for a in made.interface.arguments] == ["image", "scale"]
        assert [r.name for r in made.interface.results] == ["result_h", "result_logits"]
        h, logits = made(image.numpy(), scale.numpy())
        np.testing.assert_allclose(h, expected["h"].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(logits.astype(np.float32), expected["logits"].float().numpy(), rtol=1e-2, atol=1e-2)


@OF_TORCH
def test_factorisations_of_pytorch_are_refused():
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    with pytest.raises(xl.LoweringError, match=r"cannot call 'xloom\.torch\._linalg_svd'"):
        xl.export(Model().eval(), (torch.eye(3),))


@OF_TORCH
def test_a_model_that_learns_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(xl.LoweringError, match="changes its buffers"):
        xl.export(torch.nn.BatchNorm1d(3), (torch.randn(4, 3),))
