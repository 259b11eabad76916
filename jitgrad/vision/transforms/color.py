"""Brightness, contrast, saturation, hue: functions of one image, and transforms that draw them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError

from ...errors import located
from ...functions.joining import stack
from ...tensor import Tensor
from ..pictures import is_picture, pillow
from .arguments import interval
from .drawing import permutation, uniform

_GREY = (0.2989, 0.587, 0.114)  # ITU-R BT.601
_RGB = 3


def rgb_to_grayscale(image: Any, num_output_channels: int = 1) -> Any:
    """Grey values of an image, as one channel or three."""
    if num_output_channels not in (1, _RGB):
        raise located(ArgumentError("num_output_channels should be either 1 or 3"))
    if is_picture(image):
        grey = image.convert("L")
        return grey if num_output_channels == 1 else grey.convert("RGB")
    grey = image[..., :1, :, :] if image.shape[-3] == 1 else _grey(image).to(image.dtype)
    return grey if num_output_channels == 1 else grey.expand(*image.shape[:-3], _RGB, *image.shape[-2:])


def _grey(image: Tensor) -> Tensor:
    red, green, blue = (image[..., i : i + 1, :, :] for i in range(_RGB))  # type: ignore[index]
    return red * _GREY[0] + green * _GREY[1] + blue * _GREY[2]


def _limit(image: Tensor) -> float:
    return 1.0 if image.dtype.is_floating_point else float(np.iinfo(image.dtype.np).max)


def _blend(image: Tensor, other: Any, factor: float) -> Tensor:
    mixed = image * factor + other * (1.0 - factor)
    return mixed.clamp(0, _limit(image)).to(image.dtype)


def adjust_brightness(image: Any, factor: float) -> Any:
    """0 is black, 1 the image, 2 twice as bright."""
    if is_picture(image):
        return pillow().enhance.Brightness(image).enhance(factor)
    return _blend(image, 0.0, factor)


def adjust_contrast(image: Any, factor: float) -> Any:
    """0 is grey all over, 1 the image, 2 twice the contrast."""
    if is_picture(image):
        return pillow().enhance.Contrast(image).enhance(factor)
    grey = image if image.shape[-3] == 1 else _grey(image)
    level = grey if image.dtype.is_floating_point else grey.floor() if grey.dtype.is_floating_point else grey
    return _blend(image, level.float().mean((-3, -2, -1), keepdim=True), factor)


def adjust_saturation(image: Any, factor: float) -> Any:
    """0 is grey, 1 the image, 2 twice the colour."""
    if is_picture(image):
        return pillow().enhance.Color(image).enhance(factor)
    if image.shape[-3] == 1:
        return image
    grey = _grey(image)
    return _blend(image, grey if image.dtype.is_floating_point else grey.floor(), factor)


def adjust_hue(image: Any, factor: float) -> Any:
    """Colours turned by `factor` of the circle, from -0.5 to 0.5."""
    if not -0.5 <= factor <= 0.5:
        raise located(ArgumentError(f"hue_factor ({factor}) is not in [-0.5, 0.5]."))
    if is_picture(image):
        if image.mode in ("L", "1", "I", "F"):
            return image
        hue, saturation, value = image.convert("HSV").split()
        turned = np.asarray(hue) + np.uint8(int(factor * 255) % 256)
        bands = (pillow().image.fromarray(turned), saturation, value)
        return pillow().image.merge("HSV", bands).convert(image.mode)
    if image.shape[-3] == 1:
        return image
    limit = _limit(image)
    values = image if image.dtype.is_floating_point else image.float() / limit
    turned = _turned(values, factor)
    return turned if image.dtype.is_floating_point else (turned * limit).round().to(image.dtype)


def _turned(image: Tensor, factor: float) -> Tensor:
    """Red, green and blue by way of hue, chroma and value (Smith, 1978)."""
    red, green, blue = image.unbind(-3)  # type: ignore[attr-defined]
    value, low = image.amax(-3), image.amin(-3)  # type: ignore[attr-defined]
    chroma = value - low
    size = chroma.where(chroma > 0, 1.0)
    hue = ((green - blue) / size).where(value == red, (blue - red) / size + 2)
    hue = hue.where((value == red) | (value == green), (red - green) / size + 4)
    hue = hue + 6.0 * factor
    channels = []
    for offset in (5, 3, 1):
        k = (hue + offset) % 6
        channels.append(value - chroma * k.minimum(4 - k).clamp(0, 1))
    return stack(channels, -3)


class ColorJitter:
    """Random brightness, contrast, saturation and hue, in random order.

    Each is a number, for factors that far from 1 (hue: from 0), or a pair of bounds.
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        self.brightness = interval("brightness", brightness, 1.0, 0.0)
        self.contrast = interval("contrast", contrast, 1.0, 0.0)
        self.saturation = interval("saturation", saturation, 1.0, 0.0)
        self.hue = interval("hue", hue, 0.0, -0.5)

    def __call__(self, image: Any) -> Any:
        changes = (
            (adjust_brightness, self.brightness, 1.0), (adjust_contrast, self.contrast, 1.0),
            (adjust_saturation, self.saturation, 1.0), (adjust_hue, self.hue, 0.0),
        )  # fmt: skip
        for which in permutation(len(changes)):
            change, bounds, nothing = changes[which]
            if bounds != (nothing, nothing):
                image = change(image, uniform(*bounds))
        return image


class Grayscale:
    """Grey values, as one channel or three."""

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = num_output_channels

    def __call__(self, image: Any) -> Any:
        return rgb_to_grayscale(image, self.num_output_channels)


class RandomGrayscale:
    """Grey values with probability `p`, in as many channels as there were."""

    def __init__(self, p: float = 0.1) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        if uniform() >= self.p:
            return image
        channels = len(image.getbands()) if is_picture(image) else image.shape[-3]
        return rgb_to_grayscale(image, channels)
