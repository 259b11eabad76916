"""Pillow's pictures and arrays, from one to the other; the one place that imports Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from ..errors import located
from ..tensor import Tensor, to_array


def pillow() -> Any:
    """The package `PIL`, loaded when a picture is first asked for; raises `RuntimeError` where it is missing."""
    try:
        from PIL import Image, ImageEnhance, ImageOps
    except ImportError as error:
        raise located(OperationError("pictures need Pillow: pip install 'jitgrad[vision]'")) from error
    return _Parts(Image, ImageEnhance, ImageOps)


class _Parts:
    """The modules of Pillow that are used."""

    def __init__(self, image: Any, enhance: Any, ops: Any) -> None:
        self.image, self.enhance, self.ops = image, enhance, ops


def is_picture(x: Any) -> bool:
    """Whether `x` is an image of Pillow's."""
    return not isinstance(x, Tensor) and hasattr(x, "getbands")


def image_size(image: Any) -> tuple[int, int]:
    """Height and width of a picture, or of a tensor [..., height, width]."""
    if isinstance(image, Tensor):
        return image.shape[-2], image.shape[-1]
    if not is_picture(image):
        raise located(ArgumentTypeError(f"an image is a tensor or a picture of Pillow's, not {type(image).__name__}"))
    width, height = image.size
    return height, width


def read_picture(path: str | Path) -> Any:
    """The picture in a file, as red, green and blue."""
    with open(path, "rb") as file:
        return pillow().image.open(file).convert("RGB")


def to_picture(image: Any, mode: str | None = None) -> Any:
    """A tensor [channels, height, width] or [height, width], or an array [height, width(, channels)], as a picture.

    Floats are from 0 to 1. One channel is grey, two are grey and opacity, three are red, green and blue, four have
    opacity too; `mode` is Pillow's name of another meaning.
    """
    if isinstance(image, Tensor):
        if image.ndim not in (2, 3):
            raise located(
                ArgumentError(f"a picture has 2 or 3 dimensions, not {image.ndim}: shape {list(image.shape)}")
            )
        values = image.mul(255).byte() if image.dtype.is_floating_point and mode != "F" else image
        array = to_array(values.detach().cpu())
        array = np.ascontiguousarray(array.transpose(1, 2, 0)) if image.ndim == 3 else array
    elif isinstance(image, np.ndarray):
        array = image
    else:
        raise located(ArgumentTypeError(f"a tensor or an array becomes a picture, not {type(image).__name__}"))
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim == 3 and array.shape[2] not in (2, 3, 4):
        raise located(ArgumentError(f"a picture has 1 to 4 channels, not {array.shape[2]}"))
    made = pillow().image.fromarray(array)
    return made if mode in (None, made.mode) else made.convert(mode)


def picture_array(picture: Any) -> np.ndarray[Any, Any]:
    """A picture's numbers [height, width, channels], in its own memory layout."""
    if picture.mode == "1":
        picture = picture.convert("L")
    array = np.asarray(picture)
    return array if array.ndim == 3 else array[:, :, np.newaxis]
