"""Convolutions over one to three axes: `Conv` and its two gradients, each differentiable through the others.

They decompose into matrix products over patches ("im2col"): with `g` groups, `c` input and `o` output
channels per group, `k` places in the kernel and `p` places in all images' outputs together,

    patches: [g, c k, p]    weight: [g, o, c k]    output: [g, o, p]

where the axis of groups is left out if there is but one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import Shape, TensorType
from .broadcast import accumulator_dtype
from .complex import conj
from .creation import Full
from .linalg import MatMul, transposed
from .sample_axis import all_batched, merged, split
from .shape import Permute, Reshape
from .slicing import Pad, Slice
from .windows import Fold, Windows, window_count

__all__ = ["Conv", "ConvInputGrad", "ConvWeightGrad"]


class _Convolution(Op):
    """The fields, shapes and layouts that a convolution and its gradients share."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def __post_init__(self) -> None:
        rank = len(self.stride)
        if not rank or len(self.padding) != rank or len(self.dilation) != rank:
            raise ArgumentError(f"{self.name}: stride, padding and dilation must be given for the same axes")
        if min(*self.stride, *self.dilation, self.groups) < 1 or min(self.padding) < 0:
            raise ArgumentError(f"{self.name}: stride, dilation and groups must be 1 or more, padding 0 or more")

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(range(2, 2 + len(self.stride)))

    def grouped_by(self, size: int) -> _Convolution:
        """The same of `size` times as many groups."""
        return dataclasses.replace(self, groups=self.groups * size)  # type: ignore[type-var]

    @property
    def _lead(self) -> Shape:
        """The axis of groups, if there are several."""
        return (self.groups,) if self.groups > 1 else ()

    def check_types(self, *operands: TensorType) -> None:
        """Two operands of one numeric type, of batch, channel and spatial axes."""
        x, y = operands
        if x.dtype is not y.dtype or x.dtype.kind == "bool":
            raise DTypeError(f"{self.name}: the operands must be of one numeric type{operand_lines(operands)}")
        rank = len(self.stride) + 2
        if x.ndim != rank or y.ndim != rank:
            raise ShapeError(
                f"{self.name}: operands must have {rank} axes, {rank - 2} of them spatial{operand_lines(operands)}"
            )

    def output_lengths(self, lengths: Shape, kernel: Shape, operands: Sequence[TensorType]) -> Shape:
        """The spatial lengths of the output for those of the input."""
        out = []
        for i, (n, k) in enumerate(zip(lengths, kernel, strict=True)):
            count = window_count(n + 2 * self.padding[i], k, self.stride[i], self.dilation[i])
            if count == 0:
                raise ShapeError(
                    f"{self.name}: spatial axis {i}: a kernel over {self.dilation[i] * (k - 1) + 1} does not "
                    f"fit length {n} with padding {self.padding[i]}{operand_lines(operands)}"
                )
            out.append(count)
        return tuple(out)

    def windows(self, kernel: Shape) -> Windows:
        """The view of the padded input as patches."""
        return Windows(self.axes, kernel, self.stride, self.dilation)

    def patch_layout(self, windows: Shape, kernel: Shape) -> tuple[Shape, tuple[int, ...], Shape]:
        """From windows [n, c, out.., k..]: their shape by groups, the patches' order of axes, and shape."""
        rank = len(kernel)
        n, c, *rest = windows
        by_group = (n, self.groups, c // self.groups, *rest)
        out_axes, kernel_axes = range(3, 3 + rank), range(3 + rank, 3 + 2 * rank)
        places = n * math.prod(rest[:rank])
        patches = (*self._lead, c // self.groups * math.prod(kernel), places)
        return by_group, (1, 2, *kernel_axes, 0, *out_axes), patches

    def weight_matrix(self, weight: Shape) -> Shape:
        """The shape [g, o, c k] of the weight."""
        return *self._lead, weight[0] // self.groups, math.prod(weight[1:])

    def grouped(self, shape: Shape) -> Shape:
        """The shape [g, o, p] of the output [o, n, out..]."""
        return *self._lead, shape[0] // self.groups, math.prod(shape[1:])

    # The same steps as IR and in NumPy.

    def patches(self, b: Builder, x: Value, kernel: Shape) -> Value:
        """The patches of the padded input."""
        if any(self.padding):
            width = (0, 0, *self.padding)
            x = b(Pad(width, width), x, b(Full((), x.type.dtype, 0, x.type.device)))
        windows = b(self.windows(kernel), x)
        by_group, order, shape = self.patch_layout(windows.shape, kernel)
        return b(Reshape(shape), b(Permute(order), b(Reshape(by_group), windows)))

    def patches_reference(self, x: Array, kernel: Shape) -> Array:
        """The patches of the padded input, in the accumulator's type."""
        lengths = [n + 2 * p for n, p in zip(x.shape[2:], self.padding, strict=True)]
        padded = np.zeros((*x.shape[:2], *lengths), accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np)
        inside = Slice((0, 0, *self.padding), x.shape, (1,) * x.ndim)
        inside.reference(padded)[...] = x
        windows = self.windows(kernel).reference(padded)
        by_group, order, shape = self.patch_layout(windows.shape, kernel)
        return windows.reshape(by_group).transpose(order).reshape(shape)

    def channels_first(self, b: Builder, y: Value) -> Value:
        """The output [n, o, out..] as the matrix [g, o, p]."""
        y = b(Permute((1, 0, *self.axes)), y)
        return b(Reshape(self.grouped(y.shape)), y)

    def channels_first_reference(self, y: Array) -> Array:
        """The output [n, o, out..] as the matrix [g, o, p], in the accumulator's type."""
        y = y.astype(accumulator_dtype(dtypes.FROM_NUMPY[y.dtype]).np, copy=False)
        y = y.transpose(1, 0, *self.axes)
        return y.reshape(self.grouped(y.shape))


def _accumulated(x: Array) -> Array:
    return x.astype(accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np, copy=False)


@op
class Conv(_Convolution):
    """The cross-correlation of an input [n, c, ...] with a weight [o, c / groups, ...], giving [n, o, ...].

    Fields have PyTorch's meanings, one number per spatial axis. The input is padded with zeros on both sides.

    >>> import numpy as np
    >>> Conv((1,), (1,), (1,), 1).reference(np.ones((1, 1, 4)), np.ones((1, 1, 3)))
    array([[[2., 3., 3., 2.]]])
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    name = "conv"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Channels that fit, and a kernel no longer than the padded input."""
        self.check_types(*operands)
        x, weight = operands
        if x.shape[1] != weight.shape[1] * self.groups:
            raise ShapeError(
                f"conv: channels differ: input axis 1 is {x.shape[1]}, weight axis 1 is {weight.shape[1]} "
                f"times {self.groups} groups{operand_lines(operands)}"
            )
        if weight.shape[0] % self.groups:
            raise ShapeError(
                f"conv: {weight.shape[0]} output channels do not split into {self.groups} groups"
                f"{operand_lines(operands)}"
            )
        lengths = self.output_lengths(x.shape[2:], weight.shape[2:], operands)
        return (x.with_shape((x.shape[0], weight.shape[0], *lengths)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """More items in the batch if all samples have one weight; else the samples are groups."""
        x, weight = operands
        if not batched[1]:
            return (split(b, b(self, merged(b, x), weight), size),)
        x, weight = all_batched(b, operands, batched, size)
        return (split(b, b(self.grouped_by(size), merged(b, x, 1), merged(b, weight)), size, 1),)

    def reference(self, *operands: Array) -> Array:
        """A matrix product over patches."""
        x, weight = operands
        kernel = weight.shape[2:]
        lengths = self.output_lengths(x.shape[2:], kernel, ())
        matrix = _accumulated(weight).reshape(self.weight_matrix(weight.shape))
        with np.errstate(all="ignore"):
            out = np.matmul(matrix, self.patches_reference(x, kernel))
        out = out.reshape(weight.shape[0], x.shape[0], *lengths).transpose(1, 0, *self.axes)
        return np.ascontiguousarray(out, dtype=x.dtype)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """A matrix product over patches."""
        x, weight = operands
        lengths = self.output_lengths(x.shape[2:], weight.shape[2:], ())
        matrix = b(Reshape(self.weight_matrix(weight.shape)), weight)
        out = b(MatMul(), matrix, self.patches(b, x, weight.shape[2:]))
        out = b(Reshape((weight.shape[0], x.shape[0], *lengths)), out)
        return (b(Permute((1, 0, *self.axes)), out),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By `ConvInputGrad` and `ConvWeightGrad`."""
        (g,) = cotangents
        assert g is not None
        x, weight = operands
        numbers = self.stride, self.padding, self.dilation, self.groups
        g_x = b(ConvInputGrad(x.shape[2:], *numbers), g, conj(b, weight)) if needs[0] else None
        g_w = b(ConvWeightGrad(weight.shape[2:], *numbers), conj(b, x), g) if needs[1] else None
        return g_x, g_w


@op
class ConvInputGrad(_Convolution):
    """The transpose of `Conv` in its input: from output [n, o, ...] and weight to an input of `lengths`.

    It is what PyTorch calls a transposed convolution.
    """

    lengths: Shape
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    name = "conv_input_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The first operand has the shape of the convolution's output."""
        self.check_types(*operands)
        y, weight = operands
        if y.shape[1] != weight.shape[0] or y.shape[1] % self.groups:
            raise ShapeError(
                f"conv_input_grad: channels differ: lhs axis 1 is {y.shape[1]}, weight axis 0 is "
                f"{weight.shape[0]}, with {self.groups} groups{operand_lines(operands)}"
            )
        lengths = self.output_lengths(self.lengths, weight.shape[2:], operands)
        if y.shape[2:] != lengths:
            raise ShapeError(
                f"conv_input_grad: input lengths {list(self.lengths)} give output lengths {list(lengths)}"
                f"{operand_lines(operands)}"
            )
        return (y.with_shape(self._shape(y.shape, weight.shape)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """As for the convolution."""
        y, weight = operands
        if not batched[1]:
            return (split(b, b(self, merged(b, y), weight), size),)
        y, weight = all_batched(b, operands, batched, size)
        return (split(b, b(self.grouped_by(size), merged(b, y, 1), merged(b, weight)), size, 1),)

    def _shape(self, y: Shape, weight: Shape) -> Shape:
        return (y[0], weight[1] * self.groups, *self.lengths)

    def _back(self, y: Shape, weight: Shape) -> tuple[Shape, tuple[int, ...], Shape, Fold, Slice]:
        """From patches to the input: shape by axes, order of axes, windows' shape, fold, and crop."""
        n, c, *_ = self._shape(y, weight)
        kernel = weight[2:]
        windows = (n, c, *y[2:], *kernel)
        by_group, order, _ = self.patch_layout(windows, kernel)
        split = tuple(by_group[a] for a in order)
        padded = tuple(m + 2 * p for m, p in zip(self.lengths, self.padding, strict=True))
        fold = Fold(padded, self.axes, kernel, self.stride, self.dilation)
        crop = Slice((0, 0, *self.padding), (n, c, *self.lengths), (1,) * (2 + len(kernel)))
        return split, Permute(order).inverse().perm, windows, fold, crop

    def reference(self, *operands: Array) -> Array:
        """A matrix product, and its patches added up."""
        y, weight = operands
        split, order, windows, fold, crop = self._back(y.shape, weight.shape)
        matrix = _accumulated(weight).reshape(self.weight_matrix(weight.shape)).swapaxes(-1, -2)
        with np.errstate(all="ignore"):
            patches = np.matmul(matrix, self.channels_first_reference(y))
        padded = fold.reference(patches.reshape(split).transpose(order).reshape(windows))
        return np.ascontiguousarray(crop.reference(padded), dtype=y.dtype)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """A matrix product, and its patches added up."""
        y, weight = operands
        split, order, windows, fold, crop = self._back(y.shape, weight.shape)
        matrix = transposed(b, b(Reshape(self.weight_matrix(weight.shape)), weight))
        patches = b(MatMul(), matrix, self.channels_first(b, y))
        spread = b(Reshape(windows), b(Permute(order), b(Reshape(split), patches)))
        folded = b(fold, spread)
        return (b(crop, folded) if any(self.padding) else folded,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By `Conv` and `ConvWeightGrad`."""
        (g,) = cotangents
        assert g is not None
        y, weight = operands
        numbers = self.stride, self.padding, self.dilation, self.groups
        g_y = b(Conv(*numbers), g, conj(b, weight)) if needs[0] else None
        g_w = b(ConvWeightGrad(weight.shape[2:], *numbers), g, conj(b, y)) if needs[1] else None
        return g_y, g_w


@op
class ConvWeightGrad(_Convolution):
    """The transpose of `Conv` in its weight: from input and output to a weight of `kernel` lengths."""

    kernel: Shape
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    name = "conv_weight_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The second operand has the shape of the convolution's output."""
        self.check_types(*operands)
        x, y = operands
        if x.shape[0] != y.shape[0] or x.shape[1] % self.groups or y.shape[1] % self.groups:
            raise ShapeError(
                f"conv_weight_grad: batches must be equal and channels split into {self.groups} groups"
                f"{operand_lines(operands)}"
            )
        lengths = self.output_lengths(x.shape[2:], self.kernel, operands)
        if y.shape[2:] != lengths:
            raise ShapeError(f"conv_weight_grad: the input gives lengths {list(lengths)}{operand_lines(operands)}")
        return (x.with_shape(self._shape(x.shape, y.shape)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """The samples are groups."""
        x, y = all_batched(b, operands, batched, size)
        return (split(b, b(self.grouped_by(size), merged(b, x, 1), merged(b, y, 1)), size),)

    def _shape(self, x: Shape, y: Shape) -> Shape:
        return (y[1], x[1] // self.groups, *self.kernel)

    def reference(self, *operands: Array) -> Array:
        """A matrix product over patches."""
        x, y = operands
        patches = self.patches_reference(x, self.kernel)
        with np.errstate(all="ignore"):
            out = np.matmul(self.channels_first_reference(y), patches.swapaxes(-1, -2))
        return np.asarray(out.reshape(self._shape(x.shape, y.shape)), dtype=x.dtype)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """A matrix product over patches."""
        x, y = operands
        patches = transposed(b, self.patches(b, x, self.kernel))
        out = b(MatMul(), self.channels_first(b, y), patches)
        return (b(Reshape(self._shape(x.shape, y.shape)), out),)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By `ConvInputGrad` and `Conv`."""
        (g,) = cotangents
        assert g is not None
        x, y = operands
        numbers = self.stride, self.padding, self.dilation, self.groups
        g_x = b(ConvInputGrad(x.shape[2:], *numbers), conj(b, y), g) if needs[0] else None
        g_y = b(Conv(*numbers), conj(b, x), g) if needs[1] else None
        return g_x, g_y
