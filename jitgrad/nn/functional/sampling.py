"""Sampling images at given positions: `grid_sample`, and the grids of affine maps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError, UnsupportedError, operand_lines
from jitgrad.ir.ops.grid_sample import GridSample

from ...autocasting import autocasts
from ...dispatch import apply, constant
from ...errors import located
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor
from ...functions.registry import public
from ...tensor import Tensor
from .arguments import reshaped

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@autocasts("grid_sample")
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
    return apply(GridSample(mode, padding, align), x, at)


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
