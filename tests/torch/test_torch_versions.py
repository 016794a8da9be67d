"""Versions of PyTorch: errors that say which side must change."""

import pytest
import torch

from xloom.errors import UnsupportedError
from xloom.torch.versions import check_version


def test_a_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.12.1+cpu")
    match = r"PyTorch 2.13.0 to [\d.]+, and this is PyTorch 2.12.1\+cpu\n.*update PyTorch"
    with pytest.raises(UnsupportedError, match=match):
        check_version()


@pytest.mark.parametrize(("version", "advice"), [("2.99.0a0+git1234", "update xloom"), ("2.13.0", "PyTorch again")])
def test_a_torch_that_lacks_something(monkeypatch, version, advice):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.delattr(torch, "_register_device_module")
    with pytest.raises(UnsupportedError, match=rf"lacks torch._register_device_module[^$]*{advice}"):
        check_version()


def test_a_newer_torch_that_lacks_nothing(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    check_version()
