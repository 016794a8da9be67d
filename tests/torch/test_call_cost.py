"""What a call of a compiled function does besides the program."""

import torch

import xloom.torch  # noqa: F401 - the backend


def test_no_stream_is_looked_up_for_the_hosts_tensors(monkeypatch):
    looked_up = []
    current_stream = torch.accelerator.current_stream
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda *a: looked_up.append(a) or current_stream(*a))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() + 1, backend="xloom")
    x = torch.arange(3.0)
    compiled(x)
    looked_up.clear()
    torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert not looked_up


def test_results_are_tensors_of_their_own():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.sin(), x.cos()), backend="xloom")
    x = torch.arange(3.0)
    first, second = compiled(x), compiled(x)
    places = {y.data_ptr() for y in (*first, *second)}
    assert len(places) == 4
    with torch.inference_mode():
        inside = compiled(x)
    assert inside[0].is_inference() and not compiled(x)[0].is_inference()
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(compiled(leaf)[0].sum(), leaf)[0], x.cos())
    first[0].mul_(2)
    torch.testing.assert_close(second[0], x.sin())


def test_results_lie_as_torchs_do():
    torch._dynamo.reset()
    for size in (3, 300):
        x = torch.randn(2, size, size + 1)
        for function in (lambda x: x.mT + x.mT, lambda x: x.permute(2, 0, 1) * 2, lambda x: x.sum()):
            found, want = torch.compile(function, backend="xloom")(x), function(x)
            assert found.stride() == want.stride() and not found._is_view()
            torch.testing.assert_close(found, want)
