"""From pictures to tensors and back, and to the numbers that a model wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir.dtypes import DType, float32

from ...tensor import Tensor
from .functional import convert_image_dtype, normalize, pil_to_tensor, to_pil_image, to_tensor


class ToTensor:
    """A picture or an array [height, width, channels] as a tensor [channels, height, width], uint8 as 0 to 1."""

    def __call__(self, image: Any) -> Tensor:
        return to_tensor(image)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """A picture's numbers as they are, [channels, height, width]."""

    def __call__(self, image: Any) -> Tensor:
        return pil_to_tensor(image)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """A tensor [channels, height, width] or an array [height, width, channels] as a picture."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        return to_pil_image(image, self.mode)


class ConvertImageDtype:
    """A tensor of another dtype, from the whole range of one to that of the other."""

    def __init__(self, dtype: DType = float32) -> None:
        self.dtype = dtype

    def __call__(self, image: Tensor) -> Tensor:
        return convert_image_dtype(image, self.dtype)


class Normalize:
    """`(image - mean) / std`, a number for each channel.

    >>> import jitgrad as jg
    >>> Normalize([0.5], [0.25])(jg.ones(1, 1, 2))
    tensor([[[2., 2.]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, image: Tensor) -> Tensor:
        return normalize(image, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"
