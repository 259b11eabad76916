"""Pooling over the last one to three axes: by windows, or to a given number of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, ShapeError
from jitgrad.ir.ops.pooling import AvgPool, MaxPool

from ...dispatch import apply, constant
from ...errors import located
from ...functions.linalg import matmul
from ...functions.statistics import mean
from ...tensor import Tensor
from .arguments import batched, per_axis


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """The largest element of each window over the last axis."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """The largest element of each window over the last two axes; `stride` is `kernel_size` if left out.

    >>> import jitgrad as jg
    >>> jg.nn.functional.max_pool2d(jg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """The largest element of each window over the last three axes."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Tensor:  # fmt: skip
    name = f"max_pool{rank}d"
    if return_indices:
        raise located(ArgumentError(f"{name}: return_indices=True is not supported"))
    kernel = per_axis(kernel_size, rank, "kernel_size")
    strides = kernel if stride is None or stride == () else per_axis(stride, rank, "stride")
    pads, dilations = per_axis(padding, rank, "padding"), per_axis(dilation, rank, "dilation")
    _check_padding(name, pads, kernel, dilations)
    op = MaxPool(kernel, strides, pads, dilations, ceil_mode)
    return batched(lambda x: apply(op, x), input, rank, name)


def _check_padding(name: str, pads: tuple[int, ...], kernel: tuple[int, ...], dilations: tuple[int, ...]) -> None:
    for p, k, d in zip(pads, kernel, dilations, strict=True):
        if not 0 <= p <= (d * (k - 1) + 1) // 2:
            raise located(
                ShapeError(
                    f"{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} "
                    f"and dilation={d}"
                )
            )


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last axis."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last two axes; padding counts as zeros if `count_include_pad`."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


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
    strides = kernel if stride is None or stride == () else per_axis(stride, rank, "stride")
    if divisor_override == 0:
        raise located(ArgumentError(f"avg_pool{rank}d: divisor must be not zero"))
    pads = per_axis(padding, rank, "padding")
    _check_padding(f"avg_pool{rank}d", pads, kernel, (1,) * rank)
    op = AvgPool(kernel, strides, pads, ceil_mode, count_include_pad, divisor_override or 0)
    return batched(lambda x: apply(op, x), input, rank, f"avg_pool{rank}d")


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of as many windows over the last axis as `output_size` says."""
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of as many windows over the last two axes as `output_size` says; None keeps an axis.

    >>> import jitgrad as jg
    >>> jg.nn.functional.adaptive_avg_pool2d(jg.arange(4.0).reshape(1, 1, 2, 2), 1)
    tensor([[[[1.5000]]]])
    """
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of as many windows over the last three axes as `output_size` says."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_avg_pool(rank: int, input: Tensor, output_size: Any) -> Tensor:
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(given) != rank or any(n is not None and not isinstance(n, int) for n in given):
        raise located(ArgumentTypeError(f"adaptive_avg_pool{rank}d: output_size must be one int or None, or {rank}"))

    def run(x: Tensor) -> Tensor:
        lengths = tuple(x.shape[2:])
        out = tuple(n if m is None else m for m, n in zip(given, lengths, strict=True))
        if out == (1,) * rank:
            return mean(x, tuple(range(-rank, 0)), keepdim=True)
        if all(m and n % m == 0 for m, n in zip(out, lengths, strict=True)):
            kernel = tuple(n // m for m, n in zip(out, lengths, strict=True))
            return apply(AvgPool(kernel, kernel, (0,) * rank), x)
        return _window_means(x, out)

    return batched(run, input, rank, f"adaptive_avg_pool{rank}d")


def _window_means(x: Tensor, out: tuple[int, ...]) -> Tensor:
    """Means over windows of unequal lengths: along one axis after the other, as products with matrices."""
    for axis, count in enumerate(out, 2):
        length = x.shape[axis]
        matrix = np.zeros((length, count), x.dtype.np)
        for i in range(count):
            first, last = i * length // count, -(-(i + 1) * length // count)
            matrix[first:last, i] = 1 / (last - first)
        x = matmul(x.transpose(axis, -1), constant(matrix)).transpose(axis, -1)  # type: ignore[attr-defined]
    return x
