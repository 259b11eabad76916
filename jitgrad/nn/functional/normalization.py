"""Normalisation by the statistics of a batch, of given ones, or of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ShapeError
from jitgrad.ir.ops.normalization import BatchNorm, BatchNormInference, LayerNorm, RmsNorm

from ...aliasing import write
from ...autograd.grad_mode import no_grad
from ...dispatch import apply, apply_all
from ...errors import located
from ...functions.pointwise import check_tensor, convert, filled
from ...tensor import Tensor

_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """`(x - mean) / sqrt(var + eps) * weight + bias` along axis 1.

    When `training`, mean and variance are the batch's, and the running ones, if given, move towards them by
    `momentum`; otherwise the running ones are used.
    """
    x = check_tensor(input, "batch_norm")
    scale = _affine(weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise located(ArgumentError("batch_norm: running_mean and running_var must be defined in evaluation mode"))
        return apply(BatchNormInference(float(eps)), x, running_mean, running_var, *scale)
    count = _count(x)
    out, mean, var = apply_all(BatchNorm(float(eps)), x, *scale)
    with no_grad():
        if running_mean is not None:
            _move(running_mean, mean, momentum)
        if running_var is not None:
            _move(running_var, var * (count / (count - 1)), momentum)  # type: ignore[operator]
    return out


def _affine(weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Weight and bias, or neither."""
    if weight is None and bias is None:
        return ()
    return (
        _constant(bias, 1) if weight is None else weight,
        _constant(weight, 0) if bias is None else bias,
    )


def _constant(like: Any, value: int) -> Tensor:
    return filled(tuple(like.shape), like.dtype, value)


def _count(x: Tensor) -> int:
    """Over how many values a channel's statistics go."""
    count = 1
    for axis, n in enumerate(x.shape):
        count *= 1 if axis == 1 else n
    if count == 1:
        raise located(
            ArgumentError(f"Expected more than 1 value per channel when training, got input size {list(x.shape)}")
        )
    return count


def _move(running: Tensor, batch: Tensor, momentum: Any) -> None:
    batch = convert(batch.detach(), running.dtype)  # type: ignore[attr-defined]
    moved = running * (1 - momentum) + batch * momentum  # type: ignore[operator]
    write(running, convert(moved, running.dtype), "batch_norm")


def _check_rows(name: str, x: Tensor, normalized_shape: Sequence[int], parameters: Sequence[Tensor | None]) -> int:
    shape = tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise located(
            ShapeError(
                f"{name}: given normalized_shape={list(shape)}, expected input with shape [*, "
                f"{', '.join(map(str, shape))}], but got input of size {list(x.shape)}"
            )
        )
    for p in parameters:
        if p is not None and tuple(p.shape) != shape:
            raise located(
                ShapeError(
                    f"{name}: expected weight and bias to be of the shape normalized_shape, but got a parameter of "
                    f"shape {list(p.shape)} and normalized_shape = {list(shape)}"
                )
            )
    return len(shape)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """`(x - mean) / sqrt(var + eps) * weight + bias`, with mean and variance over the last axes.

    >>> import jitgrad as jg
    >>> jg.nn.functional.layer_norm(jg.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    x = check_tensor(input, "layer_norm")
    rank = _check_rows("layer_norm", x, normalized_shape, (weight, bias))
    if weight is None and bias is not None:
        weight = _constant(bias, 1)
    parameters = [p for p in (weight, bias) if p is not None]
    return apply(LayerNorm(rank, float(eps)), x, *parameters)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`x / sqrt(mean(x²) + eps) * weight`, with the mean over the last axes; `eps` is the dtype's if left out."""
    x = check_tensor(input, "rms_norm")
    rank = _check_rows("rms_norm", x, normalized_shape, (weight,))
    small = _EPS.get(x.dtype.name, 0.0) if eps is None else float(eps)
    return apply(RmsNorm(rank, small), x, *(() if weight is None else (weight,)))


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """`x / max(norm(x), eps)` with the `p`-norm over `dim`."""
    x = check_tensor(input, "normalize")
    norm = x.norm(p, dim, keepdim=True)  # type: ignore[attr-defined]
    return x / norm.clamp_min(eps)  # type: ignore[operator, no-any-return]
