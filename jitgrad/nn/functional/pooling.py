"""Pooling of windows over the last one to three axes."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.errors import OperationError, ShapeError
from jitgrad.ir.ops.pooling import AvgPool, MaxPool, MaxPoolIndices

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.gathering import scatter_add
from ...functions.pointwise import check_tensor, filled
from ...functions.registry import public
from ...hot_path import hot
from ...tensor import Tensor
from .arguments import batched, check_filled, per_axis, reshaped


@hot
def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window over the last axis, and where it is if `return_indices`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@hot
def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window over the last two axes; `stride` is `kernel_size` if left out.

    If `return_indices`, also where it is: its row-major position among those axes, as int64.

    >>> import jitgrad as jg
    >>> jg.nn.functional.max_pool2d(jg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@autocasts("max_pool3d")
def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window over the last three axes, and where it is if `return_indices`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool1d`, and where the largest elements are.

    >>> import jitgrad as jg
    >>> jg.max_pool1d_with_indices(jg.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    (tensor([[5., 3.]]), tensor([[1, 3]]))
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)  # type: ignore[no-any-return]


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool2d`, and where the largest elements are."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)  # type: ignore[no-any-return]


@autocasts("max_pool3d_with_indices")
def max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool3d`, and where the largest elements are."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)  # type: ignore[no-any-return]


def _max_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    name = f"max_pool{rank}d"
    kernel = per_axis(kernel_size, rank, "kernel_size")
    strides = _stride(stride, kernel, rank)
    pads, dilations = per_axis(padding, rank, "padding"), per_axis(dilation, rank, "dilation")
    _check_numbers(name, kernel, strides, dilations)
    _check_padding(name, pads, kernel, dilations)
    check_filled(name, input, rank)
    numbers = kernel, strides, pads, dilations, bool(ceil_mode)
    values = batched(lambda x: apply(MaxPool(*numbers), x), input, rank, name)
    if not return_indices:
        return values
    return values, batched(lambda x: apply(MaxPoolIndices(*numbers), x.detach()), input, rank, name)  # type: ignore[attr-defined]


def _stride(stride: Any, kernel: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return kernel if stride is None or stride in ((), []) else per_axis(stride, rank, "stride")


def _check_numbers(name: str, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> None:
    for what, given in (("kernel size", kernel), ("stride", strides), ("dilation", dilations)):
        if min(given) < 1:
            raise located(ShapeError(f"{name}: {what} should be greater than zero, but got {list(given)}"))


@public(method=False)
def max_pool2d_with_indices_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of `max_pool2d` in its input: that of the output, added up at `indices`.

    >>> import jitgrad as jg
    >>> x = jg.arange(4.0).reshape(1, 2, 2)
    >>> y, at = jg.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> jg.max_pool2d_with_indices_backward(jg.ones(1, 1, 1), x, 2, 2, 0, 1, False, at)
    tensor([[[0., 0.],
             [0., 1.]]])
    """
    shape = tuple(self.shape)
    lead = shape[:-2]
    flat = tuple(grad_output.shape[:-2])
    g, at = (reshaped(t, (*flat, t.shape[-2] * t.shape[-1])) for t in (grad_output, indices))
    zeros = filled((*lead, shape[-2] * shape[-1]), g.dtype, 0)
    return reshaped(scatter_add(zeros, -1, at, g), shape)


def _check_padding(name: str, pads: tuple[int, ...], kernel: tuple[int, ...], dilations: tuple[int, ...]) -> None:
    for p, k, d in zip(pads, kernel, dilations, strict=True):
        if not 0 <= p <= (d * (k - 1) + 1) // 2:
            raise located(
                ShapeError(
                    f"{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} "
                    f"and dilation={d}"
                )
            )


@hot
def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last axis."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@hot
def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last two axes; padding counts as zeros if `count_include_pad`."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@autocasts("avg_pool3d")
def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last three axes."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:  # fmt: skip
    kernel = per_axis(kernel_size, rank, "kernel_size")
    strides = _stride(stride, kernel, rank)
    if divisor_override == 0:
        raise located(OperationError(f"avg_pool{rank}d: divisor must be not zero"))
    pads = per_axis(padding, rank, "padding")
    _check_numbers(f"avg_pool{rank}d", kernel, strides, (1,) * rank)
    _check_padding(f"avg_pool{rank}d", pads, kernel, (1,) * rank)
    check_filled(f"avg_pool{rank}d", input, rank)
    op = AvgPool(kernel, strides, pads, ceil_mode, count_include_pad, divisor_override or 0)
    return batched(lambda x: apply(op, x), input, rank, f"avg_pool{rank}d")


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The root of the sum of powers, `sum(x ** p) ** (1 / p)`, of each window over the last axis."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`sum(x ** p) ** (1 / p)` of each window over the last two axes.

    >>> import jitgrad as jg
    >>> jg.nn.functional.lp_pool2d(jg.tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`sum(x ** p) ** (1 / p)` of each window over the last three axes."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(rank: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    x: Any = check_tensor(input, f"lp_pool{rank}d")
    means: Any = _avg_pool(rank, x**norm_type, kernel_size, stride, 0, ceil_mode, True, None)
    positive = means.sign() * means.abs().relu()
    return (positive * math.prod(per_axis(kernel_size, rank, "kernel_size"))) ** (1.0 / norm_type)  # type: ignore[no-any-return]


for _function in (
    avg_pool1d, max_pool1d, max_pool2d, max_pool3d, max_pool1d_with_indices
):  # fmt: skip
    public(method=False)(_function)
