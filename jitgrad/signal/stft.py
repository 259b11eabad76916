"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.ir.errors import OperationError
from jitgrad.ir.ops.arithmetic import Div, Mul
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.fourier import FftC2C, FftC2R, FftR2C
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.windows import Fold, Windows

from ..dispatch import apply
from ..errors import located
from ..functions.complex import view_as_real
from ..functions.joining import stretch
from ..functions.pointwise import check_tensor, filled, pointwise
from ..functions.registry import public
from ..nn.functional.padding import constant_pad_nd, pad
from ..promotion import result_dtype
from ..tensor import Tensor


def _refuse(name: str, x: Tensor, rule: str) -> None:
    raise located(OperationError(f"{name}({x.dtype.name}{list(x.shape)}): {rule}"))


def _centred(window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor | None:
    """The window (ones, if there is none) in the middle of a frame."""
    if length == n_fft:
        return window
    inner = filled((length,), like.dtype, 1) if window is None else window
    left = (n_fft - length) // 2
    return constant_pad_nd(inner, (left, n_fft - length - left))


def _check_window(name: str, x: Tensor, window: Tensor | None, length: int) -> None:
    if window is not None and (window.ndim != 1 or window.shape[0] != length):
        _refuse(
            name, x, f"expected a 1D window tensor of size equal to win_length={length}, but got {list(window.shape)}"
        )


@public()
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The Fourier transforms of frames of `n_fft` points, `hop_length` (a quarter of that) apart, times a window.

    `input` has one or two dims; the result has the frequencies and then the frames last. With `center` a frame is
    centred on its place, and the signal is padded at both ends. Real input gives half a spectrum (`onesided`);
    `return_complex=False` parts in a last dim.

    >>> import jitgrad as jg
    >>> jg.stft(jg.ones(16), 8, return_complex=True).shape
    jitgrad.Size([5, 9])
    """
    x = check_tensor(input, "stft")
    is_complex = x.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not is_complex:
        raise located(OperationError("stft requires the return_complex parameter be given for real inputs."))
    if center and align_to_window is not None:
        raise located(OperationError("stft align_to_window should only be set when center = false"))
    if not x.dtype.is_differentiable:
        _refuse("stft", x, "expected a tensor of floating point or complex values")
    if x.ndim not in (1, 2):
        _refuse("stft", x, "expected a 1D or 2D tensor")
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    rows = x if x.ndim == 2 else apply(Reshape((1, *x.shape)), x)
    if center:
        rows = pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
    frames = _frames(x, rows, n_fft, hop, length, window, bool(align_to_window))
    norm = "by_root_n" if normalized else "none"
    half = not frames.dtype.is_complex if onesided is None else onesided
    if frames.dtype.is_complex and half:
        raise located(OperationError("Cannot have onesided output if window or input is complex"))
    if half:
        out = apply(FftR2C((2,), norm), frames)
    else:
        out = apply(FftC2C((2,), False, norm), frames.to(result_dtype(frames, 1j)))  # type: ignore[attr-defined]
    out = apply(Permute((0, 2, 1)), out)
    out = apply(Reshape(tuple(out.shape[1:])), out) if x.ndim == 1 else out
    return out if return_complex or return_complex is None else view_as_real(out)


def _frames(x: Tensor, rows: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None, align: bool) -> Tensor:
    """Frames times the window, `[batch, frames, n_fft]`."""
    size = rows.shape[1]
    if not 0 < n_fft <= size:
        _refuse("stft", x, f"expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        _refuse("stft", x, f"expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        _refuse("stft", x, f"expected 0 < win_length <= n_fft, but got win_length={length}")
    _check_window("stft", x, window, length)
    if align and length < n_fft:  # frames start so that windows, not frames, cover the signal
        left = (n_fft - length) // 2
        rows = constant_pad_nd(rows, (left, n_fft - length - left))
    frames = apply(Windows((1,), (n_fft,), (hop,), (1,)), rows)
    scale = _centred(window, length, n_fft, rows)
    return frames if scale is None else pointwise(Mul(), frames, scale)


@public()
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose `stft` is nearest to the input: frames transformed back, and added up where they overlap.

    `length` is that of the signal, if it was cut into frames that don't cover it.

    >>> import jitgrad as jg
    >>> jg.istft(jg.stft(jg.ones(16), 8, return_complex=True), 8).shape
    jitgrad.Size([16])
    """
    x = check_tensor(input, "istft")
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    half = _checked_spectrum(x, n_fft, hop, size, window, onesided)
    frames = x if x.ndim == 3 else apply(Reshape((1, *x.shape)), x)
    frames = apply(Permute((0, 2, 1)), frames)
    norm = "by_root_n" if normalized else "by_n"
    if return_complex:
        if half:
            raise located(OperationError("cannot have onesided output if window or input is complex"))
        frames = apply(FftC2C((2,), True, norm), frames)
    else:
        if window is not None and window.dtype.is_complex:
            raise located(OperationError("Complex windows are incompatible with return_complex=False"))
        frames = frames if half else stretch(frames, 2, 0, n_fft // 2 + 1)
        frames = apply(FftC2R((2,), n_fft, norm), frames)
    scale = _centred(window, size, n_fft, frames)
    scale = filled((n_fft,), frames.dtype, 1) if scale is None else scale
    out = _overlapped(frames, scale, n_fft, hop, (n_fft // 2 if center else 0), center, length)
    return out if x.ndim == 3 else apply(Reshape(tuple(out.shape[1:])), out)


def _checked_spectrum(x: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, onesided: bool | None) -> bool:
    """Whether the spectrum is a half one, after the checks of the arguments."""
    if not x.dtype.is_complex:
        raise located(
            OperationError(
                "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
            )
        )
    if not x.type_.numel:
        _refuse("istft", x, "input tensor cannot be empty")
    if x.ndim not in (2, 3):
        _refuse("istft", x, "expected a tensor with 2 or 3 dimensions")
    points = x.shape[-2]
    half = points != n_fft if onesided is None else onesided
    if points != (n_fft // 2 + 1 if half else n_fft):
        _refuse("istft", x, f"expected {n_fft // 2 + 1 if half else n_fft} frequencies, for n_fft={n_fft}")
    if not 0 < hop <= size:
        _refuse("istft", x, f"expected 0 < hop_length <= win_length, but got hop_length={hop}")
    if not 0 < size <= n_fft:
        _refuse("istft", x, f"expected 0 < win_length <= n_fft, but got win_length={size}")
    _check_window("istft", x, window, size)
    return half


def _overlapped(
    frames: Tensor, scale: Tensor, n_fft: int, hop: int, start: int, center: bool, length: int | None
) -> Tensor:
    """Frames times the window added up, over the sums of the window's squares."""
    count = frames.shape[1]
    whole = n_fft + hop * (count - 1)
    fold = Fold((whole,), (1,), (n_fft,), (hop,), (1,))
    signal = apply(fold, pointwise(Mul(), frames, scale))
    squares = pointwise(Mul(), scale, scale).expand((1, count, n_fft))  # type: ignore[attr-defined]
    weight = apply(fold, squares)
    end = start + length if length is not None else whole - n_fft // 2 if center else whole
    kept = max(min(end, whole) - start, 0)
    signal, weight = stretch(signal, 1, start, kept), stretch(weight, 1, start, kept)
    size = weight.abs()  # type: ignore[attr-defined]
    apply(CheckBetween("istft", "the sums of the window's squares", 1e-11, float("inf")), size)
    out: Any = pointwise(Div(), signal, weight)
    if end > whole:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail.",
            stacklevel=3,
        )
        out = constant_pad_nd(out, (0, end - whole))
    return out  # type: ignore[no-any-return]
