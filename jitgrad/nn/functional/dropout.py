"""Dropout: elements, or whole channels, set to zero at random."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.ir.dtypes import float32
from jitgrad.ir.errors import ArgumentError, ShapeError
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.comparison import Ge
from jitgrad.ir.ops.random import RandomUniform

from ...aliasing import write
from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, convert, filled, pointwise
from ...functions.registry import public
from ...hot_path import hot
from ...random import draw
from ...tensor import Tensor

_ALPHA = -1.7580993408473766  # what selu tends to below: minus its scale times its alpha


@hot
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability `p` and divide the others by `1 - p`; nothing unless `training`.

    >>> import jitgrad as jg
    >>> jg.nn.functional.dropout(jg.ones(2), training=False)
    tensor([1., 1.])
    """
    x = check_tensor(input, "dropout")
    return _dropout("dropout", x, tuple(x.shape), p, training, inplace)


def check_probability(p: float) -> None:
    """Raise unless `p` is a probability."""
    if not 0.0 <= p <= 1.0:
        raise located(ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}"))


def _dropout(name: str, x: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Tensor:
    """`x` times a mask of `shape`, which broadcasts."""
    check_probability(p)
    if not training or p == 0:
        return x
    kept = apply(Ge(), draw(RandomUniform(shape, float32), like=x), filled(shape, float32, p))
    scale = 0.0 if p == 1 else 1 / (1 - p)
    mask = apply(Mul(), convert(kept, x.dtype), filled(shape, x.dtype, scale))
    out = pointwise(Mul(), x, mask)
    return write(x, out, name + "_") if inplace else out


def _channel_dropout(name: str, x: Tensor, axes: int, p: float, training: bool, inplace: bool) -> Tensor:
    """`dropout` with one draw for each place along the first `axes`."""
    return _dropout(name, x, _per_channel(x, axes), p, training, inplace)


def _per_channel(x: Tensor, axes: int) -> tuple[int, ...]:
    return (*x.shape[:axes], *(1,) * (x.ndim - axes))


def _check_rank(name: str, input: Tensor, rank: int) -> Tensor:
    """`input`; a warning if it is not of `rank` axes behind a channel axis, and a batch axis or none."""
    x = check_tensor(input, name)
    if x.ndim not in (rank + 1, rank + 2):
        warnings.warn(
            f"{name}: Received a {x.ndim}-D input to {name}, which is deprecated and will result in an error in a "
            f"future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            f"{name} exists to provide channel-wise dropout on inputs with {rank} spatial dimensions, a channel "
            "dimension, and an optional batch dimension.",
            stacklevel=3,
        )
    return x


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, l] or [c, l]."""
    x = check_tensor(input, "dropout1d")
    if x.ndim not in (2, 3):
        raise located(ShapeError(f"dropout1d: Expected 2D or 3D input, but received a {x.ndim}D input."))
    return _channel_dropout("dropout1d", x, x.ndim - 1, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, h, w]; three axes are taken to be [n, c, l], with a warning."""
    x = _check_rank("dropout2d", input, 2)
    if x.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change "
            "in a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To "
            "maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _channel_dropout("dropout2d", x, _feature_axes("dropout2d", x), p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, d, h, w] or [c, d, h, w]."""
    x = _check_rank("dropout3d", input, 3)
    return _channel_dropout("dropout3d", x, 1 if x.ndim == 4 else _feature_axes("dropout3d", x), p, training, inplace)


def _feature_axes(name: str, x: Tensor) -> int:
    if x.ndim < 2:
        raise located(ShapeError(f"{name}: Feature dropout requires at least 2 dimensions in the input"))
    return 2


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`dropout` that keeps mean 0 and variance 1 of what `selu` gives (Klambauer et al. 2017, arXiv:1706.02515).

    >>> import jitgrad as jg
    >>> jg.nn.functional.alpha_dropout(jg.ones(2), training=False)
    tensor([1., 1.])
    """
    x = check_tensor(input, "alpha_dropout")
    return _alpha_dropout("alpha_dropout", x, tuple(x.shape), p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of [n, c, ...]."""
    x = check_tensor(input, "feature_alpha_dropout")
    shape = _per_channel(x, _feature_axes("feature_alpha_dropout", x)) if training and p else tuple(x.shape)
    return _alpha_dropout("feature_alpha_dropout", x, shape, p, training, inplace)


def _alpha_dropout(name: str, x: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Tensor:
    check_probability(p)
    if not training or p == 0 or not x.type_.numel:
        return x
    if p == 1:
        out = pointwise(Mul(), x, 0)
    else:
        scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
        kept: Any = convert(
            apply(Ge(), draw(RandomUniform(shape, float32), like=x), filled(shape, float32, p)), x.dtype
        )
        out = x * (kept * scale) + ((kept - 1) * (_ALPHA * scale) + _ALPHA * scale * p)  # type: ignore[operator]
    return write(x, out, name + "_") if inplace else out


def _native(f: Callable[..., Tensor], name: str, inplace: bool) -> None:
    """Publish `f` under its name at top level, where `p` and `train` are given."""

    def function(input: Tensor, p: float, train: bool) -> Tensor:
        return f(input, p, train, inplace)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`nn.functional.{f.__name__}`{', in place' if inplace else ''}."
    public(name, method=False)(function)


def feature_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, ...]."""
    x = check_tensor(input, "feature_dropout")
    return _channel_dropout("feature_dropout", x, _feature_axes("feature_dropout", x), p, training, inplace)


for _function in (dropout, feature_dropout, alpha_dropout, feature_alpha_dropout):
    _native(_function, _function.__name__, False)
    _native(_function, _function.__name__ + "_", True)
