"""Pooling that gives or takes indices, draws its windows, or takes norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ..errors import located
from ..random import rand
from ..tensor import Tensor
from . import functional as F
from .functional.arguments import per_axis
from .module import Module


class _AdaptiveMaxPool(Module):
    function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Apply it; with `return_indices` also where the elements were."""
        return type(self).function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The output's lengths."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest element of as many windows over the last axis as `output_size` says."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest element of as many windows over the last two axes as `output_size` says; None keeps an axis."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest element of as many windows over the last three axes as `output_size` says."""

    function = staticmethod(F.adaptive_max_pool3d)


class _MaxUnpool(Module):
    """The reverse of max pooling: elements go back to where indices say, the rest is zero."""

    rank: int
    function: Callable[..., Tensor]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = per_axis(kernel_size, self.rank, "kernel_size")
        self.stride = per_axis(kernel_size if stride is None else stride, self.rank, "stride")
        self.padding = per_axis(padding, self.rank, "padding")

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Apply it."""
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Its numbers."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The reverse of `MaxPool1d`.

    >>> import jitgrad as jg
    >>> x, at = jg.nn.MaxPool1d(2, return_indices=True)(jg.tensor([[[1.0, 2.0, 4.0, 3.0]]]))
    >>> jg.nn.MaxUnpool1d(2)(x, at)
    tensor([[[0., 2., 4., 0.]]])
    """

    rank = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """The reverse of `MaxPool2d`."""

    rank = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The reverse of `MaxPool3d`."""

    rank = 3
    function = staticmethod(F.max_unpool3d)


class _FractionalMaxPool(Module):
    """The largest element of windows at places drawn at random (Graham 2014, arXiv:1412.6071)."""

    rank: int
    function: Callable[..., Any]

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        own = type(self).__name__
        self.kernel_size = per_axis(kernel_size, self.rank, "kernel_size")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_axis(output_size, self.rank, "output_size")
        is_one = isinstance(output_ratio, (int, float))
        self.output_ratio = (output_ratio,) * self.rank if is_one else output_ratio
        if (output_size is None) == (output_ratio is None):
            how = "only one of" if output_size is not None else "either"
            raise located(ArgumentError(f"{own} requires {how} output_size and output_ratio to be specified"))
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise located(ArgumentError(f"output_ratio must be between 0 and 1 (got {output_ratio})"))

    def forward(self, input: Tensor) -> Any:
        """Apply it; with `return_indices` also where the elements were."""
        samples = self._random_samples
        if samples is None:
            batch = input.shape[0] if input.ndim == self.rank + 2 else 1
            samples = rand(batch, input.shape[-self.rank - 1], self.rank, dtype=input.dtype, device=input.device)
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Fractional max pooling over the last two axes."""

    rank = 2
    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Fractional max pooling over the last three axes."""

    rank = 3
    function = staticmethod(F.fractional_max_pool3d)


class _LPPool(Module):
    """The `norm_type`-norm of each window."""

    function: Callable[..., Tensor]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Its numbers."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norm of each window over the last axis."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """The norm of each window over the last two axes."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """The norm of each window over the last three axes."""

    function = staticmethod(F.lp_pool3d)
