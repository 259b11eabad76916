"""Scans along an axis: `CumSum`, `CumProd`, and `LinearScan`, the recurrence that their gradients need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, ScanOp, Values, op
from ..scalar import Expr
from ..types import TensorType
from .arithmetic import Mul
from .broadcast import accumulator_dtype
from .complex import conj
from .creation import Full
from .slicing import Concat, Slice

__all__ = ["CumProd", "CumSum", "LinearScan"]


class _Scan(ScanOp):
    """Each result is made of the elements up to it along `axis`."""

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Numbers of one type, with that axis. Bools are converted by the frontend."""
        first = operands[0]
        for t in operands:
            if t.shape != first.shape:
                raise ShapeError(f"{self.name}: operand shapes differ{operand_lines(operands)}")
            if t.dtype is not first.dtype:
                raise DTypeError(f"{self.name}: operand dtypes differ{operand_lines(operands)}")
        if not 0 <= self.axis < first.ndim:
            raise ShapeError(f"{self.name}: axis {self.axis} is not among {first.ndim} axes{operand_lines(operands)}")
        if first.dtype.kind == "bool":
            raise DTypeError(f"{self.name}: not defined for bool{operand_lines(operands)}")
        return (first,)

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """Zero, in the type of sums."""
        return (scalar.const(0, accumulator_dtype(dtype)),)

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The first accumulator."""
        return scalar.convert(accumulators[0], dtype)

    def _wide(self, x: Array) -> Array:
        return x.astype(accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np)


def _shifted(b: Builder, x: Value, axis: int, forward: bool, fill: float) -> Value:
    """`x` moved by one place along `axis`, forward or back, with `fill` where nothing comes from."""
    length = x.shape[axis]
    if length == 0:
        return x
    edge_shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    edge = b(Full(edge_shape, x.type.dtype, fill, x.type.device))
    starts = tuple(0 if a != axis or forward else 1 for a in range(x.ndim))
    sizes = tuple(n - 1 if a == axis else n for a, n in enumerate(x.shape))
    kept = b(Slice(starts, sizes, (1,) * x.ndim), x)
    return b(Concat(axis), edge, kept) if forward else b(Concat(axis), kept, edge)


@op
class CumSum(_Scan):
    """The sums of all elements up to each one along `axis`; from the other end if `reverse`.

    Half types are summed in float32; integers wrap.
    """

    axis: int
    reverse: bool = False
    name = "cumsum"

    def step(self, accumulators: tuple[Expr, ...], elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """One more in the sum."""
        (total,), (x,) = accumulators, elements
        return (total + scalar.convert(x, total.dtype),)

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The sum of both."""
        return (left[0] + right[0],)

    def reference(self, *operands: Array) -> Array:
        """`numpy.cumsum`."""
        (x,) = operands
        wide = self._wide(x)
        with np.errstate(all="ignore"):
            if not self.reverse:
                return np.cumsum(wide, axis=self.axis, dtype=wide.dtype).astype(x.dtype)
            turned = np.cumsum(np.flip(wide, self.axis), axis=self.axis, dtype=wide.dtype)
            return np.flip(turned, self.axis).astype(x.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The sums from the other end."""
        (g,) = cotangents
        assert g is not None
        return (b(CumSum(self.axis, not self.reverse), g),)


@op
class LinearScan(_Scan):
    """The recurrence `s[i] = a[i] s[i-1] + x[i]` along `axis`, from nothing; backwards if `reverse`.

    Its gradient is a linear recurrence again. Half types are kept in float32 on the way.

    >>> LinearScan(0).reference(np.array([0.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]))
    array([ 1.,  3., 10.])
    """

    axis: int
    reverse: bool = False
    name = "linear_scan"

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The state, and whether there is one yet: the first factor counts for nothing, whatever it is."""
        return (*super().initial(dtype), scalar.const(False, dtypes.bool_))

    def step(self, accumulators: tuple[Expr, ...], elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """One step of the recurrence."""
        state, begun = accumulators
        a, x = (scalar.convert(e, state.dtype) for e in elements)
        return scalar.where(begun, a * state + x, x), scalar.const(True, dtypes.bool_)

    def reference(self, *operands: Array) -> Array:
        """One step after another, on whole slices."""
        a, x = (np.moveaxis(self._wide(v), self.axis, 0) for v in operands)
        out = np.empty_like(x)
        state = np.zeros(x.shape[1:], x.dtype)
        order = range(len(x))
        with np.errstate(all="ignore"):
            for i in reversed(order) if self.reverse else order:
                state = x[i] if i == (len(x) - 1 if self.reverse else 0) else a[i] * state + x[i]
                out[i] = state
        return np.moveaxis(out, 0, self.axis).astype(operands[0].dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The recurrence run back over the cotangent; for the factors, that times the state before each."""
        (g,) = cotangents
        assert g is not None
        following = _shifted(b, operands[0], self.axis, self.reverse, 0.0)
        gx = b(LinearScan(self.axis, not self.reverse), conj(b, following), g)
        if not needs[0]:
            return None, gx
        before = _shifted(b, results[0], self.axis, not self.reverse, 0.0)
        return b(Mul(), gx, conj(b, before)), gx if needs[1] else None


@op
class CumProd(_Scan):
    """The products of all elements up to each one along `axis`. Half types are multiplied in float32.

    The gradient never divides, so that zeros are no special case.
    """

    axis: int
    name = "cumprod"
    copies_on_write = True

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """One."""
        return (scalar.const(1, accumulator_dtype(dtype)),)

    def step(self, accumulators: tuple[Expr, ...], elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """One more in the product."""
        (product,), (x,) = accumulators, elements
        return (product * scalar.convert(x, product.dtype),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.cumprod`."""
        (x,) = operands
        wide = self._wide(x)
        with np.errstate(all="ignore"):
            return np.cumprod(wide, axis=self.axis, dtype=wide.dtype).astype(x.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The product before each element times what follows, which is a recurrence from the end."""
        (g,) = cotangents
        assert g is not None
        following = _shifted(b, operands[0], self.axis, False, 0.0)
        after = b(LinearScan(self.axis, True), conj(b, following), g)
        before = _shifted(b, results[0], self.axis, True, 1.0)
        return (b(Mul(), after, conj(b, before)),)
