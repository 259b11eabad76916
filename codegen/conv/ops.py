"""Convolutions as the tile kernels run them: ops of prepared graphs, over weights that are packed already.

    input:  [n, groups c, ...]       in any floating-point type
    weight: [groups, blocks, places of the kernel..., c, channels of a block]
    output: [n, groups o, ...]

`places` go over the kernel's depth, width and height, in this order, as far as it has them. The last block is filled
up with zeros. Weights are in the type that sums are in:
float32 for inputs of half types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import op
from jitgrad.ir.ops.broadcast import Sum, accumulator_dtype
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.types import Shape, TensorType

from ..loops.tile import TileOp

Array = np.ndarray[Any, Any]
_ORDER: Final = {1: (0,), 2: (1, 0), 3: (0, 2, 1)}  # of the kernel's places in a packed weight
_BACK: Final = {1: (0,), 2: (1, 0), 3: (0, 2, 1)}  # the inverses


class _WithEpilogue(TileOp):
    """What may add a bias, its third operand if there is one, and give the larger of that and 0.

    A bias has as many elements as there are channels, in the type that sums are in.
    """

    channels: int
    relu: bool

    def finished(self, y: Array, bias: Sequence[Array]) -> Array:
        """The output from what has been summed up, rounding after each operation."""
        if bias:
            each = bias[0].reshape(-1, *(1,) * (y.ndim - 2))
            y = (y.astype(each.dtype) + each).astype(y.dtype)
        return np.asarray(np.maximum(y, 0)) if self.relu else y


@op
class TileConv(_WithEpilogue):
    """A convolution whose output has spatial `lengths`; `low` zeros (or fewer elements than none) are in front.

    Behind the input there are as many zeros as it takes. `channels` are the output's, in each group.
    """

    lengths: Shape
    stride: tuple[int, ...]
    low: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    channels: int
    relu: bool = False
    name = "tile_conv"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Shapes that fit; the rules that users meet are `Conv`'s."""
        x = operands[0]
        _check_operands(self.name, operands, len(self.lengths), self.groups, self.channels)
        return (x.with_shape((x.shape[0], self.groups * self.channels, *self.lengths)),)

    def reference(self, *operands: Array) -> Array:
        """`Conv`'s, on an input that is padded by hand."""
        x, packed, *bias = operands
        weight = unpacked(packed, self.channels)
        weight = weight.reshape(-1, *weight.shape[2:])
        needed = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.lengths, self.stride, weight.shape[2:], self.dilation, strict=True)
        ]
        padded = np.zeros((*x.shape[:2], *needed), x.dtype)
        places = [overlap(n, m, low) for n, m, low in zip(x.shape[2:], needed, self.low, strict=True)]
        targets, sources = ((slice(None), slice(None), *sides) for sides in zip(*places, strict=True))
        padded[targets] = x[sources]
        conv = Conv(self.stride, (0,) * len(needed), self.dilation, self.groups)
        return self.finished(np.asarray(conv.reference(padded.astype(weight.dtype), weight)).astype(x.dtype), bias)


@op
class TileTransposed(_WithEpilogue):
    """The transpose of a convolution in its input, which gets spatial `lengths`; fields are `ConvInputGrad`'s.

    The weight is packed with its channels swapped and its places reversed. `channels` are the result's, in each group.
    """

    lengths: Shape
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    channels: int
    relu: bool = False
    name = "tile_transposed"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Shapes that fit; the rules that users meet are `ConvInputGrad`'s."""
        y = operands[0]
        _check_operands(self.name, operands, len(self.lengths), self.groups, self.channels)
        return (y.with_shape((y.shape[0], self.groups * self.channels, *self.lengths)),)

    def reference(self, *operands: Array) -> Array:
        """`ConvInputGrad`'s."""
        y, packed, *bias = operands
        weight = unpacked(packed, self.channels)
        rank = weight.ndim - 3
        weight = np.flip(weight, tuple(range(3, 3 + rank))).swapaxes(1, 2)
        weight = weight.reshape(-1, *weight.shape[2:])
        grad = ConvInputGrad(self.lengths, self.stride, self.padding, self.dilation, self.groups)
        return self.finished(np.asarray(grad.reference(y.astype(weight.dtype), weight)).astype(y.dtype), bias)


def _check_operands(name: str, operands: tuple[TensorType, ...], rank: int, groups: int, channels: int) -> None:
    x, weight, *bias = operands
    fits = x.ndim == rank + 2 and weight.ndim == rank + 4 and weight.dtype is accumulator_dtype(x.dtype)
    fits = fits and all(v.shape == (groups * channels,) and v.dtype is weight.dtype for v in bias)
    if not fits or weight.shape[0] != groups or x.shape[1] != groups * weight.shape[-2]:
        raise ShapeError(f"{name}: operands that do not fit{operand_lines(operands)}")


def kernel_of(weight: TensorType) -> Shape:
    """The lengths of a packed kernel, axis by axis."""
    places = weight.shape[2:-2]
    return tuple([places[k] for k in _BACK[len(places)]])


def unpacked(packed: Array, channels: int) -> Array:
    """A weight [groups, o, c, ...] from its packed form."""
    rank = packed.ndim - 4
    back = [2 + int(k) for k in np.argsort(_ORDER[rank])]
    weight = packed.transpose(0, 1, rank + 3, rank + 2, *back)
    return weight.reshape(weight.shape[0], -1, *weight.shape[3:])[:, :channels]


@op
class TileWeightGrad(TileOp):
    """The gradient of a convolution in its weight, from its input and its output's gradient, in parts to be added up.

    The result is [strands, groups, kernel..., input channels, output channels], in the type of sums.
    """

    kernel: Shape
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    strands: int
    name = "tile_weight_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Shapes that fit; the rules that users meet are `ConvWeightGrad`'s."""
        x, y = operands
        if x.ndim != y.ndim or x.ndim != len(self.kernel) + 2 or x.dtype is not y.dtype or x.shape[0] != y.shape[0]:
            raise ShapeError(f"tile_weight_grad: operands that do not fit{operand_lines(operands)}")
        channels = x.shape[1] // self.groups, y.shape[1] // self.groups
        shape = (self.strands, self.groups, *self.kernel, *channels)
        return (TensorType(shape, accumulator_dtype(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """All of it in the first strand."""
        x, y = operands
        (result,) = self.infer(*(TensorType(a.shape, dtypes.FROM_NUMPY[a.dtype]) for a in operands))
        wide, rank = result.dtype.np, len(self.kernel)
        op = ConvWeightGrad(self.kernel, self.stride, self.padding, self.dilation, self.groups)
        weight = op.reference(x.astype(wide), y.astype(wide))
        weight = weight.reshape(self.groups, -1, *weight.shape[1:])
        out = np.zeros(result.shape, wide)
        out[0] = weight.transpose(0, *range(3, 3 + rank), 2, 1)
        return out


def unpacked_weight_gradient(b: Builder, parts: Value, weight: Shape, dtype: DType) -> Value:
    """The gradient of a weight [o, c, ...] from the result of `TileWeightGrad`.

    One strand is added up as several are: how many there are goes by sizes, which compile nothing.
    """
    whole, rank = b(Sum((0,)), parts), len(weight) - 2
    whole = b(Permute((0, 2 + rank, 1 + rank, *range(1, 1 + rank))), whole)
    whole = b(Convert(dtype), whole) if dtype is not whole.type.dtype else whole
    return b(Reshape(weight), whole)


def overlap(length: int, needed: int, low: int) -> tuple[slice, slice]:
    """Where in a padded axis its elements are, and which elements these are."""
    first, last = max(0, low), min(needed, low + length)
    if first >= last:
        return slice(0, 0), slice(0, 0)
    return slice(first, last), slice(first - low, last - low)


def packed_shape(weight: Shape, block: int) -> Shape:
    """The shape that a weight [groups, o, c, ...] has when packed."""
    groups, outputs, inputs, *kernel = weight
    return (groups, -(-outputs // block), *(kernel[k] for k in _ORDER[len(kernel)]), inputs, block)


@op
class PackedWeight(TileOp):
    """A weight [groups o, c, ...] in the layout of `TileConv`, or, if it is `transposed`, in that of `TileTransposed`.

    Transposed, its channels change their roles, and its places their order.
    """

    groups: int
    block: int
    transposed: bool = False
    name = "packed_weight"

    def grouped(self, weight: TensorType) -> Shape:
        """The lengths that are packed: groups, outputs, inputs, places."""
        outputs, inputs, *kernel = weight.shape
        outputs //= self.groups
        channels = (inputs, outputs) if self.transposed else (outputs, inputs)
        return (self.groups, *channels, *kernel)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """In the type that sums are in."""
        (weight,) = operands
        if weight.ndim < 3 or weight.shape[0] % self.groups:
            raise ShapeError(f"packed_weight: a weight that does not fit{operand_lines(operands)}")
        shape = packed_shape(self.grouped(weight), self.block)
        return (TensorType(shape, accumulator_dtype(weight.dtype), weight.device),)

    def reference(self, *operands: Array) -> Array:
        """Filled up with zeros, cut and put in order."""
        (weight,) = operands
        dtype, rank = dtypes.FROM_NUMPY[weight.dtype], weight.ndim - 2
        weight = weight.astype(accumulator_dtype(dtype).np).reshape(self.groups, -1, *weight.shape[1:])
        if self.transposed:
            weight = np.flip(weight.swapaxes(1, 2), tuple(range(3, 3 + rank)))
        blocks = -(-weight.shape[1] // self.block)
        more = blocks * self.block - weight.shape[1]
        weight = np.pad(weight, ((0, 0), (0, more), *[(0, 0)] * (rank + 1)))
        weight = weight.reshape(self.groups, blocks, self.block, *weight.shape[2:])
        return np.ascontiguousarray(weight.transpose(0, 1, *(4 + k for k in _ORDER[rank]), 3, 2))


def multiplications(node: Node) -> int:
    """How many a tile op takes."""
    if isinstance(node.op, TileWeightGrad):
        x, y = node.operands
        return y.type.numel * math.prod(node.op.kernel) * (x.shape[1] // node.op.groups)
    result = node.result.type.numel * math.prod(node.operands[1].shape[2:-1])
    return result // math.prod(node.op.stride) if isinstance(node.op, TileTransposed) else result


__all__ = [
    "PackedWeight", "TileConv", "TileTransposed", "TileWeightGrad", "kernel_of", "multiplications", "overlap",
    "unpacked_weight_gradient",
]  # fmt: skip
