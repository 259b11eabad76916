"""Convolutions over one to three axes, and their transposes."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, DTypeError, ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.conv import Conv, ConvInputGrad
from jitgrad.ir.ops.slicing import Pad

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, filled, pointwise
from ...functions.registry import public
from ...functions.shape import permute
from ...hot_path import hot
from ...tensor import Tensor
from .arguments import batched, per_axis, reshaped
from .padding import constant_pad_nd


@hot
@autocasts("conv1d")
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The cross-correlation of an input [n, c, l] with a weight [o, c / groups, k], plus a bias [o]."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@hot
@autocasts("conv2d")
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The cross-correlation of an input [n, c, h, w] with a weight [o, c / groups, kh, kw], plus a bias [o].

    `padding` is a number of zeros on both sides, "valid" (none) or "same" (as the input, for stride 1).

    >>> import jitgrad as jg
    >>> jg.nn.functional.conv2d(jg.ones(1, 1, 3, 3), jg.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@autocasts("conv3d")
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The cross-correlation of an input [n, c, d, h, w] with a weight [o, c / groups, kd, kh, kw], plus a bias."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:  # fmt: skip
    name = f"conv{rank}d"
    _check_weight(name, check_tensor(weight, name), rank)
    _check_bias(name, input, bias, weight.shape[0])
    strides, dilations = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    given = (0,) * rank if isinstance(padding, str) else per_axis(padding, rank, "padding")
    _check_numbers(name, strides, given, dilations, groups)

    def run(x: Tensor) -> Tensor:
        pads = given
        if isinstance(padding, str):
            x, pads = _named_padding(name, x, weight, padding, strides, dilations)
        return _with_bias(apply(Conv(strides, pads, dilations, groups), x, weight), bias)

    return batched(run, input, rank, name)


def _check_weight(name: str, weight: Tensor, rank: int) -> None:
    if weight.ndim != rank + 2:
        raise located(ShapeError(f"{name}: the weight must have {rank + 2} axes{operand_lines([weight.type_])}"))


def _check_bias(name: str, input: Tensor, bias: Tensor | None, channels: int) -> None:
    if bias is None:
        return
    if check_tensor(bias, name).dtype is not check_tensor(input, name).dtype:
        raise located(
            DTypeError(f"{name}: Input type ({input.dtype.name}) and bias type ({bias.dtype.name}) should be the same")
        )
    if tuple(bias.shape) != (channels,):
        raise located(
            ShapeError(
                f"{name}: expected bias to be 1-dimensional with {channels} elements, but got {list(bias.shape)}"
            )
        )


def _check_numbers(
    name: str, strides: tuple[int, ...], pads: tuple[int, ...], dilations: tuple[int, ...], groups: int
) -> None:
    if min(strides) < 1:
        raise located(ShapeError(f"{name}: non-positive stride is not supported: {list(strides)}"))
    if min(pads) < 0:
        raise located(ShapeError(f"{name}: negative padding is not supported: {list(pads)}"))
    if min(dilations) < 1:
        raise located(ShapeError(f"{name}: dilation should be greater than zero: {list(dilations)}"))
    if groups < 1:
        raise located(ShapeError(f"{name}: non-positive groups is not supported: {groups}"))


def _named_padding(
    name: str, x: Tensor, weight: Tensor, padding: str, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """The input and its padding on both sides; an odd total is padded at the end beforehand."""
    none = (0,) * len(strides)
    if padding == "valid":
        return x, none
    if padding != "same":
        raise located(ArgumentError(f"{name}: padding must be numbers, 'valid' or 'same', not {padding!r}"))
    if any(s != 1 for s in strides):
        raise located(ShapeError("padding='same' is not supported for strided convolutions"))
    totals = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    odd = tuple(t % 2 for t in totals)
    if any(odd):
        x = apply(Pad((0, 0, *none), (0, 0, *odd)), x, filled((), x.dtype, 0))
    return x, tuple(t // 2 for t in totals)


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return y
    return pointwise(Add(), y, reshaped(bias, (bias.shape[0], *(1,) * (y.ndim - 2))))


@autocasts("conv_transpose1d")
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d` in its input: from [n, c, l] with a weight [c, o / groups, k]."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@hot
@autocasts("conv_transpose2d")
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d` in its input: from [n, c, h, w] with a weight [c, o / groups, kh, kw]."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@autocasts("conv_transpose3d")
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv3d` in its input: from [n, c, d, h, w] with a weight [c, o / groups, kd, kh, kw]."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{rank}d"
    _check_weight(name, check_tensor(weight, name), rank)
    _check_bias(name, input, bias, weight.shape[1] * groups)
    strides, dilations = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    pads, extra = per_axis(padding, rank, "padding"), per_axis(output_padding, rank, "output_padding")
    _check_numbers(name, strides, pads, dilations, groups)
    for e, s, d in zip(extra, strides, dilations, strict=True):
        if not 0 <= e < max(s, d):
            raise located(ShapeError(f"{name}: output padding must be smaller than either stride or dilation, not {e}"))

    def run(x: Tensor) -> Tensor:
        odd = any(e >= s for e, s in zip(extra, strides, strict=True))
        # Room for another window at the end: a convolution would have more outputs. So the result is cut out of, or
        # extended from, what the windows cover.
        cropped = (0,) * rank if odd else pads
        lengths = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + (0 if odd else e) + 1
            for n, s, p, d, k, e in zip(x.shape[2:], strides, cropped, dilations, weight.shape[2:], extra, strict=True)
        )
        y = apply(ConvInputGrad(lengths, strides, cropped, dilations, groups), x, weight)
        if odd:
            widths = [w for p, e in zip(reversed(pads), reversed(extra), strict=True) for w in (-p, e - p)]
            y = constant_pad_nd(y, widths)
        return _with_bias(y, bias)

    return batched(run, input, rank, name)


@public(method=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of an input [time, batch, channels] with a weight [k, channels, o], giving [time, batch, o].

    >>> import jitgrad as jg
    >>> jg.conv_tbc(jg.ones(3, 1, 1), jg.ones(2, 1, 1), jg.zeros(1)).flatten()
    tensor([2., 2.])
    """
    x, w = check_tensor(input, "conv_tbc"), check_tensor(weight, "conv_tbc")
    for name, t in (("Input", x), ("Weight", w)):
        if t.ndim != 3:
            raise located(ShapeError(f"{name} must have 3 dims: time, batch, in_channel{operand_lines([t.type_])}"))
    y = conv1d(permute(x, (1, 2, 0)), permute(w, (2, 1, 0)), bias, 1, pad)
    return permute(y, (2, 0, 1))


@public(method=False)
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over as many axes as the weight has beyond two, or its transpose if `transposed`.

    >>> import jitgrad as jg
    >>> jg.convolution(jg.ones(1, 1, 3), jg.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    rank = check_tensor(weight, "convolution").ndim - 2
    if rank not in (1, 2, 3):
        raise located(ShapeError(f"convolution: the weight must have 3 to 5 axes{operand_lines([weight.type_])}"))
    if transposed:
        return _conv_transpose(rank, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(rank, input, weight, bias, stride, padding, dilation, groups)


for _function in (conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d):
    public(method=False)(_function)
