"""The table of what random torch programs are made of.

A row's text says which operands it takes: {a:f} is a variable of kind f. Kinds: f floats, n floats and integers, i
integers, b booleans, z complex, g floats and complex, x any. What is in <angle brackets> is drawn when the step is made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

KINDS: dict[str, Callable[[torch.dtype], bool]] = {
    "f": lambda d: d.is_floating_point,
    "z": lambda d: d.is_complex,
    "b": lambda d: d is torch.bool,
    "i": lambda d: not d.is_floating_point and not d.is_complex and d is not torch.bool,
    "n": lambda d: not d.is_complex and d is not torch.bool,
    "g": lambda d: d.is_floating_point or d.is_complex,
    "x": lambda d: True,
}


class Group(NamedTuple):
    """Rows that are drawn with one weight; `writes` are steps in place, without a result."""

    weight: float
    rows: Sequence[str]
    writes: bool = False


def _words(text: str) -> list[str]:
    return text.split()


_UNARY = """sin cos tanh exp sigmoid neg abs square sqrt log1p expm1 floor ceil round trunc sign relu erf atan asinh
reciprocal softplus gelu silu logsigmoid elu softsign frac rsqrt sinh exp2 positive isnan isfinite signbit"""
_IN_F = frozenset(("softplus", "gelu", "silu", "logsigmoid", "elu", "softsign"))
_BINARY = "add sub mul div maximum minimum atan2 pow fmod remainder hypot copysign floor_divide logaddexp"
_COMPARE = "eq ne lt le gt ge"

UNARY = [f"{'F' if n in _IN_F else 'torch'}.{n}({{a:f}})" for n in _words(_UNARY)]
BINARY = [f"torch.{n}({{a:f}}, {{b:f}})" for n in _words(_BINARY)]

VIEWS = [
    "{a:x}[<s>]",
    "{a:x}[<s>]",
    "{a:x}[..., <s>]",
    "{a:x}[:, <s>]",
    "{a:x}.select(<d>, <k>)",
    "{a:x}.narrow(<d>, <k>, <k1>)",
    "{a:x}.t()",
    "{a:x}.transpose(<d>, <d>)",
    "{a:x}.movedim(<d>, <d>)",
    "{a:x}.permute(tuple(range({a}.dim() - 1, -1, -1)))",
    "{a:x}.unsqueeze(<d>)",
    "{a:x}.squeeze()",
    "{a:x}.squeeze(<d>)",
    "{a:x}.view(-1)",
    "{a:x}.reshape(-1)",
    "{a:x}.flatten(0, 1)",
    "{a:x}.view({a}.shape[0], -1)",
    "{a:x}.unflatten(<d>, (-1, <k1>))",
    "{a:x}.expand(<k1>, *{a}.shape)",
    "{a:x}.expand_as({b:x})",
    "{a:x}.diagonal()",
    "{a:x}.diagonal(<o>, -2, -1)",
    "{a:x}.unfold(<d>, <k1>, <k1>)",
    "{a:x}.as_strided((2, 2), (<k1>, <k1>), <k>)",
    "{a:x}.as_strided((<k1>, 2), (1, <k1>))",
    "{a:x}.split(<k1>, <d>)[<k>]",
    "{a:x}.chunk(<k1>, <d>)[<k>]",
    "{a:x}.unbind(<d>)[<k>]",
    "{a:x}.tensor_split(<k1>, <d>)[-1]",
    "{a:x}.detach()",
    "{a:x}.T",
    "{a:x}.mT",
    "torch.view_as_real({a:z})",
    "{a:z}.real",
    "{a:z}.imag",
    "{a:z}.conj()",
    "torch.view_as_complex({a:f})",
    "{a:x}.swapaxes(0, -1)",
    "{a:x}.view_as({b:x})",
    "torch.ops.aten.alias({a:x})",
]

IN_PLACE = [
    "{a:g}.add_({b:g})",
    "{a:g}.sub_({b:g}, alpha=<h>)",
    "{a:g}.mul_({b:g})",
    "{a:g}.mul_(<c>)",
    "{a:g}.add_(<c>)",
    "{a:n}.fill_(<i>)",
    "{a:x}.zero_()",
    "{a:x}.copy_({b:x})",
    "{a:f}.copy_({b:i})",
    "{a:n}.masked_fill_({b:b}, <i>)",
    "{a:f}.clamp_(-1, <h>)",
    "{a:n}.clamp_(min=<i>)",
    "{a:g}.neg_()",
    "{a:f}.relu_()",
    "{a:f}.sin_()",
    "{a:f}.tanh_()",
    "{a:f}.lerp_({b:f}, <h>)",
    "{a:f}.addcmul_({b:f}, {c:f}, value=<h>)",
    "{a:i}.add_({b:i})",
    "{a:i}.mul_(<i>)",
    "{a:b}.logical_not_()",
    "{a:b}.logical_xor_({b:b})",
    "{a:f}[<s>] = <c>",
    "{a:x}[<s>] = {b:x}",
    "{a:f}[:, <s>] = {b:f}",
    "{a:g}[<k>] = {b:g}",
    "{a:f}[{b:b}] = <c>",
    "{a:f}[..., <k>] += {b:f}",
    "{a:f}[<s>] *= <c>",
    "{a:f}[{b:i} % {a}.shape[0]] = <c>",
    "{a:f}.index_put_(({b:i} % {a}.shape[0],), torch.ones_like({a}[0]), accumulate=True)",
    "{a:f}.index_fill_(<d>, torch.tensor([<k>], device={a}.device), <c>)",
    "{a:f}.index_add_(0, torch.arange({b}.shape[0], device={a}.device) % {a}.shape[0], {b:f})",
    "{a:f}.index_copy_(0, torch.tensor([<k>], device={a}.device), {b:f}[:1])",
    "{a:f}.scatter_(0, {b:i} % {a}.shape[0], <c>)",
    "{a:f}.scatter_add_(<d>, torch.zeros_like({b}, dtype=torch.int64), {b:f})",
    "{a:f}.cumsum_(<d>)",
    "{a:f}.fill_diagonal_(<c>)",
    "{a:f}.tril_()",
    "{a:f}.addmm_({b:f}, {c:f})",
    "{a:n}.squeeze_()",
    "{a:x}.t_()",
    "{a:x}.transpose_(<d>, <d>)",
    "{a:x}.unsqueeze_(<d>)",
    "torch.add({b:f}, {c:f}, out={a:f})",
    "torch.mul({b:f}, <h>, out={a:f})",
    "torch.mm({b:f}, {c:f}, out={a:f})",
    "torch.cumsum({b:f}, 0, out={a:f})",
    "torch.sin({b:f}, out={a:f})",
    "for _ in range(3):\n    {a:f}.mul_(0.5).add_({b:f})",
    "for i in range(min(3, {a}.shape[0])):\n    {a:f}[i].add_(i)",
]

_ELEMENTWISE = [
    *UNARY,
    *BINARY,
    *BINARY[:3],
    *BINARY[:3],
    "{a:g} * {b:g} + {c:g}",
    "{a:g} * <c> + <h>",
    "{a:f} ** <p>",
    "{a:f} - {a}.mean()",
    "torch.log({a:f}.abs() + 1)",
    "torch.where({a:b}, {b:f}, {c:f})",
    "torch.where({a:f} > <h>, {a}, {b:f})",
    "torch.clamp({a:f}, <h>, 1)",
    "torch.lerp({a:f}, {b:f}, <h>)",
    "torch.addcmul({a:f}, {b:f}, {c:f}, value=<h>)",
    "{a:n} * <i>",
    "{a:n} + {b:n}",
    "{a:n} // 3",
    "{a:n} % 3",
    "{a:i} & {b:i}",
    "{a:i} ^ {b:i}",
    "{a:i} << 2",
    "{a:f}.to(torch.float64)",
    "{a:f}.to(torch.float32)",
    "{a:f}.to(torch.bfloat16)",
    "{a:b}.to(torch.float64)",
    "{a:i}.to(torch.float64)",
    "{a:i}.to(torch.int32)",
    "{a:f}.to(torch.int64)",
    "{a:f}.to(torch.complex128)",
    "torch.complex({a:f}, {a})",
    "{a:z} * {b:z}",
    "{a:z} / (2 + {b:z})",
    "torch.abs({a:z})",
    "torch.exp({a:z})",
    "torch.angle({a:z})",
    "torch.nan_to_num({a:f})",
    *[f"torch.{n}({{a:n}}, {{b:n}})" for n in _words(_COMPARE)],
    "{a:b} & {b:b}",
    "{a:b} | ~{b:b}",
    "torch.isclose({a:f}, {b:f})",
    "torch.frexp({a:f})[0]",
    "{a:x}.clone()",
    "{a:x}.contiguous()",
    "torch.zeros_like({a:g})",
    "torch.ones_like({a:f})",
    "torch.full_like({a:f}, <c>)",
    "torch.arange({a:x}.numel(), dtype=torch.float64, device={a}.device)",
]
_REDUCTIONS = [
    *[f"{{a:f}}.{n}(<d>)" for n in _words("sum mean prod amax amin var std logsumexp softmax log_softmax cumsum")],
    *[f"{{a:f}}.{n}(<d>, keepdim=True)" for n in _words("sum mean amax var argmax norm")],
    *[f"{{a:f}}.{n}()" for n in _words("sum mean max min std norm prod")],
    *[f"{{a:f}}.{n}(<d>)" for n in _words("cumprod logcumsumexp argmax argmin nansum count_nonzero")],
    *[f"{{a:i}}.{n}(<d>)" for n in _words("sum prod cumsum amax argmin")],
    *["{a:b}.any(<d>)", "{a:b}.all()", "{a:b}.sum(<d>)", "{a:z}.sum(<d>)", "{a:z}.mean()"],
    *["{a:f}.max(<d>).values", "{a:f}.min(<d>).indices", "{a:f}.median(<d>).values", "{a:f}.cummax(<d>).values"],
    *["{a:f}.diff(dim=<d>)", "torch.trapezoid({a:f}, dim=<d>)", "{a:f}.sum((0, -1))", "torch.dist({a:f}, {b:f})"],
    *["F.normalize({a:f}, dim=<d>)", "F.layer_norm({a:f}, {a}.shape[-1:])", "torch.var_mean({a:f}, <d>)[1]"],
]
_INDEXING = [
    "{a:x}[{b:i} % {a}.shape[0]]",
    "{a:x}[..., {b:i} % {a}.shape[-1]]",
    "{a:f}[{b:i} % {a}.shape[0], <k>]",
    "{a:f}.index_select(<d>, torch.tensor([<k>, 0, <k>], device={a}.device))",
    "torch.gather({a:f}, <d>, {b:i}.clamp(0, 0))",
    "torch.gather({a:f}, <d>, {a}.argsort(<d0>))",
    "torch.take({a:f}, {b:i} % {a}.numel())",
    "torch.take_along_dim({a:f}, {a}.argmax(<d>, keepdim=True), <d0>)",
    "torch.index_add({a:f}, 0, torch.zeros({b}.shape[0], dtype=torch.int64, device={a}.device), {b:f})",
    "torch.scatter({a:f}, 0, {b:i} % {a}.shape[0], <c>)",
    "torch.scatter_reduce({a:f}, 0, {b:i} % {a}.shape[0], {c:f}, 'amax')",
    "torch.index_put({a:f}, ({b:i} % {a}.shape[0],), {c:f}, accumulate=True)",
    "torch.masked_fill({a:f}, {b:b}, <c>)",
    "torch.masked_select({a:f}, {b:b})",
    "torch.roll({a:x}, <k>, <d>)",
    "torch.flip({a:x}, (<d>,))",
    "torch.cat([{a:f}, {b:f}], <d>)",
    "torch.cat([{a:x}, {a}], <d>)",
    "torch.stack([{a:f}, {b:f}], <d>)",
    "{a:x}.repeat(2, *[1] * ({a}.dim() - 1))",
    "{a:x}.repeat_interleave(2, <d>)",
    "torch.tril({a:f}, <o>)",
    "torch.triu({a:f}, <o>)",
    "torch.diag_embed({a:f})",
    "torch.rot90({a:f})",
    "F.pad({a:f}, (<k>, 1), value=<h>)",
    "torch.slice_scatter({a:f}, {b:f}, 0, <k>, <k1>)",
    "torch.select_scatter({a:f}, {b:f}, <d>, <k>)",
    "F.one_hot({a:i}.abs() % 4, 4)",
    "F.embedding({a:i} % {b}.shape[0], {b:f})",
    "torch.meshgrid({a:f}, {b:f}, indexing='ij')[0]",
    "torch.bucketize({a:f}, torch.tensor([-1.0, 0.0, 1.0], dtype={a}.dtype, device={a}.device))",
    "torch.searchsorted({a:f}.sort(-1).values, {b:f})",
]
_SORTS = [
    "{a:f}.sort(<d>).values",
    "{a:f}.sort(<d>, descending=True).values",
    "{a:f}.argsort(<d>, stable=True)",
    "{a:i}.sort(<d>, stable=True).indices",
    "{a:f}.topk(<k1>, <d>).values",
    "{a:f}.kthvalue(<k1>, <d>).values",
    "torch.unique({a:i})",
    "torch.msort({a:f})",
    "{a:f}.quantile(0.3, <d>)",
]
_LINALG = [
    *["{a:g} @ {b:g}", "{a:g} @ {b:g}.mT", "{a:g}.mT @ {a}", "{a:f} @ {a}.mT"],
    *["torch.matmul({a:f}, {b:f})", "torch.mv({a:f}, {b:f})", "torch.outer({a:f}, {b:f})"],
    *["torch.addmm({a:f}, {b:f}, {c:f}, beta=<h>)", "torch.einsum('ij,kj->ik', {a:f}, {b:f})"],
    *["torch.einsum('...i,...i->...', {a:f}, {b:f})", "F.linear({a:f}, {b:f})", "torch.bmm({a:f}, {b:f})"],
    *["torch.kron({a:f}, {b:f})", "torch.cdist({a:f}, {b:f})", "torch.tensordot({a:f}, {b:f}, 1)"],
    "torch.linalg.solve({a:f} @ {a}.mT + 2 * torch.eye({a}.shape[-2], dtype={a}.dtype, device={a}.device), {b:f})",
    "torch.linalg.inv({a:f} @ {a}.mT + 2 * torch.eye({a}.shape[-2], dtype={a}.dtype, device={a}.device))",
    "torch.linalg.cholesky({a:f} @ {a}.mT + 2 * torch.eye({a}.shape[-2], dtype={a}.dtype, device={a}.device))",
    "torch.linalg.eigvalsh({a:f} @ {a}.mT + torch.eye({a}.shape[-2], dtype={a}.dtype, device={a}.device))",
    "torch.linalg.svdvals({a:f})",
    "torch.linalg.det({a:f})",
    "torch.linalg.slogdet({a:f})[1]",
    "torch.linalg.matrix_norm({a:f})",
    "torch.linalg.qr({a:f})[1].abs()",
    "(lambda u, s, v: u * s @ v)(*torch.linalg.svd({a:f}, full_matrices=False)[:2], "
    "torch.linalg.svd({a:f}, full_matrices=False)[2])",
    "torch.linalg.lu_factor({a:f})[0]",
    "torch.linalg.solve_triangular({a:f}.tril() + 3 * torch.eye({a}.shape[-1], dtype={a}.dtype, device={a}.device), "
    "{b:f}, upper=False)",
    "torch.linalg.pinv({a:f})",
    "torch.linalg.matrix_power({a:f} * 0.3, 3)",
    "torch.linalg.matrix_exp({a:f} * 0.3)",
    "torch.linalg.lstsq({a:f}, {b:f}).solution",
    "torch.fft.fft({a:g}, dim=<d>)",
    "torch.fft.rfft({a:f}, dim=<d>)",
    "torch.fft.ifft({a:z}, dim=<d>)",
    "torch.fft.fftshift({a:f})",
]
_WINDOWS = [
    "F.conv1d({a:f}.reshape(1, 1, -1), {b:f}.reshape(1, 1, -1)[..., :3], padding=1).flatten()",
    "F.conv2d({a:f}.reshape(1, 1, {a}.shape[0], -1), {b:f}.reshape(-1)[:4].reshape(1, 1, 2, 2), padding=<k1>)[0, 0]",
    "F.conv2d({a:f}[None, None], torch.ones(2, 1, 2, 2, dtype={a}.dtype, device={a}.device), stride=2, padding=1)[0]",
    "F.conv_transpose1d({a:f}.reshape(1, 1, -1), {b:f}.reshape(1, 1, -1)[..., :2], stride=2).flatten()",
    "F.max_pool1d({a:f}.reshape(1, 1, -1), 2, padding=1).flatten()",
    "F.max_pool2d({a:f}[None, None], 2, stride=1, padding=1)[0, 0]",
    "F.avg_pool2d({a:f}[None, None], 2, stride=1, padding=1)[0, 0]",
    "F.avg_pool1d({a:f}.reshape(1, 1, -1), 3, stride=2, padding=1).flatten()",
    "F.adaptive_avg_pool1d({a:f}.reshape(1, 1, -1), 3)[0]",
    "F.interpolate({a:f}.reshape(1, 1, -1), scale_factor=2, mode='linear').flatten()",
    "F.scaled_dot_product_attention({a:f}[None], {a}[None] * 0.5, {b:f}[None])[0]",
    "F.mse_loss({a:f}, {b:f})",
    "F.smooth_l1_loss({a:f}, {b:f}, reduction='none')",
    "F.cross_entropy({a:f}, {b:i} % {a}.shape[-1])",
    "F.batch_norm({a:f}, None, None, training=True)",
    "F.group_norm({a:f}[None], 1)[0]",
    "F.glu({a:f}, <d>)",
]
_CONTROL = [
    "{a:f} * 2 if {a}.shape[0] > 2 else {a} + 1",
    "{a:f}.sin() if bool(({a} > 0).any()) else {a}.cos()",
    "sum({a:f}[i] for i in range(min(3, {a}.shape[0])))",
    "[{a:f} + i for i in range(3)][-1]",
    "torch.stack([row * k for k, row in enumerate({a:f}[:3])])",
    "(lambda y: y + y.sum())({a:f} * <c>)",
    "torch.vmap(lambda row: row.sin().sum())({a:f})",
    "torch.utils.checkpoint.checkpoint(torch.sin, {a:f}, use_reentrant=False)",
]

GROUPS = [
    Group(30, _ELEMENTWISE),
    Group(24, VIEWS),
    Group(18, IN_PLACE, writes=True),
    Group(9, _REDUCTIONS),
    Group(9, _INDEXING),
    Group(3, _SORTS),
    Group(6, _LINALG),
    Group(3, _WINDOWS),
    Group(2, _CONTROL),
]


def number(kind: str, random: random.Random) -> str:
    """What stands for <kind>."""
    return str(_NUMBERS[kind](random))


def _slice(random: random.Random) -> str:
    return random.choice(["1:", ":-1", "::2", "1::2", "1:3", ":", "2:", ":2", "-2:", "1:-1", "::3"])


_NUMBERS: dict[str, Callable[[random.Random], object]] = {
    "s": _slice,
    "d": lambda r: r.choice([0, 0, 1, -1, -1]),
    "d0": lambda r: 0,
    "k": lambda r: r.choice([0, 0, 1, 1, 2]),
    "k1": lambda r: r.choice([1, 2, 2, 3]),
    "o": lambda r: r.choice([-1, 0, 1]),
    "c": lambda r: round(r.uniform(-2, 2), 2),
    "h": lambda r: r.choice([0.5, -0.5, 0.25]),
    "i": lambda r: r.randint(-3, 4),
    "p": lambda r: r.choice([2, 3, 2.0]),
}
