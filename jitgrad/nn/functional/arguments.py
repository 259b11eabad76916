"""What arguments of several functions mean: one number for all axes, batches left out, reductions of a loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError, operand_lines
from jitgrad.ir.op import Op
from jitgrad.ir.ops.shape import Reshape

from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor
from ...tensor import Tensor

IntOrInts = int | Sequence[int]


def per_axis(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """`value` as one number for each of `rank` axes.

    >>> per_axis(3, 2, "stride"), per_axis((1, 2), 2, "stride")
    ((3, 3), (1, 2))
    """
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) == 1:
        given *= rank
    if len(given) != rank:
        raise located(ShapeError(f"{name} must be one number or {rank}, not {list(given)}"))
    for n in given:
        if not isinstance(n, int) or isinstance(n, bool):
            raise located(ArgumentTypeError(f"{name} must hold ints, not {type(n).__name__}"))
    return given


def floating(name: str, input: Any) -> Tensor:
    """`input`, if it is a tensor of real floats."""
    x = check_tensor(input, name)
    if not x.dtype.is_floating_point:
        raise located(UnsupportedError(f"{name}: not implemented for {x.dtype.name}{operand_lines([x.type_])}"))
    return x


def checked(check: Op, t: Tensor) -> Tensor:
    """`t`, whose values `check` looks at: eagerly at once, in a compiled function at each call."""
    apply(check, t.detach())  # type: ignore[attr-defined]
    return t


def reshaped(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`t` in another shape, as an operand."""
    return t if t._data.shape == shape else apply(Reshape(shape), t)


def batched(f: Callable[[Tensor], Tensor], input: Tensor, rank: int, name: str) -> Tensor:
    """`f(input)`, for an input of a batch axis, a channel axis and `rank` more, of which the first may be left out."""
    if not isinstance(input, Tensor):
        raise located(ArgumentTypeError(f"{name}: input must be a Tensor, not {type(input).__name__}"))
    if input.ndim == rank + 2:
        return f(input)
    if input.ndim != rank + 1:
        raise located(
            ShapeError(
                f"{name}: expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input, but got {input.ndim}D"
                f"{operand_lines([input.type_])}"
            )
        )
    out = f(reshaped(input, (1, *input.shape)))
    return reshaped(out, tuple(out.shape[1:]))


def check_filled(name: str, input: Any, rank: int) -> None:
    """Raise if an axis other than the batch's is empty."""
    x = check_tensor(input, name)
    if x.ndim in (rank + 1, rank + 2) and 0 in x.shape[x.ndim - rank - 1 :]:
        raise located(
            ShapeError(
                f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
                f"input, but got:{list(x.shape)}"
            )
        )


def reduction_name(name: str, reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """`reduction`, or what PyTorch's older arguments say."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    if reduction not in ("none", "mean", "sum"):
        raise located(ArgumentError(f"{name}: {reduction} is not a valid value for reduction"))
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """A loss of each element, their mean or their sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()  # type: ignore[attr-defined, no-any-return]
