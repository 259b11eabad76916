"""Resizing images and signals: `interpolate` and its older names."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ShapeError, UnsupportedError, operand_lines
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.resample import Resample
from jitgrad.ir.symbols import is_tracked

from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, convert
from ...hot_path import hot
from ...tensor import Tensor
from .adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}  # how many axes a mode resizes
_ANTIALIASED = ("bilinear", "bicubic")


@hot
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """The last one to three axes of [n, c, ...] resized to `size`, or by `scale_factor`.

    `mode` is "nearest", "nearest-exact", "area" (means), "linear" (one axis), "bilinear", "bicubic" (two) or
    "trilinear" (three). With `align_corners` the centres of the end elements stay in place, else the ends.
    `antialias` widens the kernel when the result is smaller.

    >>> import jitgrad as jg
    >>> jg.nn.functional.interpolate(jg.tensor([[[0.0, 4.0]]]), scale_factor=2, mode="linear")
    tensor([[[0., 1., 3., 4.]]])
    """
    x = check_tensor(input, "interpolate")
    rank = x.ndim - 2
    _check_mode(mode, align_corners, antialias, x)
    out, factors = _output(x, size, scale_factor, recompute_scale_factor, antialias)
    _check_sizes(x, out, mode)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1](x, out)
    kind = mode if mode.startswith("nearest") else mode.removeprefix("bi").removeprefix("tri")
    kind += "-antialias" if antialias else ""
    if not kind.startswith("nearest"):
        return _weighted(x, kind, out, factors, bool(align_corners))
    return _resampled(x, kind, out, factors, False)


def _check_mode(mode: str, align_corners: bool | None, antialias: bool, x: Tensor) -> None:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise located(
                ArgumentError(
                    "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic "
                    "| trilinear"
                )
            )
    elif mode in _RANKS and x.ndim != _RANKS[mode] + 2 and 3 <= x.ndim <= 5:
        raise located(UnsupportedError(f"Got {x.ndim}D input, but {mode} mode needs {_RANKS[mode] + 2}D input"))
    if antialias and not (mode in _ANTIALIASED and x.ndim == 4):
        raise located(ArgumentError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
                                    "tensor as input"))  # fmt: skip
    if mode not in ("nearest", "area", "nearest-exact", *_RANKS) or not 3 <= x.ndim <= 5:
        raise located(
            UnsupportedError(
                "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
                f"{x.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
                f"(got {mode})"
            )
        )


def _output(
    x: Tensor, size: Any, scale_factor: Any, recompute: bool | None, antialias: bool
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The lengths asked for, and for each axis the factor that positions are computed with (None: by lengths)."""
    rank, lengths = x.ndim - 2, tuple(x.shape[2:])
    if (size is None) == (scale_factor is None):
        both = "only one of size or scale_factor should be defined"
        raise located(ArgumentError(both if size is not None else "either size or scale_factor should be defined"))
    if size is not None:
        if recompute is not None:
            raise located(ArgumentError("recompute_scale_factor is not meaningful with an explicit size."))
        return tuple(n if isinstance(n, int) else operator.index(n) for n in _each(size, rank, "size")), (None,) * rank
    factors = tuple(float(f) for f in _each(scale_factor, rank, "scale_factor"))
    out = tuple(math.floor(n * f) for n, f in zip(lengths, factors, strict=True))
    if recompute:
        return out, (None,) * rank
    return out, factors


def _each(value: Any, rank: int, name: str) -> Sequence[Any]:
    if not isinstance(value, (tuple, list)):
        return (value,) * rank
    if len(value) != rank:
        raise located(
            ArgumentError(
                f"Input and {name} must have the same number of spatial dimensions, but got input with {rank} and "
                f"{name} {list(value)}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {name} in "
                "(o1, o2, ...,oK) format."
            )
        )
    return value


def _check_sizes(x: Tensor, out: tuple[int, ...], mode: str) -> None:
    if min(out, default=1) < 1 or 0 in x.shape[1:]:
        raise located(
            ShapeError(
                f"Input and output sizes should be greater than 0, but got input ({list(x.shape)}) and output "
                f"({list(out)}) in mode {mode}"
            )
        )


def _weighted(x: Tensor, kind: str, out: tuple[int, ...], factors: Sequence[float | None], align: bool) -> Tensor:
    """By weights: computed in float32 for narrower types, and rounded once."""
    if x.dtype is dtypes.uint8:
        return convert(_resampled(convert(x, dtypes.float32), kind, out, factors, align, _as_pixels), dtypes.uint8)
    if not x.dtype.is_floating_point:
        raise located(UnsupportedError(f"interpolate: not implemented for {x.dtype.name}{operand_lines([x.type_])}"))
    wide = convert(x, accumulator_dtype(x.dtype))
    return convert(_resampled(wide, kind, out, factors, align), x.dtype)


def _as_pixels(x: Any) -> Tensor:
    """Rounded to a whole number from 0 to 255, as PyTorch does after each axis of an image."""
    return (x + 0.5).floor().clamp(0, 255)  # type: ignore[no-any-return]


def _resampled(
    x: Tensor, kind: str, out: tuple[int, ...], factors: Sequence[float | None], align: bool,
    after: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """One axis after the other, the last first."""
    done = x
    for axis in reversed(range(2, x.ndim)):
        source, target, factor = x.shape[axis], out[axis - 2], factors[axis - 2]
        step = source / target if factor is None else 1.0 / factor
        if align:
            step = (source - 1) / (target - 1) if target > 1 else 0.0
        if source != target or (step != 1.0 and not align) or is_tracked(source, target):
            done = apply(Resample(axis, source, target, kind, step, align), done)
            done = after(done) if after else done
    return done if done is not x else x.clone()  # type: ignore[attr-defined, no-any-return]


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate`, under its older name."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element, under its older name."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of images, the corners aligned, under its older name."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
