"""New contents for a tensor, in place: `copy_`, `fill_`, `zero_` and their kin. Gradients follow what is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentTypeError, ShapeError

from ..aliasing import check_writable, put_plainly, write
from ..errors import located
from ..indexing import fitted
from ..tensor import Tensor
from .registry import public

Number = bool | int | float | complex


@public(function=False)
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite `self` with the elements of `src`, broadcast and converted to its dtype.

    >>> import jitgrad as jg
    >>> jg.zeros(2).copy_(jg.tensor([1, 2]))
    tensor([1., 2.])
    """
    if not isinstance(src, Tensor):
        raise located(ArgumentTypeError(f"copy_(): argument 'other' must be Tensor, not {type(src).__name__}"))
    if put_plainly(self, src):
        return self
    check_writable(self, "copy_")
    return write(self, fitted(src, tuple(self.shape), self.dtype, what="copy_"), "copy_", assigned=True)


@public(function=False)
def fill_(self: Tensor, value: Tensor | Number) -> Tensor:
    """Overwrite every element of `self` with a number or a 0-d tensor.

    >>> import jitgrad as jg
    >>> jg.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    if (value.__class__ is float or value.__class__ is int) and put_plainly(self, value):
        return self
    _check_number(value, "fill_")
    check_writable(self, "fill_")
    filled = fitted(value, tuple(self.shape), self.dtype)
    return write(self, filled, "fill_", assigned=True, uniform=not filled.requires_grad)


def _check_number(value: Any, name: str) -> None:
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic, np.ndarray)):
        raise located(
            ArgumentTypeError(f"{name}: the value must be a number or a 0-d Tensor, not {type(value).__name__}")
        )
    if isinstance(value, Tensor) and value.ndim:
        raise located(
            ShapeError(f"{name} only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        )


@public("fill")
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A number or a 0-d tensor, repeated to the shape of `input` and in its dtype."""
    _check_number(value, "fill")
    return input.clone().fill_(value)  # type: ignore[attr-defined, no-any-return]


@public(function=False)
def zero_(self: Tensor) -> Tensor:
    """Overwrite every element of `self` with zero."""
    return fill_(self, 0)


@public(function=False)
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Overwrite the elements whose indices are all equal; of tall matrices with `wrap`, on and on down the rows.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if self.ndim < 2:
        raise located(ShapeError("dimensions must larger than 1"))
    if self.ndim > 2 and len(set(self.shape)) != 1:
        raise located(ShapeError("all dimensions of input must be of equal length"))
    rows, columns = self.shape[0], min(self.shape)
    step = columns + 1 if self.ndim == 2 else sum(columns**k for k in range(self.ndim))
    if self.ndim == 2 and self.shape[1] > rows:
        step = self.shape[1] + 1
    flat = self.reshape(-1)  # type: ignore[attr-defined]
    stop = flat.shape[0] if wrap or self.ndim > 2 else min(rows, self.shape[1]) * step
    if flat._view is None:
        raise located(ShapeError("fill_diagonal_: the tensor is not contiguous"))
    fill_(flat[:stop:step], fill_value)
    return self
