"""Transforms that move pixels; what they draw comes from jitgrad's default generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ...creation import tensor
from ...errors import located
from ...sampling import normal
from ...tensor import Tensor
from ..pictures import image_size, is_picture
from . import functional as F
from .arguments import InterpolationMode, interval, pair, sides
from .drawing import integer, uniform

_TRIES = 10


class Resize:
    """Another size: height and width, or one number for the shorter side. See `functional.resize`."""

    def __init__(
        self, size: int | Sequence[int], interpolation: InterpolationMode | str = InterpolationMode.BILINEAR,
        max_size: int | None = None, antialias: bool = True,
    ) -> None:  # fmt: skip
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def __call__(self, image: Any) -> Any:
        return F.resize(image, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop:
    """The middle; a smaller image gets zeros around."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = pair(size)

    def __call__(self, image: Any) -> Any:
        return F.center_crop(image, self.size)


class Pad:
    """More pixels around. See `functional.pad`."""

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def __call__(self, image: Any) -> Any:
        return F.pad(image, self.padding, self.fill, self.padding_mode)


class RandomCrop:
    """A part of `size` at a random place, after `padding` around; `pad_if_needed` makes smaller images large enough.

    Raises `ValueError` for an image that is smaller.
    """

    def __init__(
        self, size: int | Sequence[int], padding: int | Sequence[int] | None = None, pad_if_needed: bool = False,
        fill: Any = 0, padding_mode: str = "constant",
    ) -> None:  # fmt: skip
        self.size, self.padding, self.pad_if_needed = pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode
        # A crop beyond an image gives zeros there by itself, which saves making the padded image.
        self._is_implied = padding_mode == "constant" and fill == 0 and not pad_if_needed

    def __call__(self, image: Any) -> Any:
        height, width = self.size
        left = top = 0
        tall, wide = image_size(image)
        if self.padding is not None:
            if self._is_implied:
                left, top, right, bottom = sides(self.padding)
                tall, wide = tall + top + bottom, wide + left + right
            else:
                image = F.pad(image, self.padding, self.fill, self.padding_mode)
                tall, wide = image_size(image)
        if self.pad_if_needed and (tall < height or wide < width):
            image = F.pad(image, [max(width - wide, 0), max(height - tall, 0)], self.fill, self.padding_mode)
            tall, wide = image_size(image)
        if tall < height or wide < width:
            raise located(
                ArgumentError(f"Required crop size {(height, width)} is larger than input image size {(tall, wide)}")
            )
        if (tall, wide) == (height, width):
            return F.crop(image, -top, -left, height, width) if top or left else image
        return F.crop(image, integer(tall - height + 1) - top, integer(wide - width + 1) - left, height, width)


class RandomHorizontalFlip:
    """Left and right exchanged with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return F.hflip(image) if uniform() < self.p else image


class RandomVerticalFlip:
    """Top and bottom exchanged with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return F.vflip(image) if uniform() < self.p else image


class RandomResizedCrop:
    """A part of a random area (`scale`, of the image's) and a random ratio of width to height, at another size."""

    def __init__(
        self, size: int | Sequence[int], scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: InterpolationMode | str = InterpolationMode.BILINEAR, antialias: bool = True,
    ) -> None:  # fmt: skip
        self.size, self.scale, self.ratio = pair(size), scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    def __call__(self, image: Any) -> Any:
        part = F.crop(image, *self._part(*image_size(image)))
        return F.resize(part, self.size, self.interpolation, antialias=self.antialias)

    def _part(self, tall: int, wide: int) -> tuple[int, int, int, int]:
        """Top, left, height and width; the largest middle of an allowed ratio if no draw fits."""
        for _ in range(_TRIES):
            area = tall * wide * uniform(*self.scale)
            ratio = math.exp(uniform(*map(math.log, self.ratio)))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= wide and 0 < height <= tall:
                return integer(tall - height + 1), integer(wide - width + 1), height, width
        width, height = wide, tall
        if wide / tall < min(self.ratio):
            height = round(wide / min(self.ratio))
        elif wide / tall > max(self.ratio):
            width = round(tall * max(self.ratio))
        return (tall - height) // 2, (wide - width) // 2, height, width


class RandomRotation:
    """A rotation by an angle from `degrees` (a pair, or a number for both directions)."""

    def __init__(
        self, degrees: float | Sequence[float], interpolation: InterpolationMode | str = InterpolationMode.NEAREST,
        expand: bool = False, center: Sequence[float] | None = None, fill: Any = 0,
    ) -> None:  # fmt: skip
        self.degrees = interval("degrees", degrees)
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def __call__(self, image: Any) -> Any:
        return F.rotate(image, uniform(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomAffine:
    """A rotation, and if given a shift (of shares of width and height), a scaling and a shear (degrees) at random."""

    def __init__(
        self, degrees: float | Sequence[float], translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None, shear: float | Sequence[float] | None = None,
        interpolation: InterpolationMode | str = InterpolationMode.NEAREST, fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        self.degrees = interval("degrees", degrees)
        if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
            raise located(ArgumentError("translation values should be between 0 and 1"))
        if scale is not None and any(s <= 0 for s in scale):
            raise located(ArgumentError("scale values should be positive"))
        self.translate, self.scale = translate, scale
        shears = [] if shear is None else [*interval("shear", shear)] if isinstance(shear, (int, float)) else [*shear]
        if len(shears) not in (0, 2, 4):
            raise located(ArgumentError("shear should be one number, or 2 or 4"))
        self.shear = (*shears, *(0.0,) * (4 - len(shears)))
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def __call__(self, image: Any) -> Any:
        tall, wide = image_size(image)
        angle = uniform(*self.degrees)
        shift = (0, 0)
        if self.translate is not None:
            across, down = self.translate[0] * wide, self.translate[1] * tall
            shift = (round(uniform(-across, across)), round(uniform(-down, down)))
        scale = 1.0 if self.scale is None else uniform(*self.scale)
        shear = (uniform(*self.shear[:2]), uniform(*self.shear[2:]))
        return F.affine(image, angle, shift, scale, shear, self.interpolation, self.fill, self.center)


class RandomErasing:
    """With probability `p`, a rectangle of a tensor overwritten: by `value` (a number, one for each channel), or noise.

    `scale` bounds its share of the area, `ratio` its height by its width; `value="random"` is normal noise.
    """

    def __init__(
        self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0, inplace: bool = False,
    ) -> None:  # fmt: skip
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def __call__(self, image: Tensor) -> Tensor:
        if is_picture(image):
            raise located(ArgumentError("RandomErasing: put it after ToTensor; it takes tensors"))
        tall, wide = image_size(image)
        if uniform() >= self.p:
            return image
        for _ in range(_TRIES):
            area = tall * wide * uniform(*self.scale)
            ratio = math.exp(uniform(*map(math.log, self.ratio)))
            height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if height < tall and width < wide:
                return self._erased(image, integer(tall - height + 1), integer(wide - width + 1), height, width)
        return image

    def _erased(self, image: Any, top: int, left: int, height: int, width: int) -> Tensor:
        image = image if self.inplace else image.clone()
        part = image[..., top : top + height, left : left + width]
        if self.value == "random":
            part.copy_(normal(0.0, 1.0, part.shape))
        elif isinstance(self.value, (list, tuple)):
            part.copy_(tensor(self.value, dtype=image.dtype).reshape(-1, 1, 1))
        else:
            part.fill_(self.value)
        return image
