"""Tests over torch's registries of modules and optimisers: what they compute on a device is what they compute on the CPU.

Run by torch_suites.py, for the device as for the CPU, where a test only says that torch can do what it asks for.
"""

from copy import deepcopy
from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase, parametrize
from torch.utils._pytree import tree_leaves, tree_map_only

STEPS = 4
RANDOM = ("Dropout", "RReLU", "FractionalMaxPool")
"""Modules that draw random numbers, which are others on each device."""


def _copied(tree: Any, device: str) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device).requires_grad_(t.requires_grad), tree)


class TestModuleRegistry(TestCase):
    @modules(module_db, allowed_dtypes=[torch.float32])
    def test_forward_and_gradient(self, device, dtype, module_info: Any, training):
        for sample in module_info.module_inputs_func(
            module_info, device="cpu", dtype=dtype, requires_grad=True, training=training
        ):
            built = sample.constructor_input
            on_host = module_info.module_cls(*built.args, **built.kwargs).train(training)
            if training and _draws(on_host):
                continue
            forward = sample.forward_input
            if hasattr(on_host, "initialize_parameters"):  # it is lazy
                with torch.no_grad():
                    on_host(*forward.args, **forward.kwargs)
            on_device = deepcopy(on_host).to(device)
            inputs = (forward.args, forward.kwargs)
            sides = [(on_host, _copied(inputs, "cpu")), (on_device, _copied(inputs, device))]
            found = [self._run(module, args, kwargs) for module, (args, kwargs) in sides]
            self.assertEqual(found[1], found[0])

    def _run(self, module, args, kwargs):
        outputs = [t for t in tree_leaves(module(*args, **kwargs)) if isinstance(t, torch.Tensor)]
        loss = sum((t.abs() if t.is_complex() else t).sum() for t in outputs if t.requires_grad)
        if not isinstance(loss, torch.Tensor):
            return outputs, [], []
        loss.backward()
        grads = [t.grad for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        return outputs, grads, [p.grad for p in module.parameters()]


def _draws(module: torch.nn.Module) -> bool:
    chances = [getattr(m, "dropout", 0) for m in module.modules()]
    named = any(type(m).__name__.startswith(RANDOM) for m in module.modules())
    return any(isinstance(p, float) and p > 0 for p in chances) or (named and not _without_chance(module))


def _without_chance(module: torch.nn.Module) -> bool:
    return all(getattr(m, "p", 0.0) == 0.0 for m in module.modules() if type(m).__name__.startswith("Dropout"))


class TestOptimizerRegistry(TestCase):
    @parametrize("implementation", ["default", "foreach", "fused", "capturable"])
    @optims([o for o in optim_db if not o.only_supports_sparse_grads], dtypes=[torch.float32])
    def test_steps(self, device, dtype, optim_info, implementation):
        if implementation != "default" and implementation not in optim_info.supported_impls:
            return
        if implementation == "fused" and "cpu" not in optim_info.supports_fused_on:
            return
        for sample in optim_info.optim_inputs_func(device="cpu", dtype=dtype):
            chosen = {} if implementation == "default" else {implementation: True}
            # the CPU has not every implementation; its plain one says what all must find
            found = [
                self._train(optim_info.optim_cls, "cpu", dtype, sample.kwargs),
                self._train(optim_info.optim_cls, device, dtype, {**sample.kwargs, **chosen}),
            ]
            self.assertEqual(found[1], found[0], msg=lambda message, desc=sample.desc: f"{desc}: {message}")

    def _train(self, made, device, dtype, options):
        generator = torch.Generator().manual_seed(1)
        draw = lambda *dims: torch.randn(*dims, generator=generator, dtype=dtype).to(device)  # noqa: E731
        weights = [torch.nn.Parameter(draw(4, 3)), torch.nn.Parameter(draw(3, 5))]
        inputs, targets = draw(6, 4), draw(6, 5)
        optimizer = made(weights, **_copied(options, device))

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss((inputs @ weights[0]).tanh() @ weights[1], targets)
            loss.backward()
            return loss

        losses = [optimizer.step(closure) for _ in range(STEPS)]
        return weights, losses


instantiate_device_type_tests(TestModuleRegistry, globals())
instantiate_device_type_tests(TestOptimizerRegistry, globals())
