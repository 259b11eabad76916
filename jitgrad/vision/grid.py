"""Many images as one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import ShapeError

from ..creation import from_numpy
from ..errors import located
from ..functions.joining import stack
from ..tensor import Tensor, to_array
from .pictures import to_picture


def make_grid(
    tensor: Tensor | Sequence[Tensor], nrow: int = 8, padding: int = 2, normalize: bool = False,
    value_range: tuple[float, float] | None = None, pad_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Images [n, channels, height, width], or a list of them, side by side: [3 or more, height, width].

    `nrow` are in a row, `padding` pixels of `pad_value` around each; grey ones get three channels. `normalize` maps
    `value_range`, by default from the smallest to the largest value, to 0 to 1.

    >>> import jitgrad as jg
    >>> make_grid(jg.ones(5, 1, 4, 4), nrow=3).shape
    jitgrad.Size([3, 14, 20])
    """
    images = stack(list(tensor)) if isinstance(tensor, (list, tuple)) else tensor
    if images.ndim != 4:  # type: ignore[union-attr]
        raise located(ShapeError(f"make_grid: images are [n, channels, height, width], not {list(images.shape)}"))
    values = to_array(images.detach().cpu())  # type: ignore[union-attr]
    if values.shape[1] == 1:
        values = values.repeat(3, 1)
    if normalize:
        low, high = (values.min(), values.max()) if value_range is None else value_range
        values = (values.clip(low, high) - low) / max(high - low, 1e-5)
    count, channels, height, width = values.shape
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    tall, wide = height + padding, width + padding
    grid = np.full((channels, rows * tall + padding, columns * wide + padding), pad_value, values.dtype)
    for i, image in enumerate(values):
        top, left = i // columns * tall + padding, i % columns * wide + padding
        grid[:, top : top + height, left : left + width] = image
    return from_numpy(grid)


def save_image(tensor: Tensor | Sequence[Tensor], path: str | os.PathLike[str], **options: Any) -> None:
    """Save images as one picture; values from 0 to 1, options as in `make_grid`."""
    images = tensor[None] if isinstance(tensor, Tensor) and tensor.ndim == 3 else tensor  # type: ignore[index]
    grid = make_grid(images, **options)
    to_picture((grid.clamp(0, 1) * 255 + 0.5).byte()).save(path)
