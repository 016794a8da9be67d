"""A program that was made for several sizes, as one program that is given its size."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.module import Module
from xloom.passes.dynamic import reshaping, resizing_rules, sized_windows  # noqa: F401 - each registers its rules
from xloom.passes.dynamic.resizing import Extent, Resizable, Resizing

__all__ = ["Extent", "Resizable", "resizable"]


def resizable(samples: Sequence[tuple[int, Module]], position: int) -> Resizable:
    """The program for all sizes up to the first sample's, of at least three programs that one source gave for sizes.

    The size becomes the parameter `position`. What is affine in the samples' sizes is taken to be so between them:
    they should include the smallest, and odd ones. Raises LoweringError where the programs differ in more than sizes,
    or an operator would have to see what is beyond a size.
    """
    return Resizing(samples, position).run()
