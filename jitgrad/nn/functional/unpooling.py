"""The reverse of max pooling: elements put back where they came from, zeros elsewhere."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.dtypes import int64
from jitgrad.ir.errors import ArgumentError, DTypeError, ShapeError, operand_lines
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.unpool import Unpool

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor
from ...tensor import Tensor
from .arguments import checked, per_axis, reshaped


@autocasts("max_unpool1d")
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Elements at the `indices` that `max_pool1d` returned, zeros elsewhere.

    >>> import jitgrad as jg
    >>> x = jg.tensor([[1.0, 5.0, 2.0, 3.0]])
    >>> jg.nn.functional.max_unpool1d(*jg.nn.functional.max_pool1d(x, 2, return_indices=True), 2)
    tensor([[0., 5., 0., 3.]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocasts("max_unpool2d")
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Elements at the `indices` that `max_pool2d` returned, zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocasts("max_unpool3d")
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Elements at the `indices` that `max_pool3d` returned, zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    rank: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    name = f"max_unpool{rank}d"
    x = check_tensor(input, name)
    kernel, pads = per_axis(kernel_size, rank, "kernel_size"), per_axis(padding, rank, "padding")
    strides = kernel if stride is None else per_axis(stride, rank, "stride")
    if indices.dtype is not int64:
        raise located(DTypeError(f"elements in indices should be type int64 but got: {indices.dtype.name}"))
    if x.ndim not in (rank + 1, rank + 2) or 0 in x.shape[x.ndim - rank - 1 :]:
        raise located(
            ShapeError(f"{name}: Expected a {rank + 1}D or {rank + 2}D tensor, not empty{operand_lines([x.type_])}")
        )
    if indices.shape != x.shape:
        raise located(
            ShapeError(
                f"Expected shape of indices to be same as that of the input tensor ({list(x.shape)}) but got indices "
                f"tensor with shape: {list(indices.shape)}"
            )
        )
    if min(strides) < 1:
        raise located(ShapeError(f"strides should be greater than zero, but got stride: {list(strides)}"))
    out = _size(tuple(x.shape[x.ndim - rank :]), kernel, strides, pads, output_size)
    lead, volume = tuple(x.shape[: x.ndim - rank]), math.prod(out)
    flat = (*lead, math.prod(x.shape[x.ndim - rank :]))
    at = reshaped(checked(CheckBetween(name, "indices", 0, volume - 1), indices), flat)
    return reshaped(apply(Unpool(volume), reshaped(x, flat), at), (*lead, *out))


def _size(
    lengths: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], pads: tuple[int, ...], given: Any
) -> tuple[int, ...]:
    rank = len(lengths)
    default = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(lengths, stride, kernel, pads, strict=True))
    if given is None:
        return default
    size = tuple(given)
    if len(size) == rank + 2:
        size = size[2:]
    if len(size) != rank:
        raise located(
            ArgumentError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(size)}'"
            )
        )
    for n, d, s in zip(size, default, stride, strict=True):
        if not d - s < n < d + s:
            raise located(
                ArgumentError(f"invalid output_size {list(size)} (dim {n} must be between {d - s} and {d + s})")
            )
    return size
