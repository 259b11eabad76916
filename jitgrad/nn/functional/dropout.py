"""Dropout: elements, or whole channels, set to zero at random."""

from __future__ import annotations

from jitgrad.ir.dtypes import float32
from jitgrad.ir.errors import ArgumentError
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.comparison import Ge
from jitgrad.ir.ops.random import RandomUniform

from ...aliasing import write
from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, convert, filled, pointwise
from ...random import draw
from ...tensor import Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability `p` and divide the others by `1 - p`; nothing unless `training`.

    >>> import jitgrad as jg
    >>> jg.nn.functional.dropout(jg.ones(2), training=False)
    tensor([1., 1.])
    """
    x = check_tensor(input, "dropout")
    return _dropout("dropout", x, tuple(x.shape), p, training, inplace)


def _dropout(name: str, x: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Tensor:
    """`x` times a mask of `shape`, which broadcasts."""
    if not 0.0 <= p <= 1.0:
        raise located(ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}"))
    if not training or p == 0:
        return x
    kept = apply(Ge(), draw(RandomUniform(shape, float32), like=x), filled(shape, float32, p))
    scale = 0.0 if p == 1 else 1 / (1 - p)
    mask = apply(Mul(), convert(kept, x.dtype), filled(shape, x.dtype, scale))
    out = pointwise(Mul(), x, mask)
    return write(x, out, name + "_") if inplace else out


def _channel_dropout(rank: int, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    x = check_tensor(input, f"dropout{rank}d")
    channels = x.ndim - rank
    return _dropout(f"dropout{rank}d", x, (*x.shape[:channels], *(1,) * rank), p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, l] or [c, l]."""
    return _channel_dropout(1, input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, h, w] or [c, h, w]."""
    return _channel_dropout(2, input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [n, c, d, h, w] or [c, d, h, w]."""
    return _channel_dropout(3, input, p, training, inplace)
