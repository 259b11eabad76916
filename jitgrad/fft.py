"""Discrete Fourier transforms: `jitgrad.fft`, with `torch.fft`'s functions.

`norm` is "backward" (the default: the inverse transform is divided by the number of points), "ortho" (both are
divided by its root) or "forward" (the forward transform is divided by it). `n` and `s` say how many points to
transform: the input is cut, or padded with zeros at its end. Computed by pocketfft, single precision staying single.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DimError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.complex import Conj
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.fourier import FftC2C, FftC2R, FftR2C
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.slicing import Pad, Slice

from .autocasting import autocasts
from .creation import arange
from .dispatch import apply
from .errors import located
from .functions.dims import normalize_dim, normalize_dims
from .functions.joining import cat
from .functions.pointwise import check_tensor, convert
from .functions.registry import numpy_names, with_out
from .functions.repeating import roll
from .mode import local
from .tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = Sequence[int] | None
Dim = int | Sequence[int] | None
F = TypeVar("F", bound=Callable[..., Any])


def _transform(f: F) -> F:
    """Decorator of a transform: NumPy's argument names, `out`, and autocast's rule."""
    return autocasts(f"fft_{f.__name__}")(with_out(numpy_names(f)))  # type: ignore[return-value]


def _norm(norm: str | None, forward: bool) -> str:
    """The factor that a mode means in a direction."""
    modes = {"backward": "none" if forward else "by_n", "forward": "by_n" if forward else "none", "ortho": "by_root_n"}
    if norm is None:
        norm = "backward"
    if norm not in modes:
        raise located(OperationError(f'Invalid normalization mode: "{norm}"'))
    return modes[norm]


def _promoted(name: str, input: Tensor, to_complex: bool) -> Tensor:
    """The operand in single or double precision; integers as the default dtype."""
    x = check_tensor(input, name)
    dtype = x.dtype if x.dtype.is_differentiable else local.mode.default_dtype
    if dtype.itemsize == 2:
        raise located(DTypeError(f"{name}: Unsupported dtype {dtype.name}"))
    return convert(x, dtypes.to_complex(dtype) if to_complex else dtype)


def _real(name: str, input: Tensor) -> Tensor:
    if check_tensor(input, name).dtype.is_complex:
        raise located(DTypeError(f"{name} expects a real-valued input tensor, but got {input.dtype.name}"))
    return _promoted(name, input, False)


def _check_points(n: int) -> int:
    if n < 1:
        raise located(OperationError(f"Invalid number of data points ({n}) specified"))
    return n


def _resized(x: Tensor, axes: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """The first `lengths` points along `axes`, with zeros behind where there are fewer."""
    shape = list(x.shape)
    for axis, n in zip(axes, lengths, strict=True):
        shape[axis] = n
    if shape == list(x.shape):
        return x
    kept = tuple(map(min, shape, x.shape))
    if kept != tuple(x.shape):
        x = apply(Slice((0,) * x.ndim, kept, (1,) * x.ndim), x)
    high = tuple(n - m for n, m in zip(shape, kept, strict=True))
    return apply(Pad((0,) * x.ndim, high), x, apply(Full((), x.dtype, 0))) if any(high) else x


def _one_axis(x: Tensor, dim: int) -> int:
    if x.ndim == 0:
        raise located(DimError(f"Dimension specified as {dim} but tensor has no dimensions"))
    return normalize_dim(dim, x.ndim)


def _axes_and_lengths(x: Tensor, s: Sizes, dim: Dim) -> tuple[tuple[int, ...], list[int]]:
    """The axes to transform, and how many points along each."""
    given = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    lengths = None if s is None else list(s) if isinstance(s, (tuple, list)) else [s]
    axes = None
    if given is not None:
        for d in given:
            _one_axis(x, d)  # type: ignore[arg-type]
        axes = tuple(normalize_dim(d, x.ndim) for d in given)  # type: ignore[arg-type]
        if len(set(axes)) != len(axes):
            raise located(ShapeError("FFT dims must be unique"))
    if lengths is not None:
        if axes is not None and len(axes) != len(lengths):
            raise located(ShapeError("When given, dim and shape arguments must have the same length"))
        if len(lengths) > x.ndim:
            raise located(
                ShapeError(f"Got shape with {len(lengths)} values but input tensor only has {x.ndim} dimensions.")
            )
        axes = tuple(range(x.ndim - len(lengths), x.ndim)) if axes is None else axes
        sized = [x.shape[a] if n == -1 else n for a, n in zip(axes, lengths, strict=True)]
    else:
        axes = tuple(range(x.ndim)) if axes is None else axes
        sized = [x.shape[a] for a in axes]
    return axes, [_check_points(n) for n in sized]


# ------------------------------------------------------------------------------------------ what all are made of


def _c2c(name: str, input: Tensor, s: Sizes, dim: Dim, norm: str | None, inverse: bool) -> Tensor:
    x = _promoted(name, input, True)
    axes, lengths = _axes_and_lengths(x, s, dim)
    mode = _norm(norm, not inverse)
    if not axes:
        return apply(Convert(x.dtype), x)
    return apply(FftC2C(axes, inverse, mode), _resized(x, axes, lengths))


def _r2c(name: str, input: Tensor, s: Sizes, dim: Dim, norm: str | None, inverse: bool) -> Tensor:
    x = _real(name, input)
    axes, lengths = _axes_and_lengths(x, s, dim)
    if not axes:
        raise located(OperationError(f"{name} must transform at least one axis"))
    out = apply(FftR2C(axes, _norm(norm, not inverse)), _resized(x, axes, lengths))
    return apply(Conj(), out) if inverse else out


def _c2r(name: str, input: Tensor, s: Sizes, dim: Dim, norm: str | None, forward: bool) -> Tensor:
    x = _promoted(name, input, True)
    lengths = None if s is None else list(s) if isinstance(s, (tuple, list)) else [s]
    last = lengths[-1] if lengths else -1
    axes, points = _axes_and_lengths(x, [*lengths[:-1], -1] if lengths else lengths, dim)
    if not axes:
        raise located(OperationError(f"{name} must transform at least one axis"))
    length = _check_points(2 * (x.shape[axes[-1]] - 1) if last == -1 else last)
    x = _resized(x, axes, [*points[:-1], length // 2 + 1])
    if forward:
        x = apply(Conj(), x)
    return apply(FftC2R(axes, length, _norm(norm, forward)), x)


_Kernel = Callable[[str, Tensor, Sizes, Dim, "str | None", bool], Tensor]


def _along(kernel: _Kernel, name: str, input: Tensor, n: int | None, dim: int, norm: str | None, flag: bool) -> Tensor:
    """A transform along one dim."""
    axis = _one_axis(check_tensor(input, name), dim)
    if n is not None:
        _check_points(n)
    return kernel(name, input, None if n is None else (n,), (axis,), norm, flag)


# --------------------------------------------------------------------------------------------------- one dim


@_transform
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`, complex.

    >>> import jitgrad as jg
    >>> jg.fft.fft(jg.tensor([1.0, 2.0, 3.0, 4.0])).real
    tensor([10., -2., -2., -2.])
    """
    return _along(_c2c, "fft", input, n, dim, norm, False)


@_transform
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft` along `dim`.

    >>> import jitgrad as jg
    >>> jg.fft.ifft(jg.fft.fft(jg.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return _along(_c2c, "ifft", input, n, dim, norm, True)


@_transform
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of a real input, without the half of the result that is the conjugate of the other: `n // 2 + 1` points.

    >>> import jitgrad as jg
    >>> jg.fft.rfft(jg.tensor([1.0, 2.0, 3.0, 4.0])).shape
    jitgrad.Size([3])
    """
    return _along(_r2c, "rfft", input, n, dim, norm, False)


@_transform
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft` along `dim`: `n` real points, `2 * (points - 1)` unless given.

    >>> import jitgrad as jg
    >>> jg.fft.irfft(jg.fft.rfft(jg.tensor([1.0, 2.0, 3.0])), n=3)
    tensor([1., 2., 3.])
    """
    return _along(_c2r, "irfft", input, n, dim, norm, False)


@_transform
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real `fft` of an input whose other half is the conjugate of this one, along `dim`.

    >>> import jitgrad as jg
    >>> jg.fft.hfft(jg.tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    return _along(_c2r, "hfft", input, n, dim, norm, True)


@_transform
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft` along `dim`: of a real input, `n // 2 + 1` points.

    >>> import jitgrad as jg
    >>> jg.fft.ihfft(jg.tensor([8.0, -2.0, 0.0, -2.0])).real
    tensor([1., 2., 3.])
    """
    return _along(_r2c, "ihfft", input, n, dim, norm, True)


# ------------------------------------------------------------------------------------------------ several dims


def _several(name: str, of: str, kernel: _Kernel, flag: bool, two: bool) -> Callable[..., Tensor]:
    """The transform over several dims, by default the last two or all."""
    default = (-2, -1) if two else None

    def transform(input: Tensor, s: Sizes = None, dim: Dim = default, norm: str | None = None) -> Tensor:
        return kernel(name, input, s, dim, norm, flag)

    dims = "two dims (the last two unless given)" if two else "dims `dim`, all of them unless given"
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""`{of}` over {dims}; `s` has the number of points of each, -1 for as many as there are.

    >>> import jitgrad as jg
    >>> jg.fft.{name}(jg.ones(4, 4)).ndim
    2
    """
    return _transform(transform)


fft2 = _several("fft2", "fft", _c2c, False, True)
fftn = _several("fftn", "fft", _c2c, False, False)
ifft2 = _several("ifft2", "ifft", _c2c, True, True)
ifftn = _several("ifftn", "ifft", _c2c, True, False)
rfft2 = _several("rfft2", "rfft", _r2c, False, True)
rfftn = _several("rfftn", "rfft", _r2c, False, False)
irfft2 = _several("irfft2", "irfft", _c2r, False, True)
irfftn = _several("irfftn", "irfft", _c2r, False, False)
hfft2 = _several("hfft2", "hfft", _c2r, True, True)
hfftn = _several("hfftn", "hfft", _c2r, True, False)
ihfft2 = _several("ihfft2", "ihfft", _r2c, True, True)
ihfftn = _several("ihfftn", "ihfft", _r2c, True, False)


# ------------------------------------------------------------------------------------------------ frequencies


def _frequencies(n: int, d: float, half: bool, options: dict[str, Any]) -> Tensor:
    dtype: DType = options.get("dtype") or local.mode.default_dtype
    if not dtype.is_floating_point:
        raise located(DTypeError(f"fftfreq requires a floating point dtype, not {dtype.name}"))
    if half:
        return arange(n // 2 + 1, dtype=dtype) * (1.0 / (n * d))  # type: ignore[no-any-return, operator]
    steps = cat([arange((n + 1) // 2, dtype=dtype), arange(-(n // 2), 0, dtype=dtype)])
    return steps * (1.0 / (n * d))  # type: ignore[no-any-return, operator]


@with_out
def fftfreq(
    n: int, d: float = 1.0, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies that the `n` points of `fft` stand for, of samples `d` apart: the negative ones last.

    >>> import jitgrad as jg
    >>> jg.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies(n, d, False, {"dtype": dtype}).requires_grad_(requires_grad)


@with_out
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies that the points of `rfft` stand for, of `n` samples `d` apart.

    >>> import jitgrad as jg
    >>> jg.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies(n, d, True, {"dtype": dtype}).requires_grad_(requires_grad)


def _shifted(input: Tensor, dim: Dim, name: str, inverse: bool) -> Tensor:
    x = check_tensor(input, name)
    axes = tuple(range(x.ndim)) if dim is None else normalize_dims(dim, x.ndim)
    if not axes:
        raise located(OperationError(f"{name}: `shifts` required"))
    shifts = [(x.shape[a] + 1) // 2 if inverse else x.shape[a] // 2 for a in axes]
    return roll(x, shifts, list(axes))


@numpy_names
def fftshift(input: Tensor, dim: Dim = None) -> Tensor:
    """The points moved round along `dim` (all dims unless given) so that frequency zero is in the middle.

    >>> import jitgrad as jg
    >>> jg.fft.fftshift(jg.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(input, dim, "fftshift", False)


@numpy_names
def ifftshift(input: Tensor, dim: Dim = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> import jitgrad as jg
    >>> jg.fft.ifftshift(jg.fft.fftshift(jg.arange(5)))
    tensor([0, 1, 2, 3, 4])
    """
    return _shifted(input, dim, "ifftshift", True)
