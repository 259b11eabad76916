"""Layers that change a tensor's shape."""

from __future__ import annotations

from collections.abc import Sequence

from ..functions.shape import flatten, unflatten
from ..tensor import Tensor
from .module import Module


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one.

    >>> import jitgrad as jg
    >>> jg.nn.Flatten()(jg.zeros(2, 3, 4)).shape
    jitgrad.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as axes of lengths `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The axis and its lengths."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
