"""Transposed convolutions with a stride, as convolutions without: elements a stride apart see the same places."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """Along one axis: elements `offset`, `offset + stride`, ... of the input, `length` of them.

    They are a convolution of stride 1 over the output, `low` zeros in front of it, by `taps` places of the reversed
    kernel: `first`, `first + step`, ...
    """

    offset: int
    length: int
    first: int
    step: int
    taps: int
    dilation: int
    low: int


def phases(length: int, kernel: int, stride: int, padding: int, dilation: int) -> list[Phase]:
    """The phases of an axis of `length` elements.

    Output q reaches element i by place k where i + padding = q stride + k dilation.

    >>> [(p.first, p.taps, p.low) for p in phases(8, 3, 2, 1, 1)]
    [(1, 1, 0), (0, 2, 0)]
    """
    common = math.gcd(stride, dilation)
    step, apart, found = stride // common, dilation // common, []
    for r in range(min(stride, length)):
        first = next((k for k in range(min(step, kernel)) if (r + padding - k * dilation) % stride == 0), kernel)
        taps = len(range(first, kernel, step))
        start = (r + padding - first * dilation) // stride if taps else 0
        reversed_first = kernel - 1 - first - step * (taps - 1) if taps else 0
        low = apart * (taps - 1) - start if taps else 0
        found.append(Phase(r, len(range(r, length, stride)), reversed_first, step, taps, apart, low))
    return found
