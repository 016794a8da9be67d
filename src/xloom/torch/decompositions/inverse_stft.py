"""The inverse of short-time Fourier transforms."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten


def inverse_stft(
    spectra: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """What torch makes of `istft`, of arguments that it has checked.

    Of several signals it adds the window's squares up by one operator for each of its elements.
    """
    step, width = hop_length or n_fft // 4, win_length or n_fft
    batch = spectra if spectra.dim() == 3 else spectra[None]
    signals, _, windows = batch.shape
    if window is None:
        window = torch.ones(width, dtype=spectra.real.dtype, device=spectra.device)
    left = (n_fft - width) // 2
    window = torch.nn.functional.pad(window, (left, n_fft - width - left))
    norm = "ortho" if normalized else None
    if return_complex:
        pieces = torch.fft.ifft(batch.mT, norm=norm)
    else:
        pieces = torch.fft.irfft(batch.mT[..., : n_fft // 2 + 1], n_fft, norm=norm)
    size = n_fft + step * (windows - 1)
    total = aten.unfold_backward(pieces * window, [signals, size], 1, n_fft, step)
    weight = aten.unfold_backward(window.square().expand(1, windows, n_fft), [1, size], 1, n_fft, step)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else size - start
    found = total[:, start:end] / weight[:, start:end]
    found = torch.nn.functional.pad(found, (0, max(0, end - size)))
    return found if spectra.dim() == 3 else found[0]
