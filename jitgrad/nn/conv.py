"""Convolutional layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError

from ..creation import empty
from ..errors import located
from ..tensor import Tensor
from . import functional as F
from . import init
from .functional.arguments import per_axis
from .module import Module
from .parameter import Parameter

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What all convolutions share; `rank` is the number of spatial axes."""

    rank: int
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, self.rank, "kernel_size")
        self.stride = per_axis(stride, self.rank, "stride")
        self.padding = padding if isinstance(padding, str) else per_axis(padding, self.rank, "padding")
        self.dilation = per_axis(dilation, self.rank, "dilation")
        self.output_padding = (0,) * self.rank
        self.groups = groups
        self.padding_mode = padding_mode
        outer, inner = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    @staticmethod
    def _check(
        in_channels: int, out_channels: int, stride: Any, padding: Any, groups: int, padding_mode: str
    ) -> None:  # fmt: skip
        if groups <= 0:
            raise located(ArgumentError("groups must be a positive integer"))
        if in_channels % groups:
            raise located(ArgumentError("in_channels must be divisible by groups"))
        if out_channels % groups:
            raise located(ArgumentError("out_channels must be divisible by groups"))
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise located(ArgumentError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}"))
        if padding == "same" and any(s != 1 for s in (stride if isinstance(stride, (tuple, list)) else (stride,))):
            raise located(ArgumentError("padding='same' is not supported for strided convolutions"))
        if padding_mode not in _PADDING_MODES:
            raise located(
                ArgumentError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")
            )

    def reset_parameters(self) -> None:
        """Draw new initial values: evenly between ±1/√(in_channels / groups * kernel size)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Its numbers, those that are not the default."""
        ones, zeros = (1,) * self.rank, (0,) * self.rank
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


class _Forward(_Conv):
    function: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._around(), self.padding_mode), (0,) * self.rank
        return type(self).function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _around(self) -> list[int]:
        """What is added before and behind each axis, the last axis first."""
        if isinstance(self.padding, tuple):
            return [p for p in reversed(self.padding) for _ in range(2)]
        if self.padding == "valid":
            return [0, 0] * self.rank
        reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [side for n in reversed(reach) for side in (n // 2, n - n // 2)]


class Conv1d(_Forward):
    """The cross-correlation of [n, in_channels, l] with a weight [out_channels, in_channels / groups, k]."""

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    """The cross-correlation of [n, in_channels, h, w] with a weight [out_channels, in_channels / groups, kh, kw].

    `padding` is a number of zeros on both sides, "valid" (none) or "same" (as the input, for stride 1).

    >>> import jitgrad as jg
    >>> layer = jg.nn.Conv2d(16, 33, 3, stride=2)
    >>> layer
    Conv2d(16, 33, kernel_size=(3, 3), stride=(2, 2))
    >>> layer(jg.zeros(2, 16, 9, 9)).shape
    jitgrad.Size([2, 33, 4, 4])
    """

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    """The cross-correlation of [n, in_channels, d, h, w] with a weight [out_channels, in_channels / groups, ...]."""

    rank = 3
    function = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    function: Callable[..., Tensor]
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = per_axis(output_padding, self.rank, "output_padding")
        if padding_mode != "zeros":
            raise located(
                ArgumentError(f'Only "zeros" padding mode is supported for {self._get_name()}, not {padding_mode!r}')
            )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Apply it; `output_size`, the lengths of the output's spatial axes, tells the padding behind it."""
        extra = self.output_padding if output_size is None else self._output_padding(input, tuple(output_size))
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _output_padding(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        lengths = input.shape[-self.rank :]
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(lengths, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        ]
        extra = tuple(m - n for m, n in zip(output_size[-self.rank :], least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            raise located(
                ArgumentError(f"requested an output size of {output_size}, but valid sizes start at {tuple(least)}")
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`, with a weight [in_channels, out_channels / groups, k]."""

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`, with a weight [in_channels, out_channels / groups, kh, kw]."""

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d`, with a weight [in_channels, out_channels / groups, kd, kh, kw]."""

    rank = 3
    function = staticmethod(F.conv_transpose3d)
