"""The standard's extension for discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import fft as _fft
from ..tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _along_axis(name: str) -> Callable[..., Tensor]:
    transform = getattr(_fft, name)

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return transform(x, n, axis, norm)  # type: ignore[no-any-return]

    return _named(function, name)


def _along_axes(name: str) -> Callable[..., Tensor]:
    transform = getattr(_fft, name)

    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return transform(x, s, axes, norm)  # type: ignore[no-any-return]

    return _named(function, name)


def _shifted(name: str) -> Callable[..., Tensor]:
    shift = getattr(_fft, name)

    def function(x: Tensor, /, *, axes: Any = None) -> Tensor:
        return shift(x, axes)  # type: ignore[no-any-return]

    return _named(function, name)


def _named(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`jitgrad.fft.{name}` with the standard's arguments."
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_along_axis, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_along_axes, ("fftn", "ifftn", "rfftn", "irfftn"))
fftshift, ifftshift = map(_shifted, ("fftshift", "ifftshift"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a transform's bins, negative ones last."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a real transform's bins."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)
