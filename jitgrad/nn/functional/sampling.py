"""Sampling images at given positions: `grid_sample`, and the grids of affine maps."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError, UnsupportedError, operand_lines
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.history import WithHistory
from jitgrad.ir.ops.resample import TakeClamped

from ...dispatch import apply, constant
from ...errors import located
from ...functions.comparison import choose
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor, convert, filled
from ...functions.registry import public
from ...functions.shape import permute
from ...tensor import Tensor
from .arguments import reshaped

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75  # the slope of the cubic convolution kernel at 1


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The values of [n, c, h, w] at positions [n, ho, wo, 2], as [n, c, ho, wo]; of volumes likewise.

    Positions are (x, y) or (x, y, z) from -1 to 1, which are the ends of an axis, or with `align_corners` the centres
    of its end elements. `mode` is "bilinear", "nearest" or "bicubic" (images only). Outside, `padding_mode` takes
    "zeros", the "border" elements, or those at the position's "reflection".

    >>> import jitgrad as jg
    >>> x, at = jg.tensor([[[[1.0, 3.0]]]]), jg.tensor([[[[0.0, 0.0]]]])
    >>> jg.nn.functional.grid_sample(x, at, align_corners=False)
    tensor([[[[2.]]]])
    """
    if mode not in _MODES:
        raise located(
            ArgumentError(
                "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
                f"'{mode}'"
            )
        )
    if padding_mode not in _PADDINGS:
        raise located(
            ArgumentError(
                "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but "
                f"got: '{padding_mode}'"
            )
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


def _native(rank: int, input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    if check_tensor(input, "grid_sampler").ndim != rank + 2:
        raise located(ShapeError(f"grid_sampler_{rank}d: expected {rank + 2}D input{operand_lines([input.type_])}"))
    return _sample(input, grid, _MODES[mode], _PADDINGS[padding], align)


@public(method=False)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with numbers for modes: 0, 1, 2 for "bilinear", "nearest", "bicubic" and the three paddings."""
    return _native(check_tensor(input, "grid_sampler").ndim - 2, input, grid, interpolation_mode, padding_mode,
                   align_corners)  # fmt: skip


@public(method=False)
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images."""
    return _native(2, input, grid, interpolation_mode, padding_mode, align_corners)


@public(method=False)
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes."""
    return _native(3, input, grid, interpolation_mode, padding_mode, align_corners)


def _check(x: Tensor, grid: Tensor, mode: str) -> None:
    rank = x.ndim - 2
    if rank not in (2, 3) or grid.ndim != x.ndim:
        raise located(
            ShapeError(
                "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
                f"sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
            )
        )
    if grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        raise located(
            ShapeError(
                f"grid_sampler(): expected grid to have size {rank} in last dimension and the input's batch size "
                f"{x.shape[0]}, but got grid with sizes {list(grid.shape)}"
            )
        )
    if not all(x.shape[2:]):
        raise located(
            ShapeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(x.shape)}"
            )
        )
    if mode == "bicubic" and rank != 2:
        raise located(OperationError("grid_sampler(): bicubic interpolation only supports 4D input"))
    if grid.dtype is not x.dtype:
        raise located(
            OperationError(
                f"grid_sampler(): expected input and grid to have same dtype, but input has {x.dtype.name} and grid "
                f"has {grid.dtype.name}"
            )
        )


def _sample(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    x, at = check_tensor(input, "grid_sample"), check_tensor(grid, "grid_sample")
    _check(x, at, mode)
    wide = accumulator_dtype(x.dtype)
    n, c, *lengths = x.shape
    rank = len(lengths)
    rows = permute(convert(x, wide), (0, *range(2, rank + 2), 1)).reshape(n * math.prod(lengths), c)  # type: ignore[attr-defined]
    positions: list[Any] = [convert(at, wide).select(-1, rank - 1 - a) for a in range(rank)]  # type: ignore[attr-defined]
    centred = [_unnormalised(p, length, align) for p, length in zip(positions, lengths, strict=True)]
    if mode != "bicubic":
        centred = [_brought_inside(p, length, padding, align) for p, length in zip(centred, lengths, strict=True)]
    taps = [_TAPS[mode](p) for p in centred]
    out: Any = 0
    for chosen in itertools.product(*taps):
        places = [place for place, _ in chosen]
        if mode == "bicubic":
            places = [_brought_inside(p, m, padding, align) for p, m in zip(places, lengths, strict=True)]
        weight: Any = math.prod([w for _, w in chosen], start=1)
        out = out + _weighted_rows(rows, places, tuple(lengths), weight)
    return convert(permute(out, (0, rank + 1, *range(1, rank + 1))), x.dtype)


def _weighted_rows(rows: Tensor, places: list[Any], lengths: tuple[int, ...], weight: Any) -> Any:
    """The rows of the elements at `places`, times the weights; zeros outside."""
    n = places[0].shape[0]
    inside: Any = None
    flat: Any = reshaped(constant(np.arange(n), rows), (n, *(1,) * (places[0].ndim - 1)))
    for place, length in zip(places, lengths, strict=True):
        within = (place >= 0) & (place <= length - 1)
        inside = within if inside is None else inside & within
        flat = flat * length + choose("grid_sample", within, place, 0).long()  # type: ignore[attr-defined]
    taken: Any = apply(TakeClamped(0), rows, flat)
    if not isinstance(weight, int):
        taken = taken * weight.unsqueeze(-1)
    return choose("grid_sample", inside.unsqueeze(-1), taken, 0)


def _unnormalised(position: Any, length: int, align: bool) -> Any:
    """Positions from -1 to 1 as indices."""
    if align:
        return (position + 1) * ((length - 1) / 2)
    return ((position + 1) * length - 1) / 2


def _brought_inside(position: Any, length: int, padding: str, align: bool) -> Any:
    if padding == "zeros":
        return position
    if padding == "reflection":
        position = _reflected(position, length, align)
    limited = position.clamp(0, length - 1)
    # NaN is nowhere; PyTorch takes the first element there.
    return choose("grid_sample", position == position, limited, 0)


def _reflected(position: Any, length: int, align: bool) -> Any:
    """Mirrored at the ends as often as it takes."""
    low, span = (0.0, length - 1.0) if align else (-0.5, float(length))
    if span <= 0:
        return position * 0
    distance = (position - low).abs()
    flips = (distance / span).floor().detach()
    extra = distance - flips * span
    return choose("grid_sample", flips % 2 == 0, extra + low, span - extra + low)


def _nearest_tap(position: Any) -> list[tuple[Any, Any]]:
    """The nearest place; the gradient of positions is zero, and not missing."""
    one = filled(tuple(position.shape), position.dtype, 1)
    weight = apply(WithHistory(), one, position * 0) if position.requires_grad else 1
    return [(position.detach().round(), weight)]


def _linear_taps(position: Any) -> list[tuple[Any, Any]]:
    first = position.detach().floor()
    part = position - first
    return [(first, 1 - part), (first + 1, part)]


def _cubic_taps(position: Any) -> list[tuple[Any, Any]]:
    """Keys's cubic convolution (1981, doi:10.1109/TASSP.1981.1163711)."""
    first, a = position.detach().floor(), _CUBIC
    t = position - first

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [(first + (i - 1), w) for i, w in enumerate(weights)]


_TAPS = {"nearest": _nearest_tap, "bilinear": _linear_taps, "bicubic": _cubic_taps}


@public("affine_grid_generator", method=False)
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The positions for `grid_sample` of affine maps `theta` [n, 2, 3] (or [n, 3, 4]), for a result of `size`.

    >>> import jitgrad as jg
    >>> jg.nn.functional.affine_grid(jg.eye(2, 3).unsqueeze(0), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    x = check_tensor(theta, "affine_grid")
    if not x.dtype.is_floating_point:
        raise located(ArgumentError(f"Expected theta to have floating point type, but got {x.dtype.name}"))
    rank = len(size) - 2
    if rank not in (2, 3):
        raise located(
            UnsupportedError(f"affine_grid only supports 4D and 5D sizes, for 2D and 3D transforms. Got {size}.")
        )
    if x.ndim != 3 or x.shape[1:] != (rank, rank + 1) or x.shape[0] != size[0]:
        raise located(
            ArgumentError(
                f"Expected a batch of {rank}D affine matrices of shape {size[0]}x{rank}x{rank + 1} for size "
                f"{list(size)}. Got {list(x.shape)}."
            )
        )
    if min(size) <= 0:
        raise located(ArgumentError(f"Expected non-zero, positive output size. Got {list(size)}"))
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
    axes = [_centres(n, bool(align_corners)).astype(x.dtype.np) for n in size[2:]]
    grids = np.meshgrid(*axes, indexing="ij")
    base = np.stack([*reversed(grids), np.ones_like(grids[0])], -1).reshape(1, -1, rank + 1)
    mapped = matmul(constant(base, x), x.transpose(1, 2))  # type: ignore[attr-defined]
    return reshaped(mapped, (size[0], *size[2:], rank))


def _centres(length: int, align: bool) -> Any:
    if length <= 1:
        return np.zeros(length)
    ends = np.linspace(-1, 1, length)
    return ends if align else ends * (length - 1) / length
