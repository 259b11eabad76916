"""Rearrangements of channels and pixels, and patches of images as columns."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.ops.windows import Fold, Windows, window_count

from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor
from ...functions.registry import public
from ...functions.shape import permute, reshape
from ...hot_path import hot
from ...tensor import Tensor
from .arguments import per_axis
from .padding import constant_pad_nd


def _images(name: str, input: Tensor, factor: int) -> Tensor:
    x = check_tensor(input, name)
    if x.ndim < 3:
        raise located(
            ShapeError(
                f"{name} expects input to have at least 3 dimensions, but got {x.ndim}{operand_lines([x.type_])}"
            )
        )
    if factor <= 0:
        raise located(ShapeError(f"{name} expects a positive factor, but got {factor}"))
    return x


@hot
@public(method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """From [..., c r², h, w] to [..., c, h r, w r]: channels become pixels (Shi et al. 2016, arXiv:1609.05158).

    >>> import jitgrad as jg
    >>> jg.pixel_shuffle(jg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    r = upscale_factor
    x = _images("pixel_shuffle", input, r)
    *lead, c, h, w = x.shape
    if c % r**2:
        raise located(
            ShapeError(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                f"upscale_factor, but input.size(-3)={c} is not divisible by {r**2}"
            )
        )
    n = len(lead)
    parts = reshape(x, (*lead, c // r**2, r, r, h, w))
    moved = permute(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(moved, (*lead, c // r**2, h * r, w * r))


@hot
@public(method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """From [..., c, h r, w r] to [..., c r², h, w]: the inverse of `pixel_shuffle`.

    >>> import jitgrad as jg
    >>> jg.pixel_unshuffle(jg.arange(4).reshape(1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    r = downscale_factor
    x = _images("pixel_unshuffle", input, r)
    *lead, c, h, w = x.shape
    for name, length in (("height", h), ("width", w)):
        if length % r:
            raise located(
                ShapeError(
                    f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but {length} is not "
                    f"divisible by {r}"
                )
            )
    n = len(lead)
    parts = reshape(x, (*lead, c, h // r, r, w // r, r))
    moved = permute(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(moved, (*lead, c * r**2, h // r, w // r))


@public("channel_shuffle", method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of [n, c, ...] in `groups`, dealt out in turn (Zhang et al. 2018, arXiv:1707.01083).

    >>> import jitgrad as jg
    >>> jg.channel_shuffle(jg.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    x = check_tensor(input, "channel_shuffle")
    if x.ndim < 3:
        raise located(
            ShapeError(f"channel_shuffle expects input with > 2 dims, but got {x.ndim}{operand_lines([x.type_])}")
        )
    if groups <= 0 or x.shape[1] % groups:
        raise located(
            ShapeError(
                f"Number of channels must be divisible by groups. Got {x.shape[1]} channels and {groups} groups."
            )
        )
    n, c, *rest = x.shape
    parts = reshape(x, (n, groups, c // groups, *rest))
    return reshape(permute(parts, (0, 2, 1, *range(3, parts.ndim))), tuple(x.shape))


native_channel_shuffle = public("native_channel_shuffle", method=False)(channel_shuffle)


@hot
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The patches of [n, c, h, w] (or [c, h, w]) as columns: [n, c kh kw, number of patches].

    >>> import jitgrad as jg
    >>> jg.nn.functional.unfold(jg.arange(4.0).reshape(1, 1, 2, 2), (1, 2))
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    x = check_tensor(input, "unfold")
    kernel, dilations, pads, strides = _numbers(kernel_size, dilation, padding, stride)
    if x.ndim not in (3, 4) or 0 in x.shape[-3:]:
        raise located(
            ShapeError(
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                f"input, but got: {list(x.shape)}"
            )
        )
    counts = _counts("unfold", tuple(x.shape[-2:]), kernel, dilations, pads, strides)
    if any(pads):
        x = constant_pad_nd(x, (pads[1], pads[1], pads[0], pads[0]))
    lead, n = tuple(x.shape[:-2]), x.ndim - 2
    windows = apply(Windows((n, n + 1), kernel, strides, dilations), x)
    moved = permute(windows, (*range(n), n + 2, n + 3, n, n + 1))
    return reshape(moved, (*lead[:-1], lead[-1] * kernel[0] * kernel[1], counts[0] * counts[1]))


@hot
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The columns that `unfold` makes, added up as [n, c, h, w] (or [c, h, w]): its transpose.

    >>> import jitgrad as jg
    >>> jg.nn.functional.fold(jg.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    x = check_tensor(input, "fold")
    kernel, dilations, pads, strides = _numbers(kernel_size, dilation, padding, stride)
    size = per_axis(output_size, 2, "output_size")
    if x.ndim not in (2, 3) or 0 in x.shape[-2:]:
        raise located(
            ShapeError(
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
                f"for input, but got: {list(x.shape)}"
            )
        )
    *lead, rows, columns = x.shape
    counts = _counts("fold", size, kernel, dilations, pads, strides)
    places = kernel[0] * kernel[1]
    if rows % places or columns != counts[0] * counts[1]:
        raise located(
            ShapeError(
                f"fold: expected a multiple of {places} rows and {counts[0] * counts[1]} columns for the output size "
                f"{list(size)}, but got input with sizes {list(x.shape)}"
            )
        )
    n = len(lead) + 1
    parts = reshape(x, (*lead, rows // places, *kernel, *counts))
    windows = permute(parts, (*range(n), n + 2, n + 3, n, n + 1))
    padded = tuple(s + 2 * p for s, p in zip(size, pads, strict=True))
    out = apply(Fold(padded, (n, n + 1), kernel, strides, dilations), windows)
    return constant_pad_nd(out, (-pads[1], -pads[1], -pads[0], -pads[0])) if any(pads) else out


def _numbers(kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[tuple[int, ...]]:
    numbers = [
        per_axis(value, 2, name)
        for name, value in (
            ("kernel_size", kernel), ("dilation", dilation), ("padding", padding), ("stride", stride)
        )
    ]  # fmt: skip
    for name, least, given in zip(("kernel_size", "dilation", "padding", "stride"), (1, 1, 0, 1), numbers, strict=True):
        if min(given) < least:
            raise located(ShapeError(f"{name} should be at least {least}, but got {list(given)}"))
    return numbers


def _counts(
    name: str, size: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...], pads: tuple[int, ...],
    stride: tuple[int, ...],
) -> tuple[int, ...]:  # fmt: skip
    """How many patches there are along each axis."""
    counts = tuple(
        window_count(n + 2 * p, k, s, d) for n, k, d, p, s in zip(size, kernel, dilation, pads, stride, strict=True)
    )
    if min(counts) < 1:
        raise located(
            ShapeError(
                f"{name}: given image size {list(size)}, kernel_size={list(kernel)}, dilation={list(dilation)}, "
                f"padding={list(pads)}, stride={list(stride)}, calculated shape of the array of sliding blocks as "
                f"{list(counts)}, but its components must be at least one."
            )
        )
    return counts
