"""Convolutions over one to three axes, and their transposes."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.conv import Conv, ConvInputGrad
from jitgrad.ir.ops.slicing import Pad

from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, filled, pointwise
from ...tensor import Tensor
from .arguments import batched, per_axis, reshaped


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The cross-correlation of an input [n, c, l] with a weight [o, c / groups, k], plus a bias [o]."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


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
    strides, dilations = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")

    def run(x: Tensor) -> Tensor:
        if isinstance(padding, str):
            x, pads = _named_padding(name, x, weight, padding, strides, dilations)
        else:
            pads = per_axis(padding, rank, "padding")
        return _with_bias(apply(Conv(strides, pads, dilations, groups), x, weight), bias)

    return batched(run, input, rank, name)


def _check_weight(name: str, weight: Tensor, rank: int) -> None:
    if weight.ndim != rank + 2:
        raise located(ShapeError(f"{name}: the weight must have {rank + 2} axes{operand_lines([weight.type_])}"))


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


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d` in its input: from [n, c, l] with a weight [c, o / groups, k]."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d` in its input: from [n, c, h, w] with a weight [c, o / groups, kh, kw]."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


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
    strides, dilations = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    pads, extra = per_axis(padding, rank, "padding"), per_axis(output_padding, rank, "output_padding")
    for e, s, d in zip(extra, strides, dilations, strict=True):
        if not 0 <= e < max(s, d):
            raise located(ShapeError(f"{name}: output padding must be smaller than either stride or dilation, not {e}"))

    def run(x: Tensor) -> Tensor:
        lengths = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(x.shape[2:], strides, pads, dilations, weight.shape[2:], extra, strict=True)
        )
        return _with_bias(apply(ConvInputGrad(lengths, strides, pads, dilations, groups), x, weight), bias)

    return batched(run, input, rank, name)
