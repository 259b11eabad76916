"""Lazy layers: they learn their input's width from the first input, and become the ordinary layer then."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError

from ..autograd.grad_mode import no_grad
from ..errors import located
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _Conv
from .groupnorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear
from .module import Module
from .uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy


class _Lazy(Module):
    """What lazy layers share.

    `_width` names the attribute that the first input decides, `_axis` is the axis of the input that it is read from.
    """

    cls_to_become: type[Module]
    _width: str
    _axis: int

    def _start(self, where: dict[str, Any], buffers: tuple[str, ...] = ()) -> None:
        """Take the shapes away from parameters and buffers, and wait for an input or for a `state_dict`."""
        for name, p in list(self._parameters.items()):
            if p is not None and name in self._lazy_names():
                self._parameters[name] = UninitializedParameter(**where)
        for name in buffers:
            if self._buffers.get(name) is not None:
                self._buffers[name] = UninitializedBuffer(**where)
        self.__dict__["_waiting"] = (
            self.register_forward_pre_hook(_see_input, with_kwargs=True),
            self.register_load_state_dict_pre_hook(_see_state),
        )

    def _lazy_names(self) -> tuple[str, ...]:
        return ("weight", "bias")

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of parameters and buffers, now that the width is known."""
        raise NotImplementedError

    def initialize_parameters(self, input: Any) -> None:
        """Learn the width from an input, and draw initial values."""
        if getattr(self, self._width) == 0:
            setattr(self, self._width, input.shape[self._axis])
        if self.has_uninitialized_params():
            with no_grad():
                for name, shape in self._shapes().items():
                    tensor = self._parameters.get(name, self._buffers.get(name))
                    if is_lazy(tensor):
                        tensor.materialize(shape)  # type: ignore[union-attr]
                self.reset_parameters()  # type: ignore[operator]

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are shapes."""
        if not self.has_uninitialized_params() and getattr(self, self._width) != 0:
            super().reset_parameters()  # type: ignore[misc]


def _see_input(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The first input: the layer becomes an ordinary one."""
    if not args or kwargs:
        raise located(OperationError(f"{type(module).__name__}: the first input must be the only positional argument"))
    module.initialize_parameters(args[0])
    for handle in module.__dict__.pop("_waiting"):
        handle.remove()
    module.__class__ = module.cls_to_become


def _see_state(module: Any, state_dict: Any, prefix: str, *others: Any) -> None:
    """A `state_dict`: parameters take its shapes."""
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        given = state_dict.get(prefix + name)
        if is_lazy(tensor) and given is not None and not is_lazy(given):
            with no_grad():
                tensor.materialize(tuple(given.shape))


class LazyLinear(_Lazy, Linear):
    """A `Linear` whose `in_features` is the last length of its first input.

    >>> import jitgrad as jg
    >>> layer = jg.nn.LazyLinear(3)
    >>> _ = layer(jg.zeros(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    _width, _axis = "in_features", -1

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None) -> None:
        super().__init__(0, out_features, bias, device, dtype)
        self._start({"device": device, "dtype": dtype})

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class _LazyConv(_Lazy, _Conv):
    _width = "in_channels"

    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self._start({"device": device, "dtype": dtype})

    @property
    def _axis(self) -> int:  # type: ignore[override]
        return -self.rank - 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        return {"weight": (outer, inner // self.groups, *self.kernel_size), "bias": (self.out_channels,)}


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super(_Lazy, self).__init__(  # type: ignore[call-arg]
            0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device,
            dtype,
        )  # fmt: skip
        self._start({"device": device, "dtype": dtype})


class _LazyNorm(_Lazy, _BatchNorm):
    _width = "num_features"

    def __init__(
        self, eps: float = 1e-5, momentum: Any = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self._start({"device": device, "dtype": dtype}, ("running_mean", "running_var"))

    _axis = 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class _LazyInstanceNorm(_LazyNorm):
    def __init__(
        self, eps: float = 1e-5, momentum: Any = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    @property
    def _axis(self) -> int:  # type: ignore[override]
        return -(self.ranks[-1] - 1)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` whose `in_channels` is that of its first input."""

    cls_to_become = Conv1d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` whose `in_channels` is that of its first input."""

    cls_to_become = ConvTranspose1d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` whose `num_features` is that of its first input."""

    cls_to_become = BatchNorm1d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """A `InstanceNorm1d` whose `num_features` is that of its first input."""

    cls_to_become = InstanceNorm1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` whose `in_channels` is that of its first input."""

    cls_to_become = Conv2d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` whose `in_channels` is that of its first input."""

    cls_to_become = ConvTranspose2d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` whose `num_features` is that of its first input."""

    cls_to_become = BatchNorm2d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """A `InstanceNorm2d` whose `num_features` is that of its first input."""

    cls_to_become = InstanceNorm2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` whose `in_channels` is that of its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` whose `in_channels` is that of its first input."""

    cls_to_become = ConvTranspose3d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` whose `num_features` is that of its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """A `InstanceNorm3d` whose `num_features` is that of its first input."""

    cls_to_become = InstanceNorm3d
