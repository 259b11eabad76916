"""Normalisation: by statistics of the batch (`BatchNorm`), given ones, or ones of each row (`LayerNorm`).

Half types are computed in float32 and rounded at the end; weights may then be float32 too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import Shape, TensorType
from .broadcast import Sum, accumulator_dtype
from .formula import Term
from .math import Rsqrt
from .sample_axis import all_batched, merged, split
from .shape import Reshape

__all__ = ["BatchNorm", "BatchNormInference", "LayerNorm", "RmsNorm"]


def _check(name: str, x: TensorType, others: Sequence[TensorType], shape: Shape) -> None:
    """A float operand; parameters of one shape, of its type or the one that it is computed in."""
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{name}: not defined for {x.dtype.name}{operand_lines((x,))}")
    for other in others:
        if other.shape != shape:
            raise ShapeError(f"{name}: weights and statistics must have shape {list(shape)}{operand_lines((x, other))}")
        if other.dtype is not x.dtype and other.dtype is not accumulator_dtype(x.dtype):
            raise DTypeError(f"{name}: weights must have the input's dtype{operand_lines((x, other))}")


def _wide(x: Array) -> Array:
    return x.astype(accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np, copy=False)


class _ByChannel(Op):
    """Statistics and parameters along axis 1."""

    eps: float

    def _check_channels(self, x: TensorType, others: Sequence[TensorType]) -> None:
        if x.ndim < 2:
            raise ShapeError(f"{self.name}: the input has no channel axis{operand_lines((x,))}")
        _check(self.name, x, others, (x.shape[1],))

    @staticmethod
    def _line(shape: Shape) -> Shape:
        """The shape in which a vector of the channels broadcasts."""
        return tuple(n if a == 1 else 1 for a, n in enumerate(shape))

    @staticmethod
    def _others(shape: Shape) -> tuple[int, ...]:
        """The axes other than the channels'."""
        return tuple(a for a in range(len(shape)) if a != 1)

    def _spread(self, vector: Term, shape: Shape) -> Term:
        """A vector of the channels repeated to `shape`."""
        return vector.apply(Reshape(self._line(shape))).expand(shape)

    def _per_channel(self, x: Term) -> Term:
        """The sum over all axes but the channels'."""
        return x.apply(Sum(self._others(x.value.shape), False))

    def _affine(self, b: Builder, centred: Term, var: Term, parameters: Sequence[Value]) -> Term:
        """`centred` over the standard deviation, times the weight, plus the bias."""
        shape, wide = centred.value.shape, centred.value.type.dtype
        scale = (var + self.eps).apply(Rsqrt())
        if not parameters:
            return centred * self._spread(scale, shape)
        weight, bias = (Term(b, p).convert(wide) for p in parameters)
        return centred * self._spread(scale * weight, shape) + self._spread(bias, shape)

    def _affine_reference(self, centred: Array, var: Array, parameters: Sequence[Array]) -> Array:
        line = self._line(centred.shape)
        scale = 1 / np.sqrt(var + var.dtype.type(self.eps))
        if not parameters:
            return centred * scale.reshape(line)
        weight, bias = map(_wide, parameters)
        return centred * (scale * weight).reshape(line) + bias.reshape(line)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """The channels of all samples side by side."""
        x, *others = all_batched(b, operands, batched, size)
        y, *statistics = b.emit(self, merged(b, x, 1), *[merged(b, t) for t in others])
        return split(b, y, size, 1), *[split(b, t, size) for t in statistics]


@op
class BatchNorm(_ByChannel):
    """`(x - mean) / sqrt(var + eps) * weight + bias`, with mean and variance of each channel over the batch.

    Operands: `x` [n, c, ...], and both or neither of weight and bias [c]. Results: the normalised tensor, the
    mean, and the variance without Bessel's correction, both [c] (float32 for half types), from which
    running statistics are kept (Ioffe and Szegedy 2015, arXiv:1502.03167).
    """

    eps: float = 1e-5
    name = "batch_norm"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A float input with channels, and vectors of them."""
        x, *parameters = operands
        if len(parameters) not in (0, 2):
            raise ArgumentError(f"batch_norm: takes weight and bias, or neither{operand_lines(operands)}")
        self._check_channels(x, parameters)
        statistic = TensorType((x.shape[1],), accumulator_dtype(x.dtype), x.device)
        return x, statistic, statistic

    def reference(self, *operands: Array) -> Array:
        """Two passes in NumPy."""
        x, *parameters = operands
        wide = _wide(x)
        axes, count = self._others(x.shape), wide.dtype.type(x.size / max(x.shape[1], 1))
        with np.errstate(all="ignore"):
            mean = wide.sum(axis=axes) / count
            centred = wide - mean.reshape(self._line(x.shape))
            var = np.square(centred).sum(axis=axes) / count
            y = self._affine_reference(centred, var, parameters).astype(x.dtype, copy=False)
        return y, mean, var

    def _count(self, shape: Shape) -> float:
        return math.prod(shape[a] for a in self._others(shape))

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Mean, variance, scale and shift."""
        x, *parameters = operands
        wide = Term(b, x).convert(accumulator_dtype(x.type.dtype))
        count = self._count(x.shape)
        mean = self._per_channel(wide) / count
        centred = wide - self._spread(mean, x.shape)
        var = self._per_channel(centred * centred) / count
        y = self._affine(b, centred, var, parameters)
        return y.convert(x.type.dtype).value, mean.value, var.value

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """With `h = (x - mean) / std`: `weight / std (g - mean(g) - h mean(g h))`; and the statistics' own."""
        x, *parameters = operands
        g, g_mean, g_var = cotangents
        shape, dtype, wide = x.shape, x.type.dtype, accumulator_dtype(x.type.dtype)
        count = self._count(shape)
        mean, var = Term(b, results[1]), Term(b, results[2])
        centred = Term(b, x).convert(wide) - self._spread(mean, shape)
        grads: list[Value | None] = [None] * len(operands)
        total: Term | None = None
        if g is not None:
            grad = Term(b, g).convert(wide)
            inverse = (var + self.eps).apply(Rsqrt())
            g_bias = self._per_channel(grad)
            g_weight = self._per_channel(grad * centred) * inverse
            if parameters:
                grads[1] = g_weight.convert(parameters[0].type.dtype).value
                grads[2] = g_bias.convert(parameters[1].type.dtype).value
            scale = inverse * Term(b, parameters[0]).convert(wide) if parameters else inverse
            slope = self._spread(g_weight * inverse / count, shape)
            total = (grad - self._spread(g_bias / count, shape) - centred * slope) * self._spread(scale, shape)
        if g_mean is not None:
            part = self._spread(Term(b, g_mean) / count, shape)
            total = part if total is None else total + part
        if g_var is not None:
            part = centred * self._spread(Term(b, g_var) * (2 / count), shape)
            total = part if total is None else total + part
        grads[0] = None if total is None else total.convert(dtype).value
        return [grad if need else None for grad, need in zip(grads, needs, strict=True)]


@op
class BatchNormInference(_ByChannel):
    """`(x - mean) / sqrt(var + eps) * weight + bias` with given statistics of each channel.

    Operands: `x` [n, c, ...], mean and variance [c], and both or neither of weight and bias [c].
    """

    eps: float = 1e-5
    name = "batch_norm_inference"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A float input with channels, and vectors of them."""
        x, *others = operands
        if len(others) not in (2, 4):
            raise ArgumentError(
                f"batch_norm_inference: takes mean and variance, and weight and bias or neither"
                f"{operand_lines(operands)}"
            )
        self._check_channels(x, others)
        return (x,)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        x, mean, var, *parameters = operands
        with np.errstate(all="ignore"):
            centred = _wide(x) - _wide(mean).reshape(self._line(x.shape))
            return self._affine_reference(centred, _wide(var), parameters).astype(x.dtype, copy=False)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Scale and shift."""
        x, *others = operands
        wide = accumulator_dtype(x.type.dtype)
        mean, var = (Term(b, v).convert(wide) for v in others[:2])
        centred = Term(b, x).convert(wide) - self._spread(mean, x.shape)
        return (self._affine(b, centred, var, others[2:]).convert(x.type.dtype).value,)


class _ByRow(Op):
    """Statistics over the last `rank` axes, and parameters of their shape."""

    rank: int
    eps: float

    def _check_rows(self, operands: Sequence[TensorType]) -> None:
        x, *parameters = operands
        if not 1 <= self.rank <= x.ndim:
            raise ShapeError(f"{self.name}: {self.rank} of {x.ndim} axes to normalise{operand_lines((x,))}")
        _check(self.name, x, parameters, x.shape[x.ndim - self.rank :])

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """More rows, if all samples have one weight and bias."""
        return (b(self, *operands),) if not any(batched[1:]) else None

    def _axes(self, shape: Shape) -> tuple[int, ...]:
        return tuple(range(len(shape) - self.rank, len(shape)))

    def _mean(self, x: Term) -> Term:
        """The mean of each row, with axes of length 1."""
        shape = x.value.shape
        return x.sum(*self._axes(shape)) / math.prod(shape[a] for a in self._axes(shape))

    def _to_parameter(self, x: Term, like: Value) -> Value:
        """The sum over the rows, as the cotangent of a parameter."""
        leading = tuple(range(x.value.ndim - self.rank))
        return x.apply(Sum(leading, False)).convert(like.type.dtype).value


@op
class LayerNorm(_ByRow):
    """`(x - mean) / sqrt(var + eps) * weight + bias`, with mean and variance over the last `rank` axes.

    Operands: `x`, and optionally a weight, or a weight and a bias, of the shape of those axes
    (Ba et al. 2016, arXiv:1607.06450).
    """

    rank: int
    eps: float = 1e-5
    name = "layer_norm"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A float input, and parameters of the shape of its last axes."""
        if not 1 <= len(operands) <= 3:
            raise ArgumentError(f"layer_norm: takes one to three operands{operand_lines(operands)}")
        self._check_rows(operands)
        return (operands[0],)

    def reference(self, *operands: Array) -> Array:
        """Two passes in NumPy."""
        x, *parameters = operands
        wide, axes = _wide(x), self._axes(x.shape)
        count = wide.dtype.type(math.prod(x.shape[a] for a in axes))
        with np.errstate(all="ignore"):
            y = wide - wide.sum(axis=axes, keepdims=True) / count
            var = np.square(y).sum(axis=axes, keepdims=True) / count
            y *= 1 / np.sqrt(var + wide.dtype.type(self.eps))
            if parameters:
                y *= _wide(parameters[0])
            for bias in parameters[1:]:
                y += _wide(bias)
        return y.astype(x.dtype, copy=False)

    def _normalised(self, b: Builder, x: Value) -> tuple[Term, Term]:
        """The rows with mean 0 and variance 1, and what they were multiplied with."""
        wide = Term(b, x).convert(accumulator_dtype(x.type.dtype))
        centred = wide - self._mean(wide).expand(x.shape)
        inverse = (self._mean(centred * centred) + self.eps).apply(Rsqrt()).expand(x.shape)
        return centred * inverse, inverse

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Mean, variance, scale and shift."""
        x, *parameters = operands
        y, _ = self._normalised(b, x)
        wide = y.value.type.dtype
        if parameters:
            y = y * Term(b, parameters[0]).convert(wide).expand(x.shape)
        for bias in parameters[1:]:
            y = y + Term(b, bias).convert(wide).expand(x.shape)
        return (y.convert(x.type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """With `h` the normalised rows: `(g w - mean(g w) - h mean(g w h)) / std`; the statistics anew."""
        (g,) = cotangents
        assert g is not None
        x, *parameters = operands
        wide = accumulator_dtype(x.type.dtype)
        grad = Term(b, g).convert(wide)
        grads: list[Value | None] = [None] * len(operands)
        if len(parameters) > 1 and needs[2]:
            grads[2] = self._to_parameter(grad, parameters[1])
        if not any(needs[:2]):
            return grads
        h, inverse = self._normalised(b, x)
        if parameters and needs[1]:
            grads[1] = self._to_parameter(grad * h, parameters[0])
        if needs[0]:
            if parameters:
                grad = grad * Term(b, parameters[0]).convert(wide).expand(x.shape)
            centred = grad - self._mean(grad).expand(x.shape) - h * self._mean(grad * h).expand(x.shape)
            grads[0] = (centred * inverse).convert(x.type.dtype).value
        return grads


@op
class RmsNorm(_ByRow):
    """`x / sqrt(mean(x²) + eps) * weight`, with the mean over the last `rank` axes.

    Operands: `x`, and optionally a weight of the shape of those axes
    (Zhang and Sennrich 2019, arXiv:1910.07467).
    """

    rank: int
    eps: float
    name = "rms_norm"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A float input, and a weight of the shape of its last axes."""
        if not 1 <= len(operands) <= 2:
            raise ArgumentError(f"rms_norm: takes one or two operands{operand_lines(operands)}")
        self._check_rows(operands)
        return (operands[0],)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        x, *weights = operands
        wide, axes = _wide(x), self._axes(x.shape)
        count = wide.dtype.type(math.prod(x.shape[a] for a in axes))
        with np.errstate(all="ignore"):
            mean = np.square(wide).sum(axis=axes, keepdims=True) / count
            y = wide * (1 / np.sqrt(mean + wide.dtype.type(self.eps)))
            for weight in weights:
                y *= _wide(weight)
        return y.astype(x.dtype, copy=False)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Mean of squares, and scale."""
        x, *weights = operands
        wide = Term(b, x).convert(accumulator_dtype(x.type.dtype))
        y = wide * (self._mean(wide * wide) + self.eps).apply(Rsqrt()).expand(x.shape)
        for weight in weights:
            y = y * Term(b, weight).convert(y.value.type.dtype).expand(x.shape)
        return (y.convert(x.type.dtype).value,)
