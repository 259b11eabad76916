"""`copy_`, `fill_` and `zero_`: new contents for a tensor, in place."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentTypeError, ShapeError

from ..aliasing import check_writable, write
from ..errors import located
from ..tensor import Tensor
from .registry import FUNCTIONS, public


@public(function=False)
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Replace the elements by those of `src`, which is broadcast and converted to this tensor's shape and dtype.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 2).copy_(jg.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    if not isinstance(src, Tensor):
        raise located(ArgumentTypeError(f"copy_: expected a Tensor, not {type(src).__name__}"))
    check_writable(self, "copy_")
    value: Any = src.to(self.dtype)  # type: ignore[attr-defined]
    if value.shape != self.shape:
        try:
            value = value.expand(self.shape)
        except RuntimeError:
            raise located(
                ShapeError(f"copy_: source of shape {tuple(src.shape)} does not broadcast to {tuple(self.shape)}")
            ) from None
    return write(self, value, "copy_")


@public(function=False)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to a number or 0-d tensor.

    >>> import jitgrad as jg
    >>> jg.zeros(3).fill_(2)
    tensor([2., 2., 2.])
    """
    if isinstance(value, Tensor):
        if value.ndim != 0:
            raise located(ShapeError(f"fill_: only a 0-dimension value tensor fills, not one of {value.ndim} dimensions"))
        return copy_(self, value)
    check_writable(self, "fill_")
    return write(self, FUNCTIONS["full_like"](self, value), "fill_")


@public(function=False)
def zero_(self: Tensor) -> Tensor:
    """Set every element to zero."""
    return fill_(self, 0)
