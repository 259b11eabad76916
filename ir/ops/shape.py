"""Ops that rearrange axes without computing: `Reshape`, `Permute` and `Flip`. All are bijective views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import ShapeError, operand_lines
from ..op import Array, Cotangents, Load, Op, Values, View, op
from ..scalar import Expr, Fn
from ..tracked import happens_to_be, now
from ..types import Shape, TensorType

__all__ = ["Flip", "Permute", "Reshape", "moved_axis_permutation"]

_ZERO = scalar.const(0)
_TRUE = scalar.const(True, dtypes.bool_)


@op
class Reshape(View):
    """The operand's elements in row-major order, in another shape of as many elements.

    >>> import jitgrad as jg
    >>> jg.arange(6).reshape(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """

    shape: Shape
    name = "reshape"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As many elements as before."""
        (x,) = operands
        if math.prod(self.shape) != x.numel or any(n < 0 for n in self.shape):
            raise ShapeError(
                f"reshape: {x.numel} elements do not fit shape {list(self.shape)}{operand_lines(operands)}"
            )
        return (x.with_shape(self.shape),)

    def reference(self, *operands: Array) -> Array:
        """A view where the strides allow it, else a copy."""
        return operands[0].reshape(self.shape)

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """The same, from C."""
        return methodcaller("reshape", self.shape)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The operand's element at the same row-major position."""
        (load,) = operands
        return load(_reshaped_index(index, self.shape, load.type.shape))

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """The same row-major position in the result."""
        return _TRUE, _reshaped_index(index, operand.shape, self.shape)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent in the operand's shape."""
        (g,) = cotangents
        assert g is not None
        return (b(Reshape(operands[0].shape), g),)


def _reshaped_index(index: Sequence[Expr], shape: Shape, other: Shape) -> tuple[Expr, ...]:
    """The index in `other` of the element that has `index` in `shape`, when both hold the same sequence.

    Axes are matched in the smallest groups of equal length, so that only axes that are split or merged take
    part in arithmetic, and merged ones give affine expressions.
    """
    out = [_ZERO] * len(other)
    if any(happens_to_be(n, 0) for n in shape):
        return tuple(out)
    for mine, theirs in _axis_groups(shape, other):
        position = _linear([index[a] for a in mine], [shape[a] for a in mine])
        lengths = [other[a] for a in theirs]
        for axis, expr in zip(theirs, _split(position, lengths), strict=True):
            out[axis] = expr
    return tuple(out)


def _axis_groups(a: Shape, b: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs of shortest runs of axes of `a` and of `b` with equal products; axes of length 1 are left out."""
    rest_a = [i for i, n in enumerate(a) if not happens_to_be(n, 1)]
    rest_b = [i for i, n in enumerate(b) if not happens_to_be(n, 1)]
    groups = []
    while rest_a:
        mine, theirs = [rest_a.pop(0)], [rest_b.pop(0)]
        left, right = a[mine[0]], b[theirs[0]]
        while not happens_to_be(left, right):
            if now(left) < now(right):
                mine.append(rest_a.pop(0))
                left *= a[mine[-1]]
            else:
                theirs.append(rest_b.pop(0))
                right *= b[theirs[-1]]
        groups.append((mine, theirs))
    return groups


def _linear(index: Sequence[Expr], lengths: Sequence[int]) -> Expr:
    """The row-major position of `index`."""
    position = index[-1]
    stride = lengths[-1]
    for i, n in zip(reversed(index[:-1]), reversed(lengths[:-1]), strict=True):
        position = i * scalar.size(stride) + position
        stride *= n
    return position


def _split(position: Expr, lengths: Sequence[int]) -> list[Expr]:
    """The row-major index of `position`."""
    index: list[Expr] = []
    for n in reversed(lengths[1:]):
        index.append(scalar.apply(Fn.REM, position, scalar.size(n)))
        position = position / scalar.size(n)
    return [position, *reversed(index)]


@op
class Permute(View):
    """The axes in another order: result axis `i` is the operand's axis `perm[i]`.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3, 4).permute(2, 0, 1).shape
    jitgrad.Size([4, 2, 3])
    """

    perm: tuple[int, ...]
    name = "permute"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`perm` names each axis once."""
        (x,) = operands
        if sorted(self.perm) != list(range(x.ndim)):
            raise ShapeError(f"permute: {list(self.perm)} is no order of {x.ndim} axes{operand_lines(operands)}")
        return (x.with_shape(tuple(x.shape[a] for a in self.perm)),)

    def shifted(self, size: int) -> Op:
        """The axes in front stay there."""
        return Permute((0, *[a + 1 for a in self.perm]))

    def reference(self, *operands: Array) -> Array:
        """`numpy.transpose`."""
        return operands[0].transpose(self.perm)

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """The same, from C."""
        return methodcaller("transpose", self.perm)

    def inverse(self) -> Permute:
        """The permutation that undoes this one."""
        back = [0] * len(self.perm)
        for i, a in enumerate(self.perm):
            back[a] = i
        return Permute(tuple(back))

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element whose index is permuted back."""
        return operands[0](tuple(index[i] for i in self.inverse().perm))

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """The permuted index."""
        return _TRUE, tuple(index[a] for a in self.perm)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent permuted back."""
        (g,) = cotangents
        assert g is not None
        return (b(self.inverse(), g),)


def moved_axis_permutation(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    """The permutation that puts axis `source` at `destination` and leaves the others in order.

    >>> moved_axis_permutation(4, 1, 3)
    (0, 2, 3, 1)
    """
    rest = [i for i in range(ndim) if i != source]
    return (*rest[:destination], source, *rest[destination:])


@op
class Flip(View):
    """The elements in reverse order along `axes`.

    >>> import jitgrad as jg
    >>> jg.arange(3).flip(0)
    tensor([2, 1, 0])
    """

    axes: tuple[int, ...]
    name = "flip"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Axes within range, each named once."""
        (x,) = operands
        if len(set(self.axes)) != len(self.axes) or any(not 0 <= a < x.ndim for a in self.axes):
            raise ShapeError(f"flip: axes {list(self.axes)} do not fit {x.ndim} axes{operand_lines(operands)}")
        return (x,)

    def reference(self, *operands: Array) -> Array:
        """Basic indexing; `numpy.flip` would turn a 0-d array into a number."""
        (x,) = operands
        back = (slice(None, None, -1 if a in self.axes else 1) for a in range(x.ndim))
        return x[(*back, ...)]

    def _flipped(self, index: tuple[Expr, ...], shape: Shape) -> tuple[Expr, ...]:
        return tuple(
            scalar.size(n - 1) - i if a in self.axes else i for a, (i, n) in enumerate(zip(index, shape, strict=True))
        )

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at the mirrored index."""
        (load,) = operands
        return load(self._flipped(index, load.type.shape))

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """The mirrored index."""
        return _TRUE, self._flipped(index, operand.shape)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent flipped back."""
        (g,) = cotangents
        assert g is not None
        return (b(self, g),)
