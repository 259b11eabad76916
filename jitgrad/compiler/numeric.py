"""Whether two results differ by more than rounding, and where."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

# Of the largest element: what fusing and reordering may change, with room for sums of some thousand elements.
_TOLERANCES: Mapping[DType, float] = MappingProxyType({
    dtypes.float16: 1e-2, dtypes.bfloat16: 8e-2, dtypes.float32: 1e-4, dtypes.float64: 1e-9,
    dtypes.complex64: 1e-4, dtypes.complex128: 1e-9,
})  # fmt: skip


def difference_of(got: Any, want: Any) -> str | None:
    """How two arrays or Python values differ by more than rounding; None if they don't."""
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
        return _difference_of_objects(got, want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, eager {want.dtype}{list(want.shape)}"
    bad = unequal(got, want)
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"element {list(at)} is {got[at]}, eager {want[at]} ({int(bad.sum())} of {bad.size} elements differ)"


def _difference_of_objects(got: Any, want: Any) -> str | None:
    if isinstance(got, float) and isinstance(want, float):
        close = got == want or abs(got - want) <= 1e-4 * abs(want) or (got != got and want != want)
        return None if close else f"{got}, eager {want}"
    if got is want or isinstance(got, np.ndarray) is isinstance(want, np.ndarray) is False:
        try:
            same = got is want or type(got) is not type(want) or bool(got == want)
        except Exception:  # a user's `__eq__`
            same = True
        return None if same else f"{got!r}, eager {want!r}"
    return f"{'is there' if got is not None else 'is not there'}, and eager the other way round"


def unequal(got: Any, want: Any, slack: Any = 0.0) -> Any:
    """Which elements differ by more than rounding, and more than `slack`."""
    tolerance = _TOLERANCES.get(dtypes.FROM_NUMPY[got.dtype])
    if tolerance is None:
        return np.asarray(got != want)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= tolerance * (finite.max() if finite.size else 0.0) + slack
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
