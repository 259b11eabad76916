"""Normalisation by the statistics of a batch, of given ones, or of each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.normalization import BatchNorm, BatchNormInference, LayerNorm, RmsNorm

from ...aliasing import write
from ...autocasting import autocasts
from ...autograd.grad_mode import no_grad
from ...dispatch import apply, apply_all
from ...errors import located
from ...functions.pointwise import check_tensor, convert, filled
from ...hot_path import hot
from ...tensor import Tensor
from .arguments import reshaped
from .padding import constant_pad_nd
from .pooling import avg_pool2d

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
    if not x.type_.numel:
        _count(x)
        return _of_nothing(x, weight, bias)
    if x.ndim < 2:
        raise located(ShapeError(f"batch_norm: expected at least 2 dimensions, got {x.ndim}{operand_lines([x.type_])}"))
    scale = _affine(weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise located(ArgumentError("batch_norm: running_mean and running_var must be defined in evaluation mode"))
        return _by_given(x, running_mean, running_var, scale, float(eps))
    running = [t for t in (running_mean, running_var) if t is not None]
    out, *moved = _by_own(x, running_mean, running_var, scale, _count(x), momentum, float(eps))
    with no_grad():
        for t, new in zip(running, moved, strict=True):
            write(t, new, "batch_norm")
    return out


@hot
def _by_given(x: Tensor, mean: Tensor, var: Tensor, scale: tuple[Tensor, ...], eps: float) -> Tensor:
    return apply(BatchNormInference(eps), x, mean, var, *scale)


@hot
def _by_own(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, scale: tuple[Tensor, ...], count: int,
    momentum: Any, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The batch normalised by its own statistics, and what the running ones, as far as there are any, are then."""
    out, mean, var = apply_all(BatchNorm(eps), x, *scale)
    biased: Any = var
    made = [out]
    with no_grad():
        if running_mean is not None:
            made.append(_moved(running_mean, mean, momentum))
        if running_var is not None:
            made.append(_moved(running_var, biased * (count / (count - 1)), momentum))
    return tuple(made)


def _of_nothing(x: Any, weight: Any, bias: Any) -> Tensor:
    """The result for an input without elements, which parameters get no gradient but zero from."""
    out = x.clone()
    for p in (weight, bias):
        if p is not None and p.type_.numel:
            out = out + p[0]
    return out  # type: ignore[no-any-return]


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


def _moved(running: Any, batch: Any, momentum: Any) -> Tensor:
    batch = convert(batch.detach(), running.dtype)
    return convert(running * (1 - momentum) + batch * momentum, running.dtype)


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


@hot
@autocasts("layer_norm")
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


@hot
@autocasts("rms_norm")
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`x / sqrt(mean(x²) + eps) * weight`, with the mean over the last axes; `eps` is the dtype's if left out."""
    x = check_tensor(input, "rms_norm")
    rank = _check_rows("rms_norm", x, normalized_shape, (weight,))
    small = _EPS.get(dtypes.to_real(x.dtype).name, 0.0) if eps is None else float(eps)
    if x.dtype.is_complex:
        return _complex_rms_norm(x, rank, weight, small)
    return apply(RmsNorm(rank, small), x, *(() if weight is None else (weight,)))


def _complex_rms_norm(x: Any, rank: int, weight: Tensor | None, eps: float) -> Tensor:
    """By complex squares, whose mean is complex too, as in PyTorch."""
    y = x * ((x * x).mean(tuple(range(-rank, 0)), keepdim=True) + eps).rsqrt()
    return y if weight is None else y * weight  # type: ignore[no-any-return]


@hot
@autocasts("group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * weight + bias`, with mean and variance over groups of channels (axis 1).

    Weight and bias are one number for each channel (Wu and He 2018, arXiv:1803.08494).

    >>> import jitgrad as jg
    >>> jg.nn.functional.group_norm(jg.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    x = check_tensor(input, "group_norm")
    if x.ndim < 2:
        raise located(ShapeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}"))
    n, c, *rest = x.shape
    if num_groups <= 0 or c % num_groups:
        raise located(
            ShapeError(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape "
                f"{list(x.shape)} and num_groups={num_groups}"
            )
        )
    for p in (weight, bias):
        if p is not None and tuple(p.shape) != (c,):
            raise located(
                ShapeError(f"Expected weight and bias to be vectors of {c} channels, not of shape {list(p.shape)}")
            )
    if n * c // num_groups * math.prod(rest) == 1:
        raise located(
            ArgumentError(
                "Expected more than 1 value per channel when training, got input size "
                f"{[n * c // num_groups, num_groups, *rest]}"
            )
        )
    if not x.type_.numel:
        return _of_nothing(x, weight, bias)
    y = convert(x, accumulator_dtype(x.dtype))
    y = apply(LayerNorm(1, float(eps)), reshaped(y, (n, num_groups, c // num_groups * math.prod(rest))))
    return convert(_by_channel(reshaped(y, tuple(x.shape)), weight, bias), x.dtype)


def _by_channel(y: Any, weight: Tensor | None, bias: Tensor | None) -> Any:
    """`y * weight + bias` along axis 1."""
    line = (y.shape[1], *(1,) * (y.ndim - 2))
    if weight is not None:
        y = y * reshaped(convert(weight, y.dtype), line)
    return y if bias is None else y + reshaped(convert(bias, y.dtype), line)


@hot
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """`batch_norm` of each item by itself (Ulyanov et al. 2016, arXiv:1607.08022).

    With `use_input_stats`, the running statistics, if given, move towards the mean of the items' by `momentum`.

    >>> import jitgrad as jg
    >>> jg.nn.functional.instance_norm(jg.tensor([[[1.0, 3.0]], [[5.0, 9.0]]])).flatten()
    tensor([-1.0000,  1.0000, -1.0000,  1.0000])
    """
    x = check_tensor(input, "instance_norm")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise located(
                OperationError("Expected running_mean and running_var to be defined when use_input_stats is false")
            )
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(x.shape[2:]) == 1:
        raise located(
            ArgumentError(f"Expected more than 1 spatial element when training, got input size {list(x.shape)}")
        )
    if not x.type_.numel:
        return _of_nothing(x, weight, bias)
    n, c, *rest = x.shape
    joined = reshaped(x, (1, n * c, *rest))
    running = [None if r is None else _repeated(r, n) for r in (running_mean, running_var)]
    y = batch_norm(joined, running[0], running[1], None, None, True, momentum, eps)
    for old, new in zip((running_mean, running_var), running, strict=True):
        if old is not None and new is not None:
            write(old, convert(new.reshape(n, c).mean(0), old.dtype), "instance_norm")  # type: ignore[attr-defined]
    return convert(_by_channel(reshaped(y, tuple(x.shape)), weight, bias), x.dtype)


def _repeated(vector: Any, times: int) -> Tensor:
    return vector.detach().repeat(times)  # type: ignore[no-any-return]


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """`x / (k + alpha mean(x²)) ** beta`, the mean being over `size` neighbouring channels, 0 beyond the ends.

    (Krizhevsky et al. 2012)

    >>> import jitgrad as jg
    >>> jg.nn.functional.local_response_norm(jg.ones(1, 1, 1), 2, alpha=6.0, beta=0.5)
    tensor([[[0.5000]]])
    """
    x: Any = check_tensor(input, "local_response_norm")
    if x.ndim < 3:
        raise located(ArgumentError(f"Expected 3D or higher dimensionality input (got {x.ndim} dimensions)"))
    if not x.type_.numel:
        return x  # type: ignore[no-any-return]
    n, c, *rest = x.shape
    squares = reshaped(x * x, (n, 1, c, math.prod(rest)))
    padded = constant_pad_nd(squares, (0, 0, size // 2, (size - 1) // 2))
    means: Any = reshaped(avg_pool2d(padded, (size, 1), 1), tuple(x.shape))
    return x / (means * alpha + k) ** beta  # type: ignore[no-any-return]
