"""Window functions, with `torch.signal.windows`'s names: `M` points, symmetric, or (`sym=False`) one period.

All are 1 at their largest if `M` is odd or `sym` is false. They are computed in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ..device import as_device, places
from ..dispatch import constant
from ..errors import located
from ..hot_path import repeats
from ..layouts import strided
from ..mode import local
from ..tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip

Array = Any


def _checked(name: str, M: int, dtype: DType | None, layout: Any, device: Any) -> DType:
    """The dtype of a window, after PyTorch's checks."""
    as_device(device)
    want = local.mode.default_dtype if dtype is None else dtype
    if M < 0:
        raise located(ArgumentError(f"{name} requires non-negative window length, got M={M}"))
    if layout is not None and layout is not strided and "strided" not in str(layout):
        raise located(ArgumentError(f"{name} is implemented for strided tensors only, got: {layout}"))
    if want not in (dtypes.float32, dtypes.float64):
        raise located(ArgumentError(f"{name} expects float32 or float64 dtypes, got: {want}"))
    return want


def made(values: Array, dtype: DType, requires_grad: bool = False) -> Tensor:
    """A tensor of these numbers: a constant while tracing."""
    return constant(np.asarray(values, np.float64).astype(dtype.np)).requires_grad_(requires_grad)


def intervals(M: int, sym: bool) -> int:
    """How many steps a window has from its start to the end of its period."""
    return max(M - 1 if sym else M, 1)


def bessel_window(M: int, beta: float, sym: bool) -> Array:
    """Kaiser's window."""
    if M <= 1:
        return np.ones(M)
    place = np.linspace(-1, -1 + 2 * (M - 1) / intervals(M, sym), M)
    return np.i0(beta * np.sqrt(np.maximum(1 - place * place, 0))) / np.i0(beta)


def triangle(M: int, sym: bool) -> Array:
    """Bartlett's window."""
    return np.ones(M) if M <= 1 else 1 - np.abs(2 * np.arange(M) / intervals(M, sym) - 1)


def cosines(M: int, coefficients: Iterable[float], sym: bool) -> Array:
    """The alternating sum of cosines of multiples of the phase."""
    if M <= 1:
        return np.ones(M)
    phase = 2 * math.pi * np.arange(M) / intervals(M, sym)
    return sum((-1) ** i * a * np.cos(i * phase) for i, a in enumerate(coefficients)) + np.zeros(M)


@places
@repeats
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`exp(-|n - center| / tau)`; the centre is the middle unless given, which only periods take.

    >>> import jitgrad as jg
    >>> jg.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    want = _checked("exponential", M, dtype, layout, device)
    if tau <= 0:
        raise located(ArgumentError(f"Tau must be positive, got: {tau} instead."))
    if sym and center is not None:
        raise located(ArgumentError("Center must be None for symmetric windows"))
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return made(np.exp(-np.abs(np.arange(M) - middle) / tau), want, requires_grad)


@places
@repeats
def cosine(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a period of a sine: `sin(π (n + 0.5) / M)`.

    >>> import jitgrad as jg
    >>> jg.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    want = _checked("cosine", M, dtype, layout, device)
    count = M + 1 if not sym and M > 1 else max(M, 1)
    return made(np.sin(math.pi * (np.arange(M) + 0.5) / count), want, requires_grad)


@places
@repeats
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`exp(-(n / std)² / 2)`, n counted from the middle.

    >>> import jitgrad as jg
    >>> jg.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    want = _checked("gaussian", M, dtype, layout, device)
    if std <= 0:
        raise located(ArgumentError(f"Standard deviation must be positive, got: {std} instead."))
    place = np.arange(M) - (M if not sym and M > 1 else M - 1) / 2
    return made(np.exp(-((place / std) ** 2) / 2), want, requires_grad)


@places
@repeats
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Kaiser's window: `i0(beta sqrt(1 - x²)) / i0(beta)`, x from -1 to 1.

    >>> import jitgrad as jg
    >>> jg.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    want = _checked("kaiser", M, dtype, layout, device)
    if beta < 0:
        raise located(ArgumentError(f"beta must be non-negative, got: {beta} instead."))
    return made(bessel_window(M, beta, sym), want, requires_grad)


@places
@repeats
def bartlett(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Bartlett's window: a triangle.

    >>> import jitgrad as jg
    >>> jg.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return made(triangle(M, sym), _checked("bartlett", M, dtype, layout, device), requires_grad)


@places
@repeats
def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines of multiples of the phase, with coefficients `a` of alternating sign.

    >>> import jitgrad as jg
    >>> jg.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    want = _checked("general_cosine", M, dtype, layout, device)
    if not isinstance(a, Iterable):
        raise located(ArgumentTypeError("Coefficients must be a list/tuple"))
    coefficients = list(a)
    if not coefficients:
        raise located(ArgumentError("Coefficients cannot be empty"))
    return made(cosines(M, coefficients, sym), want, requires_grad)


@places
@repeats
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`alpha - (1 - alpha) cos(phase)`.

    >>> import jitgrad as jg
    >>> jg.signal.windows.general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    want = _checked("general_hamming", M, dtype, layout, device)
    return made(cosines(M, (alpha, 1.0 - alpha), sym), want, requires_grad)


@places
@repeats
def hamming(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hamming's window: `0.54 - 0.46 cos(phase)`.

    >>> import jitgrad as jg
    >>> jg.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return made(cosines(M, (0.54, 0.46), sym), _checked("hamming", M, dtype, layout, device), requires_grad)


@places
@repeats
def hann(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hann's window: `(1 - cos(phase)) / 2`.

    >>> import jitgrad as jg
    >>> jg.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return made(cosines(M, (0.5, 0.5), sym), _checked("hann", M, dtype, layout, device), requires_grad)


@places
@repeats
def blackman(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Blackman's window: `0.42 - 0.5 cos(phase) + 0.08 cos(2 phase)`.

    >>> import jitgrad as jg
    >>> jg.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return made(cosines(M, (0.42, 0.5, 0.08), sym), _checked("blackman", M, dtype, layout, device), requires_grad)


@places
@repeats
def nuttall(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Nuttall's window of four terms with the least side lobes (Nuttall 1981).

    >>> import jitgrad as jg
    >>> jg.signal.windows.nuttall(3)[1]
    tensor(1.)
    """
    terms = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return made(cosines(M, terms, sym), _checked("nuttall", M, dtype, layout, device), requires_grad)
