"""What `assert_close` says of values that differ: how many, and where the greatest differences are."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes


def scalar_mismatch(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """Of two numbers.

    >>> print(scalar_mismatch(1, 3, 0, 0))
    Scalars are not equal!
    <BLANKLINE>
    Expected 3 but got 1.
    Absolute difference: 2
    Relative difference: 0.6666666666666666
    """
    difference = abs(actual - expected)
    relative = float("inf") if expected == 0 else difference / abs(expected)
    return "\n".join(
        [
            *_head("Scalars", rtol, atol),
            f"Expected {expected} but got {actual}.",
            f"Absolute difference: {difference}{_limit(atol, rtol, atol)}",
            f"Relative difference: {relative}{_limit(rtol, rtol, atol)}",
        ]
    )


def tensor_mismatch(actual: Any, expected: Any, matches: Any, rtol: float, atol: float) -> str:
    """Of two tensors of one shape and dtype; `matches` tells which elements are close."""
    total = matches.numel()
    wrong = total - int(matches.sum())
    if not actual.dtype.is_differentiable:
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)
    difference = (actual - expected).abs().masked_fill(matches, 0)
    relative = (difference / expected.abs()).masked_fill(matches, 0)
    return "\n".join(
        [
            *_head("Tensor-likes", rtol, atol),
            f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
            f"Greatest absolute difference: {_greatest(difference)}{_limit(atol, rtol, atol)}",
            f"Greatest relative difference: {_greatest(relative)}{_limit(rtol, rtol, atol)}",
        ]
    )


def _head(what: str, rtol: float, atol: float) -> list[str]:
    return [f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!", ""]


def _limit(limit: float, rtol: float, atol: float) -> str:
    return "" if rtol == 0 and atol == 0 else f" (up to {limit} allowed)"


def _greatest(difference: Any) -> str:
    """The greatest element, NaN before all others, and its index."""
    flat = difference.flatten()
    at = int(flat.max(0).indices)
    index = tuple(int(i) for i in np.unravel_index(at, tuple(difference.shape)))
    return f"{flat[at].item()} at index {index}"
