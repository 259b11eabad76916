"""Pooling to a given number of outputs: windows that cover the last axes evenly, or at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.ir.dtypes import int64
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.pooling import AvgPool, MaxPool, MaxPoolIndices
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.ops.resample import Resample, TakeClamped
from jitgrad.ir.symbols import is_tracked

from ...autocasting import autocasts
from ...dispatch import apply, constant
from ...errors import located
from ...functions.gathering import gather
from ...functions.pointwise import check_tensor, expand
from ...functions.registry import public
from ...functions.shape import permute
from ...functions.statistics import mean
from ...random import draw
from ...tensor import Tensor
from .arguments import batched, floating, per_axis, reshaped


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


@autocasts("adaptive_avg_pool3d")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of as many windows over the last three axes as `output_size` says."""
    return _adaptive_avg_pool(3, input, output_size)


def _output_size(name: str, output_size: Any, x: Tensor, rank: int) -> tuple[int, ...]:
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(given) == 1:
        given *= rank
    if any(n is not None and not isinstance(n, int) for n in given):
        raise located(ArgumentTypeError(f"{name}: output_size must hold ints or None, not {list(given)}"))
    if len(given) != rank:
        raise located(ShapeError(f"{name}: internal error: output_size.size() must be {rank}, not {len(given)}"))
    lengths = tuple(x.shape[x.ndim - rank :])
    out = tuple(n if m is None else m for m, n in zip(given, lengths, strict=True))
    if min(out) < 0:
        raise located(ShapeError(f"{name}: elements of output_size must be greater than or equal to 0"))
    if not all(lengths):
        raise located(
            ShapeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(x.shape)}"
            )
        )
    return out


def _check_rank(name: str, input: Any, rank: int) -> Tensor:
    x = check_tensor(input, name)
    if rank > 1 and x.ndim < rank + 1:
        raise located(
            ArgumentError(f"{name}: Input dimension should be at least {rank + 1}, but got {x.ndim} dimensions")
        )
    return x


def _even_windows(lengths: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...] | None:
    """The windows' lengths, if they are equal."""
    if not all(m and n % m == 0 for m, n in zip(out, lengths, strict=True)):
        return None
    return tuple(n // m for m, n in zip(out, lengths, strict=True))


def _adaptive_avg_pool(rank: int, input: Tensor, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"

    def run(x: Tensor) -> Tensor:
        out = _output_size(name, output_size, x, rank)
        lengths = tuple(x.shape[2:])
        if out == (1,) * rank:
            return mean(x, tuple(range(-rank, 0)), keepdim=True)
        tracked = is_tracked(*lengths, *out)
        if not tracked and (kernel := _even_windows(lengths, out)):
            return apply(AvgPool(kernel, kernel, (0,) * rank), x)
        if 0 in out:
            return x.new_zeros((*x.shape[:2], *out))  # type: ignore[attr-defined, no-any-return]
        for axis, (n, m) in enumerate(zip(lengths, out, strict=True), 2):
            if n != m or tracked:
                x = apply(Resample(axis, n, m, "mean"), x)
        return x

    return batched(run, _check_rank(name, input, rank), rank, name)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of as many windows over the last axis as `output_size` says."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of as many windows over the last two axes as `output_size` says; None keeps an axis.

    If `return_indices`, also where it is: its row-major position among those axes, as int64.

    >>> import jitgrad as jg
    >>> jg.nn.functional.adaptive_max_pool2d(jg.arange(9.0).reshape(1, 1, 3, 3), 2)
    tensor([[[[4., 5.],
              [7., 8.]]]])
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


@autocasts("adaptive_max_pool3d")
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of as many windows over the last three axes as `output_size` says."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d`, and where the largest elements are."""
    return _adaptive_max_pool(1, input, output_size, True)  # type: ignore[no-any-return]


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d`, and where the largest elements are."""
    return _adaptive_max_pool(2, input, output_size, True)  # type: ignore[no-any-return]


@autocasts("adaptive_max_pool3d_with_indices")
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d`, and where the largest elements are."""
    return _adaptive_max_pool(3, input, output_size, True)  # type: ignore[no-any-return]


def _adaptive_max_pool(rank: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    x = floating(name, _check_rank(name, input, rank))

    def found(x: Tensor) -> Tensor:
        out, lengths = _output_size(name, output_size, x, rank), tuple(x.shape[2:])
        if kernel := _even_windows(lengths, out):
            return apply(MaxPoolIndices(kernel, kernel, (0,) * rank, (1,) * rank), x)
        if 0 in out:
            return x.new_zeros((*x.shape[:2], *out), dtype=int64)  # type: ignore[attr-defined, no-any-return]
        return _found_in(x, [_windows(n, m) for n, m in zip(lengths, out, strict=True)])

    at = batched(found, x.detach(), rank, name)  # type: ignore[attr-defined]
    kernel = _even_windows(tuple(x.shape[x.ndim - rank :]), tuple(at.shape[at.ndim - rank :]))
    if kernel:
        values = batched(lambda x: apply(MaxPool(kernel, kernel, (0,) * rank, (1,) * rank), x), x, rank, name)
    else:
        values = _picked(x, at, rank)
    return (values, at) if return_indices else values


def _windows(length: int, count: int) -> Any:
    """The places of each window along one axis; shorter windows repeat their last."""
    place = np.arange(count)
    start, stop = place * length // count, -(-(place + 1) * length // count)
    return np.minimum(start[:, None] + np.arange(int((stop - start).max())), stop[:, None] - 1)


def _found_in(x: Tensor, windows: list[Any]) -> Tensor:
    """The position of the largest element of [n, c, ...] in each window."""
    rank, lengths = len(windows), tuple(x.shape[2:])
    positions = np.arange(math.prod(lengths)).reshape(lengths)
    for axis, places in enumerate(windows):
        x = apply(TakeClamped(2 + 2 * axis), x, constant(places, x))
        positions = np.take(positions, places, 2 * axis)
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    out = tuple(len(w) for w in windows)
    flat = (*out, positions.size // math.prod(out))
    elements = reshaped(permute(x, (0, 1, *(2 + a for a in order))), (*x.shape[:2], *flat))
    place = apply(ArgMax((elements.ndim - 1,), True), elements)
    at = constant(np.ascontiguousarray(positions.transpose(order)).reshape(flat), x)
    named = gather(expand(at, tuple(elements.shape)), -1, place)
    return reshaped(named, (*x.shape[:2], *out))


def _picked(x: Tensor, at: Tensor, rank: int) -> Tensor:
    """The elements of `x` at positions among its last axes."""
    lead = tuple(x.shape[: x.ndim - rank])
    flat = reshaped(x, (*lead, math.prod(x.shape[x.ndim - rank :])))
    return reshaped(gather(flat, -1, reshaped(at, (*lead, math.prod(at.shape[at.ndim - rank :])))), tuple(at.shape))


@autocasts("fractional_max_pool2d")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The largest element of windows over the last two axes, whose places are drawn (Graham 2015, arXiv:1412.6071).

    There are as many windows as `output_size` says, or `output_ratio` times the lengths.

    >>> import jitgrad as jg
    >>> jg.nn.functional.fractional_max_pool2d(jg.ones(1, 1, 5, 5), 2, output_size=3).shape
    jitgrad.Size([1, 1, 3, 3])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@autocasts("fractional_max_pool3d")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The largest element of windows over the last three axes, whose places are drawn."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@autocasts("fractional_max_pool2d_with_indices")
def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool2d`, and where the largest elements are."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)  # type: ignore[no-any-return]


@autocasts("fractional_max_pool3d_with_indices")
def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool3d`, and where the largest elements are."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)  # type: ignore[no-any-return]


def _fractional(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Tensor | None,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{rank}d"
    x = floating(name, input)
    if x.ndim not in (rank + 1, rank + 2):
        raise located(ShapeError(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor{operand_lines([x.type_])}"))
    lengths, kernel = tuple(x.shape[x.ndim - rank :]), per_axis(kernel_size, rank, "kernel_size")
    out = _fractional_size(name, lengths, kernel, output_size, output_ratio)
    batch = tuple(x.shape[: x.ndim - rank])
    if samples is None:
        samples = draw(RandomUniform((*(1,) * (rank + 2 - x.ndim), *batch, rank), x.dtype), like=x)
    n, c = (1, *batch) if len(batch) == 1 else batch
    if samples.ndim != 3 or samples.shape[0] < n or tuple(samples.shape[1:]) != (c, rank):
        raise located(
            ShapeError(f"{name}: Expect _random_samples to have shape {[n, c, rank]}, not {list(samples.shape)}")
        )
    samples = samples[:n]  # type: ignore[index]
    at: Any = 0
    for axis, (length, k, m) in enumerate(zip(lengths, kernel, out, strict=True)):
        # The two-dimensional form takes the last axis's sample first, as in PyTorch.
        sample: Any = samples[..., rank - 1 - axis if rank == 2 else axis]  # type: ignore[index]
        places = _drawn_places(sample, length, k, m)
        spread = [n, c, *(1,) * (2 * rank)]
        spread[2 + axis], spread[2 + rank + axis] = m, k
        at = reshaped(places, tuple(spread)) + at * length
    flat = reshaped(at, (n, c, math.prod(out), math.prod(kernel)))
    elements = gather(reshaped(x.detach(), (n, c, 1, math.prod(lengths))).expand(n, c, math.prod(out), -1), -1, flat)  # type: ignore[attr-defined]
    named = reshaped(gather(flat, -1, apply(ArgMax((3,), True), elements)), (*batch, *out))
    values = _picked(x, named, rank)
    return (values, named) if return_indices else values


def _drawn_places(sample: Any, length: int, k: int, m: int) -> Any:
    """The places [n, c, m, k] of windows along one axis, from a sample in [0, 1) for each channel."""
    i: Any = constant(np.arange(m), sample)
    if m > 1:
        alpha = (length - k) / (m - 1)
        start = ((i + sample.unsqueeze(-1)) * alpha).long() - (sample.unsqueeze(-1) * alpha).long()
        last = constant(np.arange(m) == m - 1, sample)
        start = start.masked_fill(last, length - k)
    else:
        start = (sample.unsqueeze(-1) * 0).long() + length - k
    return start.unsqueeze(-1) + constant(np.arange(k), sample)


def _fractional_size(
    name: str, lengths: tuple[int, ...], kernel: tuple[int, ...], output_size: Any, output_ratio: Any
) -> tuple[int, ...]:
    if output_size is None and output_ratio is None:
        raise located(ArgumentError(f"{name} requires specifying either an output_size or an output_ratio"))
    rank = len(lengths)
    if output_size is not None:
        out = per_axis(output_size, rank, "output_size")
    else:
        ratio = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        out = tuple(int(n * r) for n, r in zip(lengths, ratio, strict=True))
    for n, k, m in zip(lengths, kernel, out, strict=True):
        if m < 1 or m + k - 1 > n:
            raise located(OperationError(f"{name}: pool size {k} or output size {m} too large relative to input {n}"))
    return out


@public("adaptive_max_pool1d", method=False)
def _adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`nn.functional.adaptive_max_pool1d` with indices.

    >>> import jitgrad as jg
    >>> jg.adaptive_max_pool1d(jg.tensor([[1.0, 5.0, 2.0]]), 2)
    (tensor([[5., 5.]]), tensor([[1, 1]]))
    """
    return adaptive_max_pool1d_with_indices(check_tensor(input, "adaptive_max_pool1d"), output_size)


public(method=False)(adaptive_avg_pool1d)
