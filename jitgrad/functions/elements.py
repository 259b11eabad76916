"""Python functions applied to every element, in place: slow, and on the CPU alone, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ir.errors import AutogradError

from ..aliasing import check_writable, write
from ..dispatch import constant
from ..errors import located
from ..tensor import Tensor, to_array
from .pointwise import expand
from .registry import public


def _applied(name: str, self: Tensor, function: Callable[..., Any], *others: Tensor) -> Tensor:
    check_writable(self, name)
    if any(t.requires_grad for t in (self, *others)):
        raise located(AutogradError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}()."))
    arrays = [to_array(expand(t, tuple(self.shape))).reshape(-1) for t in (self, *others)]
    numbers = [function(*xs) for xs in zip(*(a.tolist() for a in arrays), strict=True)]
    made = np.array(numbers, to_array(self).dtype).reshape(self.shape)
    return write(self, constant(made), name)


@public(function=False)
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element `x` by `callable(x)`.

    >>> import jitgrad as jg
    >>> jg.tensor([1.0, 2.0]).apply_(lambda x: x * x)
    tensor([1., 4.])
    """
    return _applied("apply_", self, callable)


@public(function=False)
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element `x` by `callable(x, y)`, where `y` is the element of `tensor` at its place.

    >>> import jitgrad as jg
    >>> jg.tensor([1.0, 2.0]).map_(jg.tensor([3.0, 4.0]), max)
    tensor([3., 4.])
    """
    return _applied("map_", self, callable, tensor)


@public(function=False)
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by `callable` of it and of those of `x` and `y` at its place."""
    return _applied("map2_", self, callable, x, y)
