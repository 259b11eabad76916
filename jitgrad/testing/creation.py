"""`make_tensor`: random tensors for tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ..creation import empty
from ..errors import located
from ..functions.complex import view_as_real
from ..functions.types import finfo, iinfo
from ..random import rand, randint
from ..tensor import Tensor


def make_tensor(
    *shape: Any, dtype: DType, device: Any, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of `shape` with numbers evenly drawn from `[low, high)`.

    By default from [0, 2) for bool, [0, 10) for uint8, [-9, 10) for other integers and [-9, 9) for floats. Limits
    beyond what the dtype holds are moved to its. `noncontiguous` leaves gaps between the elements; `exclude_zero` puts
    1 or the smallest normal number where a zero is drawn.

    >>> import jitgrad as jg
    >>> t = jg.testing.make_tensor(2, 3, dtype=jg.int32, device="cpu", low=1, high=4)
    >>> t.shape, bool(((t >= 1) & (t < 4)).all())
    (jitgrad.Size([2, 3]), True)
    """
    if not isinstance(dtype, DType):
        raise located(ArgumentTypeError(f"The requested dtype '{dtype}' is not supported by make_tensor()."))
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else list(shape)
    if noncontiguous and memory_format is not None:
        raise located(
            ArgumentError(
                "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                f"noncontiguous={noncontiguous} and memory_format={memory_format}"
            )
        )
    if requires_grad and not dtype.is_differentiable:
        raise located(
            ArgumentError(
                f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
            )
        )
    has_gaps = noncontiguous and math.prod(sizes) > 1
    made: Any = _drawn([*sizes[:-1], 2 * sizes[-1]] if has_gaps else sizes, dtype, device, low, high)
    if has_gaps:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = finfo(dtype).tiny if dtype.is_differentiable else 1
    return made.requires_grad_(requires_grad) if dtype.is_differentiable else made  # type: ignore[no-any-return]


def _drawn(sizes: list[int], dtype: DType, device: Any, low: float | None, high: float | None) -> Any:
    if dtype.kind == "bool":
        start, stop = _limits(dtype, low, high, (0, 2), (0, 2))
    elif dtype.kind == "int":
        info = iinfo(dtype)
        start, stop = _limits(dtype, low, high, (info.min, info.max + (info.bits < 64)), (-9, 10))
    else:
        reach = finfo(dtype)
        start, stop = _limits(dtype, low, high, (reach.min, reach.max), (-9, 9))
        made: Any = empty(*sizes, dtype=dtype, device=device)
        _fill(view_as_real(made) if dtype.is_complex else made, start, stop)
        return made
    return randint(math.ceil(start), math.ceil(stop), tuple(sizes), dtype=dtype, device=device)


def _limits(
    dtype: DType, low: float | None, high: float | None, reach: tuple[float, float], usual: tuple[float, float]
) -> tuple[float, float]:  # fmt: skip
    """The range to draw from, within what the dtype holds."""
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise located(ArgumentError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}"))
    if low == high and dtype.is_differentiable:
        warnings.warn(
            "Passing `low==high` to make_tensor for floating or complex types is deprecated. Use full() instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise located(ArgumentError(f"`low` must be less than `high`, but got {low} >= {high}"))
    elif high < reach[0] or low >= reach[1]:
        raise located(
            ArgumentError(
                f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
                f"[{reach[0]}, {reach[1]})"
            )
        )
    return min(max(low, reach[0]), reach[1]), min(max(high, reach[0]), reach[1])


def _fill(t: Any, low: float, high: float) -> None:
    """Numbers evenly from `[low, high)`; ranges longer than the dtype reaches are drawn at half their size."""
    scale = 0.5 if high - low >= finfo(t.dtype).max else 1.0
    drawn: Any = rand(*t.shape, dtype=t.dtype, device=t.device)
    t.copy_((drawn * (scale * (high - low)) + scale * low) / scale)
