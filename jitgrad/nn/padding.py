"""Layers that pad the last axes."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .functional.arguments import per_axis
from .module import Module


class _Pad(Module):
    """Padding of the last `rank` axes: a number for all sides, or two for each axis, the last axis first."""

    rank: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = per_axis(padding, 2 * self.rank, "padding")

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """How much."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """How much, and with what."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """How much."""
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    """Pads the last axis with a value."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two axes with a value."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three axes with a value."""

    rank = 3


class ZeroPad1d(_ZeroPad):
    """Pads the last axis with zeros."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two axes with zeros."""

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three axes with zeros."""

    rank = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the last axis with what lies inside, mirrored at the edge.

    >>> import jitgrad as jg
    >>> jg.nn.ReflectionPad1d(2)(jg.arange(4.0).reshape(1, 4))
    tensor([[2., 1., 0., 1., 2., 3., 2., 1.]])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two axes with what lies inside, mirrored at the edge."""

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three axes with what lies inside, mirrored at the edge."""

    rank = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Pads the last axis with the values at the edge."""

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two axes with the values at the edge."""

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three axes with the values at the edge."""

    rank = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """Pads the last axis with the values of the other side."""

    rank = 1


class CircularPad2d(_CircularPad):
    """Pads the last two axes with the values of the other side."""

    rank = 2


class CircularPad3d(_CircularPad):
    """Pads the last three axes with the values of the other side."""

    rank = 3
