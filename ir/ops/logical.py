"""Truth values and bits: logical ops on any dtype (zero is false), bitwise ops and shifts on integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..op import Pointwise, op
from ..scalar import Expr, Fn

__all__ = [
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "LogicalAnd", "LogicalNot", "LogicalOr",
    "LogicalXor", "ShiftLeft", "ShiftRight",
]  # fmt: skip


class _Logical(Pointwise):
    """Operands of any dtype are taken as true where they are not zero; the result is bool."""

    arity = 2
    promotes = "comparison"
    commutative = True
    numbers = "none"
    differentiable = False
    fn: ClassVar[Fn]

    def result_dtype(self, *operands: DType) -> DType:
        """Bool."""
        return dtypes.bool_

    def scalar(self, *xs: Expr) -> Expr:
        """The function on truth values."""
        return scalar.apply(self.fn, *(x if x.dtype.kind == "bool" else x.ne(0) for x in xs))


@op
class LogicalAnd(_Logical):
    """Where both `x` and `y` are non-zero, elementwise; the result is bool.

    >>> import jitgrad as jg
    >>> jg.logical_and(jg.tensor([0, 1, 2]), jg.tensor([1, 0, 3]))
    tensor([False, False,  True])
    """

    name = "logical_and"
    public = ("logical_and",)
    ufunc = np.logical_and
    fn = Fn.AND


@op
class LogicalOr(_Logical):
    """Where `x` or `y` is non-zero, elementwise; the result is bool.

    >>> import jitgrad as jg
    >>> jg.logical_or(jg.tensor([0, 1, 0]), jg.tensor([1, 0, 0]))
    tensor([ True,  True, False])
    """

    name = "logical_or"
    public = ("logical_or",)
    ufunc = np.logical_or
    fn = Fn.OR


@op
class LogicalXor(_Logical):
    """Where exactly one of `x` and `y` is non-zero, elementwise; the result is bool.

    >>> import jitgrad as jg
    >>> jg.logical_xor(jg.tensor([0, 1, 2]), jg.tensor([1, 0, 3]))
    tensor([ True,  True, False])
    """

    name = "logical_xor"
    public = ("logical_xor",)
    ufunc = np.logical_xor
    fn = Fn.XOR


@op
class LogicalNot(_Logical):
    """Where `x` is zero, elementwise; the result is bool.

    >>> import jitgrad as jg
    >>> jg.logical_not(jg.tensor([0, 1, 2]))
    tensor([ True, False, False])
    """

    arity = 1
    name = "logical_not"
    public = ("logical_not",)
    ufunc = np.logical_not
    fn = Fn.NOT


class _Bitwise(Pointwise):
    """Bits of integers; on bool the logical meaning."""

    arity = 2
    promotes = "bitwise"
    commutative = True
    numbers = "either"
    accepts = ("bool", "int")
    differentiable = False
    fn: ClassVar[Fn]

    def scalar(self, *xs: Expr) -> Expr:
        """The scalar function of that name."""
        return scalar.apply(self.fn, *xs)


@op
class BitwiseAnd(_Bitwise):
    """The bits set in both `x` and `y`, elementwise.

    >>> import jitgrad as jg
    >>> jg.bitwise_and(jg.tensor([6, 7]), jg.tensor([3, 4]))
    tensor([2, 4])
    """

    name = "bitwise_and"
    public = ("bitwise_and",)
    ufunc = np.bitwise_and
    fn = Fn.AND


@op
class BitwiseOr(_Bitwise):
    """The bits set in `x` or `y`, elementwise.

    >>> import jitgrad as jg
    >>> jg.bitwise_or(jg.tensor([6, 8]), jg.tensor([3, 1]))
    tensor([7, 9])
    """

    name = "bitwise_or"
    public = ("bitwise_or",)
    ufunc = np.bitwise_or
    fn = Fn.OR


@op
class BitwiseXor(_Bitwise):
    """The bits set in one of `x` and `y` alone, elementwise.

    >>> import jitgrad as jg
    >>> jg.bitwise_xor(jg.tensor([6, 8]), jg.tensor([3, 1]))
    tensor([5, 9])
    """

    name = "bitwise_xor"
    public = ("bitwise_xor",)
    ufunc = np.bitwise_xor
    fn = Fn.XOR


@op
class BitwiseNot(_Bitwise):
    """All bits turned over, elementwise; on bool the logical "not".

    >>> import jitgrad as jg
    >>> jg.bitwise_not(jg.tensor([0, 5]))
    tensor([-1, -6])
    """

    arity = 1
    name = "bitwise_not"
    public = ("bitwise_not",)
    ufunc = np.invert
    fn = Fn.NOT


class _Shift(Pointwise):
    """The first operand's bits moved by the second's number of places."""

    arity = 2
    promotes = "bitwise"
    accepts = ("int",)
    numbers = "either"
    differentiable = False


def _in_width(bits: Expr) -> Expr:
    """Whether a shift moves by 0 or more places, and by fewer than there are."""
    width: int = 8 * bits.dtype.itemsize
    fits = bits < width
    return (bits >= 0) & fits if bits.dtype.is_signed else fits


@op
class ShiftLeft(_Shift):
    """`x` shifted left by `y` bits, elementwise; by its width or more, or by less than 0, gives 0.

    >>> import jitgrad as jg
    >>> jg.bitwise_left_shift(jg.tensor([1, 3]), jg.tensor([2, 1]))
    tensor([4, 6])
    """

    name = "shift_left"
    public = ("bitwise_left_shift",)
    ufunc = np.left_shift

    def scalar(self, *xs: Expr) -> Expr:
        """A shift, guarded."""
        x, bits = xs
        fits = _in_width(bits)
        return scalar.where(fits, x << scalar.where(fits, bits, 0), 0)


@op
class ShiftRight(_Shift):
    """`x` shifted right by `y` bits, elementwise, keeping the sign.

    By its width or more, or by less than 0, gives 0, or -1 of a negative number.

    >>> import jitgrad as jg
    >>> jg.bitwise_right_shift(jg.tensor([8, -8]), jg.tensor([2, 1]))
    tensor([ 2, -4])
    """

    name = "shift_right"
    public = ("bitwise_right_shift",)
    ufunc = np.right_shift

    def scalar(self, *xs: Expr) -> Expr:
        """A shift; by all bits but one where there are too many."""
        x, bits = xs
        all_but_one = 8 * x.dtype.itemsize - 1
        fits = _in_width(bits)
        shifted = x >> scalar.where(fits, bits, all_but_one)
        return shifted if x.dtype.is_signed else scalar.where(fits, shifted, 0)
