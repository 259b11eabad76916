"""Functions of one image: a picture of Pillow's, or a tensor [..., height, width]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...creation import tensor
from ...errors import located
from ...nn import functional as F
from ...tensor import Tensor, to_array, wrap
from ..pictures import image_size, is_picture, picture_array, pillow, to_picture
from .arguments import InterpolationMode, pair, pillow_code, sides

Fill = float | Sequence[float] | None
_PADDINGS = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


def to_tensor(image: Any) -> Tensor:
    """A picture or an array [height, width(, channels)] as a tensor [channels, height, width].

    uint8 becomes float32 from 0 to 1; other numbers stay as they are.

    >>> import numpy as np
    >>> to_tensor(np.full((1, 2, 1), 51, np.uint8))
    tensor([[[0.2000, 0.2000]]])
    """
    array = _channels_first(image)
    if array.dtype != np.uint8:
        return wrap(np.array(array, order="C"))
    return wrap(_divided(array, 255.0))


def _divided(array: np.ndarray[Any, Any], by: float) -> np.ndarray[Any, Any]:
    """float32, in one pass, row by row."""
    return np.divide(array, np.float32(by), out=np.empty(array.shape, np.float32))


def pil_to_tensor(picture: Any) -> Tensor:
    """A picture's numbers as they are: uint8 [channels, height, width] for most."""
    if not is_picture(picture):
        raise located(ArgumentTypeError(f"pil_to_tensor: expected a picture, not {type(picture).__name__}"))
    return wrap(np.array(_channels_first(picture), order="C"))


def _channels_first(image: Any) -> np.ndarray[Any, Any]:
    if is_picture(image):
        return picture_array(image).transpose(2, 0, 1)
    if not isinstance(image, np.ndarray):
        raise located(ArgumentTypeError(f"to_tensor: expected a picture or an array, not {type(image).__name__}"))
    if image.ndim not in (2, 3):
        raise located(ArgumentError(f"pic should be 2/3 dimensional. Got {image.ndim} dimensions."))
    return image[np.newaxis] if image.ndim == 2 else image.transpose(2, 0, 1)


to_pil_image = to_picture


def _host_array(image: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a tensor in host memory of which no gradient is asked: there NumPy does at once what ops would."""
    if not isinstance(image, Tensor) or image.requires_grad or image.device.type != "cpu":
        return None
    return to_array(image)


def convert_image_dtype(image: Tensor, dtype: DType = dtypes.float32) -> Tensor:
    """An image of another dtype, from the whole range of one to that of the other: floats are from 0 to 1.

    >>> import jitgrad as jg
    >>> convert_image_dtype(jg.tensor([0, 255], dtype=jg.uint8))
    tensor([0., 1.])
    """
    old = image.dtype
    if old.is_floating_point:
        if dtype.is_floating_point:
            return image.to(dtype)
        largest = float(np.iinfo(dtype.np).max)
        return (image * (largest + 1 - 1e-3)).to(dtype)
    largest = float(np.iinfo(old.np).max)
    if dtype.is_floating_point:
        array = _host_array(image) if dtype is dtypes.float32 else None
        return image.to(dtype) / largest if array is None else wrap(_divided(array, largest))
    other = float(np.iinfo(dtype.np).max)
    if largest > other:
        return (image // int((largest + 1) // (other + 1))).to(dtype)
    return image.to(dtype) * int((other + 1) // (largest + 1))


def normalize(image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """`(image - mean) / std`, a number for each channel of [..., channels, height, width]."""
    if not isinstance(image, Tensor) or not image.dtype.is_floating_point:
        kind = image.dtype.name if isinstance(image, Tensor) else type(image).__name__
        raise located(ArgumentTypeError(f"normalize: Input tensor should be a float tensor. Got {kind}."))
    if 0 in list(std):
        raise located(ArgumentError("std evaluated to zero, leading to division by zero."))
    array = None if inplace else _host_array(image)
    if array is None:
        shift, scale = (tensor(list(x), dtype=image.dtype, device=image.device).reshape(-1, 1, 1) for x in (mean, std))
        return image.sub_(shift).div_(scale) if inplace else (image - shift) / scale
    shifts, scales = (np.asarray(x, array.dtype).reshape(-1, 1, 1) for x in (mean, std))
    out = array - shifts
    out /= scales
    return wrap(out)


def crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of an image; outside of it there are zeros."""
    if is_picture(image):
        return image.crop((left, top, left + width, top + height))
    tall, wide = image_size(image)
    before, after = (max(-top, 0), max(-left, 0)), (max(top + height - tall, 0), max(left + width - wide, 0))
    inside = (..., slice(max(top, 0), max(top + height, 0)), slice(max(left, 0), max(left + width, 0)))
    if not any(before + after):
        return image[inside]
    array = _host_array(image)
    if array is None:
        return F.pad(image[inside], (before[1], after[1], before[0], after[0]))
    out = np.zeros((*array.shape[:-2], height, width), array.dtype)
    out[..., before[0] : height - after[0], before[1] : width - after[1]] = array[inside]
    return wrap(out)


def center_crop(image: Any, size: int | Sequence[int]) -> Any:
    """The middle of an image; a smaller one gets zeros around."""
    height, width = pair(size)
    tall, wide = image_size(image)
    if tall < height or wide < width:
        across, down = max(width - wide, 0), max(height - tall, 0)
        image = pad(image, [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2])
        tall, wide = image_size(image)
    return crop(image, round((tall - height) / 2.0), round((wide - width) / 2.0), height, width)


def hflip(image: Any) -> Any:
    """Left and right exchanged."""
    return image.transpose(0) if is_picture(image) else _flipped(image, -1)


def vflip(image: Any) -> Any:
    """Top and bottom exchanged."""
    return image.transpose(1) if is_picture(image) else _flipped(image, -2)


def _flipped(image: Tensor, dim: int) -> Tensor:
    array = _host_array(image)
    return image.flip(dim) if array is None else wrap(np.ascontiguousarray(np.flip(array, dim)))


def pad(image: Any, padding: int | Sequence[int], fill: Fill = 0, padding_mode: str = "constant") -> Any:
    """More pixels around: left, top, right, bottom, or one number for all, or two for both sides.

    They are `fill` (`"constant"`), the outermost pixels (`"edge"`), or a mirror image without them (`"reflect"`) or
    with them (`"symmetric"`).
    """
    left, top, right, bottom = sides(padding)
    if padding_mode not in (*_PADDINGS, "symmetric"):
        raise located(ArgumentError("Padding mode should be either constant, edge, reflect or symmetric"))
    if is_picture(image):
        if padding_mode == "constant":
            return pillow().ops.expand(image, border=(left, top, right, bottom), fill=_pillow_fill(image, fill))
        array = np.asarray(image)
        around = ((top, bottom), (left, right), (0, 0))[: array.ndim]
        return pillow().image.fromarray(np.pad(array, around, mode=padding_mode))
    if padding_mode == "constant" and isinstance(fill, (int, float)):
        return F.pad(image, (left, right, top, bottom), value=fill)
    around = (*((0, 0),) * (image.ndim - 2), (top, bottom), (left, right))
    padded = np.pad(to_array(image), around, mode="constant" if padding_mode == "constant" else padding_mode)
    return _filled(wrap(padded), (left, top, right, bottom), fill) if padding_mode == "constant" else wrap(padded)


def _filled(image: Tensor, around: tuple[int, ...], fill: Fill) -> Tensor:
    """A border with a value for each channel."""
    left, top, right, bottom = around
    array = to_array(image)
    inside = array[..., top : array.shape[-2] - bottom, left : array.shape[-1] - right].copy()
    array[...] = np.asarray(fill, array.dtype).reshape(-1, 1, 1)
    array[..., top : array.shape[-2] - bottom, left : array.shape[-1] - right] = inside
    return image


def _pillow_fill(picture: Any, fill: Fill) -> Any:
    """The colour as Pillow wants it: a number for each band, whole ones but for pictures of floats."""
    bands = len(picture.getbands())
    values = [fill or 0] * bands if isinstance(fill, (int, float)) or fill is None else list(fill)
    if len(values) == 1:
        values = values * bands
    if len(values) != bands:
        raise located(ArgumentError(f"fill has {len(values)} numbers for a picture of {bands} bands"))
    numbers = values if picture.mode == "F" else [int(x) for x in values]
    return numbers[0] if bands == 1 else tuple(numbers)


def resize(
    image: Any, size: int | Sequence[int], interpolation: InterpolationMode | str = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool = True,
) -> Any:  # fmt: skip
    """An image of another size: height and width, or one number for the shorter side.

    `max_size` bounds the longer side then. Shrinking averages, for tensors unless `antialias` is false.
    """
    tall, wide = image_size(image)
    height, width = _resized(size, tall, wide, max_size)
    if (height, width) == (tall, wide):
        return image
    mode = InterpolationMode(interpolation)
    if is_picture(image):
        return image.resize((width, height), pillow_code(mode))
    smooth = mode is not InterpolationMode.NEAREST
    options: dict[str, Any] = {"align_corners": False, "antialias": antialias} if smooth else {}
    values = image if image.dtype.is_floating_point else image.float()
    made = F.interpolate(values.reshape(1, -1, tall, wide), (height, width), mode=mode.value, **options)
    made = made.reshape(*image.shape[:-2], height, width)
    return made if image.dtype.is_floating_point else _rounded(made, image.dtype)


def _resized(size: int | Sequence[int], tall: int, wide: int, max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) == 2:
        if max_size is not None:
            raise located(ArgumentError("max_size should only be passed if size specifies the length of one edge"))
        return size[0], size[1]
    short = size if isinstance(size, int) else size[0]
    long = int(short * max(tall, wide) / min(tall, wide))
    if max_size is not None:
        if max_size <= short:
            raise located(
                ArgumentError(f"max_size = {max_size} must be strictly greater than the requested size {short}")
            )
        if long > max_size:
            short, long = int(max_size * short / long), max_size
    return (short, long) if tall <= wide else (long, short)


def _rounded(values: Tensor, dtype: DType) -> Tensor:
    """Floats as whole numbers of a range."""
    limits = np.iinfo(dtype.np)
    return values.round().clamp(int(limits.min), int(limits.max)).to(dtype)


def rotate(
    image: Any, angle: float, interpolation: InterpolationMode | str = InterpolationMode.NEAREST,
    expand: bool = False, center: Sequence[float] | None = None, fill: Fill = None,
) -> Any:  # fmt: skip
    """An image turned counter-clockwise by `angle` degrees around `center` (x, y; by default the middle).

    `expand` makes it large enough to hold all. Where nothing was there is `fill`.
    """
    if is_picture(image):
        colour = None if fill is None else _pillow_fill(image, fill)
        return image.rotate(angle, pillow_code(interpolation), expand, center, fillcolor=colour)
    tall, wide = image_size(image)
    middle = (0.0, 0.0) if center is None else (center[0] - wide * 0.5, center[1] - tall * 0.5)
    matrix = inverse_affine(middle, -angle, (0, 0), 1.0, (0.0, 0.0))
    size = _turned_size(matrix, tall, wide) if expand else (tall, wide)
    return _sampled(image, matrix, size, InterpolationMode(interpolation), fill)


def _turned_size(matrix: np.ndarray[Any, Any], tall: int, wide: int) -> tuple[int, int]:
    """The height and width that hold a turned image."""
    corners = np.array([[-wide, -wide, wide, wide], [-tall, tall, tall, -tall]]) / 2.0
    turned = np.linalg.inv(matrix[:, :2]) @ corners + np.array([[wide], [tall]]) / 2.0  # pixels of the image
    width, height = np.ceil(turned.max(1) - 1e-4) - np.floor(turned.min(1) + 1e-4)
    return int(height), int(width)


def affine(
    image: Any, angle: float, translate: Sequence[float], scale: float, shear: float | Sequence[float],
    interpolation: InterpolationMode | str = InterpolationMode.NEAREST, fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Any:  # fmt: skip
    """An image turned clockwise by `angle` degrees, sheared by degrees (x, y), scaled, and moved by pixels (x, y)."""
    shears = (float(shear), 0.0) if isinstance(shear, (int, float)) else (float(shear[0]), float([*shear, 0.0][1]))
    tall, wide = image_size(image)
    if is_picture(image):
        middle = (wide * 0.5, tall * 0.5) if center is None else (center[0], center[1])
        matrix = inverse_affine(middle, angle, translate, scale, shears)
        colour = None if fill is None else _pillow_fill(image, fill)
        coefficients = [float(x) for x in matrix.ravel()]
        return image.transform((wide, tall), 0, coefficients, pillow_code(interpolation), fillcolor=colour)
    middle = (0.0, 0.0) if center is None else (center[0] - wide * 0.5, center[1] - tall * 0.5)
    matrix = inverse_affine(middle, angle, translate, scale, shears)
    return _sampled(image, matrix, (tall, wide), InterpolationMode(interpolation), fill)


def inverse_affine(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> np.ndarray[Any, Any]:
    """The matrix [2, 3] from places (x, y, 1) of the result to places of the image.

    The way there: `center` to the origin, shear along x, shear along y, rotation and scaling, back, `translate`.
    """
    turn, across, down = (math.radians(x) for x in (angle, *shear))
    shears = np.array([[1, 0], [-math.tan(down), 1]]) @ np.array([[1, -math.tan(across)], [0, 1]])
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    back = np.linalg.inv(scale * rotation @ shears)
    origin = np.asarray(center, float)
    return np.column_stack([back, origin - back @ (origin + np.asarray(translate, float))])


def _sampled(
    image: Tensor, matrix: np.ndarray[Any, Any], size: tuple[int, int], mode: InterpolationMode, fill: Fill
) -> Tensor:  # fmt: skip
    """A tensor's values at places that a matrix gives, with coordinates from the middle."""
    tall, wide = image_size(image)
    height, width = size
    units = np.array([[width / 2.0], [height / 2.0], [1.0]])
    theta = matrix * units.T / np.array([[wide / 2.0], [tall / 2.0]])
    values = image if image.dtype.is_floating_point else image.float()
    flat = values.reshape(1, -1, tall, wide)
    grid = F.affine_grid(tensor(theta[np.newaxis], dtype=flat.dtype), [1, 1, height, width], align_corners=False)
    made = F.grid_sample(flat, grid, mode=mode.value, padding_mode="zeros", align_corners=False)
    if fill is not None:
        inside = F.grid_sample(flat[:, :1] * 0 + 1, grid, mode=mode.value, padding_mode="zeros", align_corners=False)
        colour = tensor(fill, dtype=flat.dtype).reshape(-1, 1, 1)
        made = made * inside + colour * (1 - inside)
    made = made.reshape(*image.shape[:-2], height, width)
    return made if image.dtype.is_floating_point else _rounded(made, image.dtype)
