"""Evaluates scalar expressions with NumPy, on whole arrays at once: the oracle for every backend's emitter.

Strict where backends may not be: dividing an integer by zero, or shifting by the width or more, is an error
even in lanes that a `select` drops, because machines trap there and LLVM calls it undefined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import special
from .dtypes import DType, converted
from .errors import InternalError
from .scalar import Const, Expr, Fn

_HALF, _HALF_MASK = 1 << 28, (1 << 29) - 1  # of the bits of a float64 number that float32 has no room for

Array = Any
Leaf = Callable[[Expr], Array]


class Evaluator:
    """Evaluates expressions, each shared part once. `leaf` gives the values of leaves other than literals.

    Values are NumPy arrays or scalars of the expression's dtype; arrays broadcast against each other.

        >>> from jitgrad.ir import dtypes, scalar
        >>> x = scalar.arg(0, dtypes.float32)
        >>> Evaluator(lambda leaf: np.array([1.0, 2.0], np.float32))(x * x + 1.0)
        array([2., 5.], dtype=float32)
    """

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.known: dict[Expr, Array] = {}

    def __call__(self, expr: Expr) -> Array:
        """The value of `expr`."""
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self._compute(expr)
        return found

    def _compute(self, expr: Expr) -> Array:
        if isinstance(expr, Const):
            return np.asarray(expr.value, expr.dtype.np)
        if expr.fn is None:
            return self.leaf(expr)
        return apply(expr.fn, [self(a) for a in expr.args], expr.dtype)


class Program:
    """An expression of one argument as a list of steps, for evaluating it often.

    >>> from jitgrad.ir import dtypes, scalar
    >>> x = scalar.arg(0, dtypes.float32)
    >>> Program(x * x + 1.0)(np.array([1.0, 2.0], np.float32))
    array([2., 5.], dtype=float32)
    """

    def __init__(self, expr: Expr) -> None:
        self.initial: list[Array] = []
        self.steps: list[tuple[int, Callable[..., Array], tuple[int, ...]]] = []
        self._places: dict[Expr, int] = {}
        self.result = self._place(expr)

    def _place(self, expr: Expr) -> int:
        """Where the value of `expr` will be."""
        if expr not in self._places:
            places = tuple([self._place(a) for a in expr.args])
            place = self._places[expr] = len(self.initial)
            self.initial.append(np.asarray(expr.value, expr.dtype.np) if isinstance(expr, Const) else None)
            if expr.fn is not None:
                function = _FUNCTIONS.get(expr.fn) or functools.partial(_by_type, expr.fn, dtype=expr.dtype)
                self.steps.append((place, function, places))
        return self._places[expr]

    def __call__(self, x: Array) -> Array:
        """The expression's value where its argument is `x`."""
        values = [x if v is None else v for v in self.initial]
        with np.errstate(all="ignore"):
            for place, function, places in self.steps:
                values[place] = function(*[values[i] for i in places])
        return values[self.result]


def apply(fn: Fn, args: list[Array], dtype: DType) -> Array:
    """One scalar function on arrays of operands, with a result of `dtype`."""
    if fn not in _FUNCTIONS:
        return _by_type(fn, args[0], dtype)
    with np.errstate(all="ignore"):
        out = _FUNCTIONS[fn](*args)
    return np.asarray(out, dtype=dtype.np)


def _by_type(fn: Fn, x: Array, dtype: DType) -> Array:
    """What a value is as another type."""
    if fn is Fn.BITCAST:
        return np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype.np)
    return _convert(x, dtype)


def _convert(x: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return converted(np.asarray(x), dtype)


def _check_divisor(x: Array, y: Array) -> None:
    if y.dtype.kind not in "iu":
        return
    overflows = y.dtype.kind == "i" and np.any((y == -1) & (x == np.iinfo(y.dtype).min))
    if overflows or np.any(y == 0):
        raise InternalError("scalar expression divides an integer by zero, or the lowest integer by -1")


def _divide(x: Array, y: Array) -> Array:
    if y.dtype.kind not in "iu":
        return np.true_divide(x, y)
    _check_divisor(x, y)
    return (x - np.fmod(x, y)) // y


def _remainder(x: Array, y: Array) -> Array:
    _check_divisor(x, y)
    return np.fmod(x, y)


def _check_shift(x: Array, bits: Array) -> None:
    if np.any((bits < 0) | (bits >= 8 * x.dtype.itemsize)):
        raise InternalError("scalar expression shifts by a negative number of bits, or by the width or more")


def _shift_left(x: Array, bits: Array) -> Array:
    _check_shift(x, bits)
    return np.left_shift(x, bits)


def _shift_right(x: Array, bits: Array) -> Array:
    _check_shift(x, bits)
    return np.right_shift(x, bits)


def _shift_right_logical(x: Array, bits: Array) -> Array:
    _check_shift(x, bits)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.astype(unsigned), bits.astype(unsigned)).astype(x.dtype)


def _fma(x: Array, y: Array, z: Array) -> Array:
    """Rounded once in float32 (but for denormal results); nearly always in other types."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    if x.dtype.kind in "iub":
        return x * y + z
    product = np.multiply(x, y, dtype=wide)
    total = np.asarray(product + z)
    if x.dtype == np.float32:
        _to_odd(total, product, z)
    return total.astype(x.dtype)


def _to_odd(total: Array, product: Array, z: Array) -> None:
    """Where a rounded float64 sum is halfway between two float32 numbers, let it tell on which side the sum is."""
    halfway = (total.view(np.int64) & _HALF_MASK) == _HALF
    if halfway.any():
        addend = total - product
        lost = (product - (total - addend)) + (z - addend)  # Knuth's, exact
        outwards = (lost > 0) == (total > 0)
        total.view(np.int64)[...] += np.where(halfway & (lost != 0), np.where(outwards, 1, -1), 0)


def _scale(x: Array, n: Array) -> Array:
    known = ~np.isnan(n)
    return np.where(known, np.ldexp(x, np.where(known, n, 0).astype(np.int32)), n)


_FUNCTIONS: Final[dict[Fn, Callable[..., Array]]] = {
    Fn.ADD: np.add,
    Fn.SUB: np.subtract,
    Fn.MUL: np.multiply,
    Fn.DIV: _divide,
    Fn.REM: _remainder,
    Fn.NEG: np.negative,
    Fn.ABS: np.absolute,
    Fn.FMA: _fma,
    Fn.MIN: np.minimum,
    Fn.MAX: np.maximum,
    Fn.SQRT: np.sqrt,
    Fn.FLOOR: np.floor,
    Fn.CEIL: np.ceil,
    Fn.TRUNC: np.trunc,
    Fn.ROUND: np.rint,
    Fn.COPYSIGN: np.copysign,
    Fn.SCALE: _scale,
    Fn.AND: np.bitwise_and,
    Fn.OR: np.bitwise_or,
    Fn.XOR: np.bitwise_xor,
    Fn.NOT: np.invert,
    Fn.SHL: _shift_left,
    Fn.SHR: _shift_right,
    Fn.LSHR: _shift_right_logical,
    Fn.EQ: np.equal,
    Fn.NE: np.not_equal,
    Fn.LT: np.less,
    Fn.LE: np.less_equal,
    Fn.GT: np.greater,
    Fn.GE: np.greater_equal,
    Fn.SELECT: np.where,
    Fn.EXP: np.exp,
    Fn.EXPM1: np.expm1,
    Fn.LOG: np.log,
    Fn.LOG1P: np.log1p,
    Fn.LOG2: np.log2,
    Fn.SIN: np.sin,
    Fn.COS: np.cos,
    Fn.TAN: np.tan,
    Fn.ASIN: np.arcsin,
    Fn.ACOS: np.arccos,
    Fn.ATAN: np.arctan,
    Fn.ATAN2: np.arctan2,
    Fn.SINH: np.sinh,
    Fn.COSH: np.cosh,
    Fn.TANH: np.tanh,
    Fn.ERF: special.erf,
    Fn.ERFC: special.erfc,
    Fn.POW: np.power,
    Fn.LGAMMA: special.lgamma,
}
