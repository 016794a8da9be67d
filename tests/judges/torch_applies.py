"""Why tests of torch's suites do not apply to the device: rules over their names and verdicts, in order."""

from __future__ import annotations

import re
from typing import Any

_NAMES = [
    (r"complex_half|chalf|complex32", "complex32, which HLO does not have"),
    (r"dlpack|__cuda_array_interface__|buffer_protocol", "memory of the host by its address"),
    (r"lazy_clone|shared_memory|share_memory|pin_memory|pinned", "how the host's memory is kept"),
    (r"(?i)quantized|qint|quint", "quantised tensors"),
    (r"(?i)sparse", "sparse tensors"),
    (r"nested_tensor|nestedtensor|njt", "nested tensors"),
    (r"out_of_(bounds|range)|_oob", "errors that depend on values, for which nobody waits"),
    (r"expected_failure_xla", "made to fail on a device of this name"),
    (r"deterministic_(empty|resize)", "memory that is not initialised: there is none"),
]
"""By the test's name."""

_MESSAGES = [
    (r"complex32|ComplexHalf", "complex32, which HLO does not have"),
    (r"not offered: torch_xla|torch_xla_utilities", "parts of torch_xla that are not offered"),
    (r"not offered: torch_npu", "the vendor's own operators"),
    (r"aten\.(_?q|quantize|_make_per|_choose_qparams|fake_quant)", "quantised tensors"),
    (r"(?i)sparse|to_mkldnn|mkldnn", "sparse tensors"),
    (r"nested_tensor|_nested_", "nested tensors"),
    (r"is not an instance of <class .torch\.\w+Tensor", "classes of tensors of the host"),
    (r"No module named 'torchvision'", "torchvision, which is not installed"),
    (r"should be a 1D CPU int64 tensor", "a tensor of the host is asked for, and the test gives one of the device"),
    (r"storage that is not resizable|Storage.*not available|_cuda_", "memory of the host by its address"),
]
"""By what the test says when it fails."""


def inapplicable(name: str, verdict: dict[str, Any]) -> str:
    """The reason, or nothing where the test counts."""
    if verdict["verdict"] == "unused":
        return "nothing of it runs on the device"
    if verdict["verdict"] == "absent":
        return "made for another device's name"
    if verdict["verdict"] == "skip":
        return _why_skipped(verdict["message"])
    for pattern, reason in _NAMES:
        if re.search(pattern, name):
            return reason
    if verdict["verdict"] == "fail":
        for pattern, reason in _MESSAGES:
            if re.search(pattern, verdict["message"]):
                return reason
    return ""


def _why_skipped(message: str) -> str:
    found = re.search(r"Skipped: (.*?)'?\)?$", message)
    return f"skipped: {found[1][:80] if found else message[-80:]}"
