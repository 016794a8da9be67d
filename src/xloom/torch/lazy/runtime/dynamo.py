"""torch.compile on tensors of the device: Dynamo takes them for torch's own, so that graphs have operators; what this
package does it leaves alone, as it does torch.

A tensor with `__torch_dispatch__` is an object to Dynamo, whose methods in Python it traces through: graphs would have
what this package does. Which classes it takes for torch's own is written in some of its functions and tables.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey

from xloom.torch.lazy.runtime.late_imports import when_imported
from xloom.torch.lazy.tensor.tensor import XlaTensor

_RULES = "torch._dynamo.trace_rules"
"""Its module of what it traces through, which is there when the one that looks at arguments is."""


def register() -> None:
    """Tells Dynamo, when it is there."""
    when_imported(_RULES, _tell)


def _tell(rules: Any) -> None:
    from torch._dynamo import config
    from torch._dynamo.variables import builder
    from torch._functorch._aot_autograd import runtime_wrappers
    from torch.fx.experimental import proxy_tensor

    rules.add("xloom")  # whose functions, called between two graphs, are no part of the user's program
    config.traceable_tensor_subclasses.add(XlaTensor)
    builder.VariableBuilder._type_dispatch()[XlaTensor] = builder.VariableBuilder.wrap_tensor
    class_of = builder.infer_subclass_type

    def infer_subclass_type(value: Any) -> Any:
        return None if type(value) is XlaTensor else class_of(value)

    builder.infer_subclass_type = infer_subclass_type
    handled = (*proxy_tensor.HANDLED_TYPES, XlaTensor)
    modules: tuple[Any, ...] = (proxy_tensor, runtime_wrappers)
    for module in modules:
        if hasattr(module, "HANDLED_TYPES"):
            module.HANDLED_TYPES = handled
        else:  # from 2.15 on the second one asks whether a tensor's own class has to handle an operator
            _handle_as_fake_tensors(module)
    _register_operators_that_take_functions()


def _handle_as_fake_tensors(module: Any) -> None:
    is_fake_tensor = module.is_fake_tensor
    module.is_fake_tensor = lambda value: type(value) is XlaTensor or is_fake_tensor(value)


def _register_operators_that_take_functions() -> None:
    """Gives the device torch's definitions, which call the functions, and read what they decide by."""
    operators: Any = torch._ops._higher_order_ops
    for operator in operators.values():
        rule = operator.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
        if rule is not None:
            operator.python_key_table.setdefault(XlaTensor, rule)
