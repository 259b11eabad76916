"""Sliding windows: `Windows`, a view that shows them, and its transpose `Fold`, which adds them up."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import ArgumentError, ShapeError, operand_lines
from ..op import Array, Cotangents, IndexMap, Load, Values, View, op
from ..scalar import Expr, Fn
from ..types import Shape, TensorType
from .broadcast import accumulator_dtype

__all__ = ["Fold", "Windows", "window_count"]

_MAX_TERMS = 64  # a generated kernel for `Fold` writes out every window that may cover an element


def window_count(length: int, size: int, step: int, dilation: int) -> int:
    """How many windows fit into `length`: 0 if not even one does.

    >>> window_count(5, 3, 1, 1), window_count(5, 3, 2, 2), window_count(2, 3, 1, 1)
    (3, 1, 0)
    """
    return max(0, (length - dilation * (size - 1) - 1) // step + 1)


def _check(name: str, axes: tuple[int, ...], *numbers: tuple[int, ...]) -> None:
    if len(set(axes)) != len(axes) or any(len(n) != len(axes) for n in numbers):
        raise ArgumentError(f"{name}: sizes, steps and dilations must be given for each of the axes {list(axes)}")
    if any(v < 1 for values in numbers for v in values):
        raise ArgumentError(f"{name}: sizes, steps and dilations must be 1 or more: {[list(n) for n in numbers]}")


@op
class Windows(View):
    """Windows of `sizes` elements along `axes`, `steps` apart, their elements `dilations` apart.

    The axes hold the windows' numbers; the windows' own axes come last, in the order of `axes`.

    >>> import numpy as np
    >>> Windows((0,), (3,), (1,), (1,)).reference(np.arange(5))
    array([[0, 1, 2],
           [1, 2, 3],
           [2, 3, 4]])
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    name = "windows"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Positive sizes, steps and dilations, and room for a window along each axis."""
        (x,) = operands
        _check(self.name, self.axes, self.sizes, self.steps, self.dilations)
        for axis, size, dilation in zip(self.axes, self.sizes, self.dilations, strict=True):
            if not 0 <= axis < x.ndim:
                raise ShapeError(f"windows: axis {axis} is not among {x.ndim} axes{operand_lines(operands)}")
            extent = dilation * (size - 1) + 1
            if extent > x.shape[axis]:
                raise ShapeError(
                    f"windows: axis {axis} has length {x.shape[axis]}, a window needs {extent}{operand_lines(operands)}"
                )
        return (x.with_shape(self.shape_of(x.shape)),)

    def shape_of(self, shape: Shape) -> Shape:
        """The result's shape for an operand of `shape`."""
        counts = list(shape)
        for axis, size, step, dilation in zip(self.axes, self.sizes, self.steps, self.dilations, strict=True):
            counts[axis] = window_count(shape[axis], size, step, dilation)
        return (*counts, *self.sizes)

    def reference(self, *operands: Array) -> Array:
        """The same memory with other strides."""
        (x,) = operands
        return np.lib.stride_tricks.as_strided(x, self.shape_of(x.shape), self._strides(x.strides))

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """The same in one step, of arrays that lie without gaps."""
        wanted = self.shape_of(shape)

        def show(x: Array) -> Array:
            if not x.flags.c_contiguous or x.dtype.kind == "V":  # bfloat16 has no buffers
                return self.reference(x)
            return np.ndarray(wanted, x.dtype, x, 0, self._strides(x.strides))

        return show if math.prod(wanted) else self.reference

    def _strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Those of the windows in memory that has `strides`."""
        outer = list(strides)
        for axis, step in zip(self.axes, self.steps, strict=True):
            outer[axis] *= step
        return (*outer, *[strides[a] * d for a, d in zip(self.axes, self.dilations, strict=True)])

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at `window * step + place * dilation`."""
        (load,) = operands
        position = list(index[: load.type.ndim])
        inner = index[load.type.ndim :]
        for axis, place, step, dilation in zip(self.axes, inner, self.steps, self.dilations, strict=True):
            position[axis] = _scaled(position[axis], step) + _scaled(place, dilation)
        return load(tuple(position))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The windows added up."""
        (g,) = cotangents
        assert g is not None
        lengths = tuple(operands[0].shape[a] for a in self.axes)
        return (b(Fold(lengths, self.axes, self.sizes, self.steps, self.dilations), g),)


def _scaled(index: Expr, factor: int) -> Expr:
    return index if factor == 1 else index * factor


@op
class Fold(IndexMap):
    """Windows put back and added up where they overlap: the transpose of `Windows`.

    `lengths` are those of the result along `axes`. Half types are summed in float32.

    >>> import numpy as np
    >>> Fold((4,), (0,), (3,), (1,), (1,)).reference(np.ones((2, 3)))
    array([1., 2., 2., 1.])
    """

    lengths: tuple[int, ...]
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    name = "fold"
    batchable = True

    @property
    def windows(self) -> Windows:
        """The view that this op transposes."""
        return Windows(self.axes, self.sizes, self.steps, self.dilations)

    def _shape(self, shape: Shape) -> Shape:
        result = list(shape[: len(shape) - len(self.axes)])
        for axis, length in zip(self.axes, self.lengths, strict=True):
            result[axis] = length
        return tuple(result)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The operand has the shape that windows of the result have."""
        (x,) = operands
        _check(self.name, self.axes, self.sizes, self.steps, self.dilations)
        if x.ndim < 2 * len(self.axes) or any(not 0 <= a < x.ndim - len(self.axes) for a in self.axes):
            raise ShapeError(f"fold: axes {list(self.axes)} do not fit{operand_lines(operands)}")
        result = x.with_shape(self._shape(x.shape))
        (want,) = self.windows.infer(result)
        if want.shape != x.shape:
            raise ShapeError(f"fold: windows of {result} have shape {list(want.shape)}{operand_lines(operands)}")
        return (result,)

    def reference(self, *operands: Array) -> Array:
        """One addition per place in the window."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        out = np.zeros(self._shape(x.shape), wide)
        region = self.windows.reference(out)
        with np.errstate(all="ignore"):
            for place in np.ndindex(*self.sizes):
                region[(..., *place)] += x[(..., *place)]
        return out.astype(x.dtype, copy=False)

    def can_emit(self, *operands: TensorType) -> bool:
        """Real dtypes, and not too many windows over one element."""
        terms = 1
        for size, step, dilation in zip(self.sizes, self.steps, self.dilations, strict=True):
            terms *= size if dilation > 1 else -(-size // step)
        return terms <= _MAX_TERMS and super().can_emit(*operands)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The sum of the elements of all windows that cover the index."""
        (load,) = operands
        choices = [
            _covering(index[axis], load.type.shape[axis], *numbers)
            for axis, *numbers in zip(self.axes, self.sizes, self.steps, self.dilations, strict=True)
        ]
        wide = accumulator_dtype(load.type.dtype)
        terms = []
        for choice in itertools.product(*choices):
            position = list(index)
            for axis, (_, window, _) in zip(self.axes, choice, strict=True):
                position[axis] = window
            mask = scalar.every(c for conditions, _, _ in choice for c in conditions)
            places = (place for _, _, place in choice)
            terms.append(scalar.convert(load((*position, *places), mask), wide))
        return scalar.convert(functools.reduce(operator.add, terms), load.type.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The windows of the cotangent."""
        (g,) = cotangents
        assert g is not None
        return (b(self.windows, g),)


def _covering(position: Expr, count: int, size: int, step: int, dilation: int) -> list[tuple[list[Expr], Expr, Expr]]:
    """The windows along one axis that may cover `position`: conditions, the window, and the place in it.

    Without dilation those are the last to start at or before the position and the ones in front of it;
    otherwise each place in the window is tried. Places come in rising order, as in the reference.
    """
    found = []
    if dilation == 1:
        last = position if step == 1 else position / step
        first_place = scalar.const(0) if step == 1 else scalar.apply(Fn.REM, position, step)
        for back in range(-(-size // step)):
            window = last - back if back else last
            place = first_place + back * step if back else first_place
            conditions = [window < scalar.size(count)]
            if back:
                conditions.append(window >= 0)
            if (back + 1) * step > size:
                conditions.append(place < size)
            found.append((conditions, window, place))
        return found
    for i in range(size):
        offset = position - i * dilation if i else position
        window = offset if step == 1 else offset / step
        conditions = [window < scalar.size(count)]
        if i:
            conditions.append(offset >= 0)
        if step > 1:
            conditions.append(scalar.apply(Fn.REM, offset, step).eq(0))
        found.append((conditions, window, scalar.const(i)))
    return found
