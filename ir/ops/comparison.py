"""Comparisons and tests of single elements: results are bool, and no gradient passes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..op import Pointwise, op
from ..scalar import Expr, Fn

__all__ = ["Eq", "Ge", "Gt", "IsFinite", "IsInf", "IsNan", "Le", "Lt", "Ne"]


class _Comparison(Pointwise):
    """Two operands of equal type; the result is bool."""

    arity = 2
    promotes = "comparison"
    differentiable = False
    fn: ClassVar[Fn]

    def result_dtype(self, *operands: DType) -> DType:
        """Bool."""
        return dtypes.bool_

    def scalar(self, *xs: Expr) -> Expr:
        """The comparison of that name."""
        return scalar.apply(self.fn, *xs)


@op
class Eq(_Comparison):
    """`x == y`, elementwise; the result is bool. NaN equals nothing.

    >>> import jitgrad as jg
    >>> jg.eq(jg.tensor([1, 2]), jg.tensor([1, 3]))
    tensor([ True, False])
    """

    name = "eq"
    public = ("eq",)
    commutative = True
    ufunc = np.equal
    fn = Fn.EQ


@op
class Ne(_Comparison):
    """`x != y`, elementwise; the result is bool. NaN differs from everything.

    >>> import jitgrad as jg
    >>> jg.ne(jg.tensor([1, 2]), jg.tensor([1, 3]))
    tensor([False,  True])
    """

    name = "ne"
    public = ("ne", "not_equal")
    commutative = True
    ufunc = np.not_equal
    fn = Fn.NE


class _Ordering(_Comparison):
    accepts = ("bool", "int", "float")


@op
class Lt(_Ordering):
    """`x < y`, elementwise; the result is bool, False where either is NaN.

    >>> import jitgrad as jg
    >>> jg.lt(jg.tensor([1, 2]), jg.tensor([2, 2]))
    tensor([ True, False])
    """

    name = "lt"
    public = ("lt", "less")
    ufunc = np.less
    fn = Fn.LT


@op
class Le(_Ordering):
    """`x <= y`, elementwise; the result is bool, False where either is NaN.

    >>> import jitgrad as jg
    >>> jg.le(jg.tensor([1, 3]), jg.tensor([1, 2]))
    tensor([ True, False])
    """

    name = "le"
    public = ("le", "less_equal")
    ufunc = np.less_equal
    fn = Fn.LE


@op
class Gt(_Ordering):
    """`x > y`, elementwise; the result is bool, False where either is NaN.

    >>> import jitgrad as jg
    >>> jg.gt(jg.tensor([1, 3]), jg.tensor([1, 2]))
    tensor([False,  True])
    """

    name = "gt"
    public = ("gt", "greater")
    ufunc = np.greater
    fn = Fn.GT


@op
class Ge(_Ordering):
    """`x >= y`, elementwise; the result is bool, False where either is NaN.

    >>> import jitgrad as jg
    >>> jg.ge(jg.tensor([1, 1]), jg.tensor([1, 2]))
    tensor([ True, False])
    """

    name = "ge"
    public = ("ge", "greater_equal")
    ufunc = np.greater_equal
    fn = Fn.GE


class _Test(Pointwise):
    """One operand; the result is bool. Integers are finite numbers."""

    inplace = False
    differentiable = False

    def result_dtype(self, *operands: DType) -> DType:
        """Bool."""
        return dtypes.bool_

    def scalar(self, *xs: Expr) -> Expr:
        """`test` for floats; for others what holds for every integer."""
        (x,) = xs
        if x.dtype.is_floating_point:
            return self.test(x)
        return scalar.const(isinstance(self, IsFinite), dtypes.bool_)

    def test(self, x: Expr) -> Expr:
        """The test of a float."""
        raise NotImplementedError


@op
class IsNan(_Test):
    """Where elements are NaN; the result is bool. A complex number is NaN if either part is.

    >>> import jitgrad as jg
    >>> jg.isnan(jg.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """

    name = "isnan"
    public = ("isnan",)
    ufunc = np.isnan

    def test(self, x: Expr) -> Expr:
        """NaN differs from itself."""
        return scalar.is_nan(x)


@op
class IsInf(_Test):
    """Where elements are infinite, of either sign; the result is bool.

    >>> import jitgrad as jg
    >>> jg.isinf(jg.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """

    name = "isinf"
    public = ("isinf",)
    ufunc = np.isinf

    def test(self, x: Expr) -> Expr:
        """The absolute value is infinite."""
        return scalar.absolute(x).eq(math.inf)


@op
class IsFinite(_Test):
    """Where elements are neither infinite nor NaN; the result is bool.

    >>> import jitgrad as jg
    >>> jg.isfinite(jg.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """

    name = "isfinite"
    public = ("isfinite",)
    ufunc = np.isfinite

    def test(self, x: Expr) -> Expr:
        """The absolute value is below infinity."""
        return scalar.absolute(x) < math.inf
