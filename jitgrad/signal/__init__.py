"""Signals: `jitgrad.signal.windows`, and the short-time Fourier transform, which is `jitgrad.stft`."""

from . import windows

__all__ = ["windows"]
