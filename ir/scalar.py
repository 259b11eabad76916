"""The scalar language: what happens to one element, written once and implemented by each backend.

A pointwise op gives its meaning as an expression over this closed set of functions (`Fn`), and so
do index maps (int64 expressions over loop indices). Backends translate `Fn` one by one: NumPy for the
interpreter, LLVM for the CPU, libdevice for CUDA. Expressions are interned: equal ones are the same object.

    >>> from jitgrad.ir import dtypes, scalar
    >>> x = scalar.arg(0, dtypes.float32)
    >>> print(scalar.tanh(x * 2.0) + 1.0)
    (tanh((%0 * 2.0)) + 1.0)
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Hashable, Iterable
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from . import dtypes
from .dtypes import DType
from .tracked import Tracked

Number: TypeAlias = "bool | int | float"
Operand: TypeAlias = "Expr | bool | int | float"


class Fn(enum.Enum):
    """The scalar functions every backend implements. Integer arithmetic wraps at the dtype's width."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"  # floats: IEEE; integers: towards zero, divisor must not be 0
    REM = "rem"  # sign of the dividend (C fmod, srem)
    NEG = "neg"
    ABS = "abs"
    FMA = "fma"
    MIN = "min"  # NaN if either operand is NaN
    MAX = "max"
    SQRT = "sqrt"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"  # half to even
    COPYSIGN = "copysign"
    SCALE = "scale"  # x * 2**n rounded once; n is whole, |n| at most twice the exponent of the smallest normal
    AND = "&"
    OR = "|"
    XOR = "^"
    NOT = "not"  # bitwise; logical on bool
    SHL = "<<"
    SHR = ">>"  # arithmetic on signed, logical on unsigned
    LSHR = ">>>"  # logical always
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    SELECT = "select"
    CONVERT = "convert"  # value conversion; float to integer truncates, to bool tests != 0
    BITCAST = "bitcast"  # same width
    EXP = "exp"
    EXPM1 = "expm1"
    LOG = "log"
    LOG1P = "log1p"
    LOG2 = "log2"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ERF = "erf"
    ERFC = "erfc"
    POW = "pow"
    LGAMMA = "lgamma"

    __hash__ = object.__hash__  # by identity, as members are compared: enum's own goes by the name, in Python


COMPARISONS: Final = frozenset({Fn.EQ, Fn.NE, Fn.LT, Fn.LE, Fn.GT, Fn.GE})
MATH: Final = frozenset(list(Fn)[list(Fn).index(Fn.EXP) :])
_INFIX: Final = frozenset(
    {Fn.ADD, Fn.SUB, Fn.MUL, Fn.DIV, Fn.AND, Fn.OR, Fn.XOR, Fn.SHL, Fn.SHR, Fn.LSHR} | COMPARISONS
)
_TABLE: WeakValueDictionary[Hashable, Expr] = WeakValueDictionary()


class Expr:
    """A scalar expression: a leaf (subclass) or `fn` applied to `args`. Interned, so `is` compares."""

    __slots__ = ("__weakref__", "args", "dtype", "fn")
    fn: Fn | None
    args: tuple[Expr, ...]
    dtype: DType

    def __add__(self, other: Operand) -> Expr:
        return apply(Fn.ADD, self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply(Fn.ADD, lift(other, self.dtype), self)

    def __sub__(self, other: Operand) -> Expr:
        return apply(Fn.SUB, self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply(Fn.SUB, lift(other, self.dtype), self)

    def __mul__(self, other: Operand) -> Expr:
        return apply(Fn.MUL, self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply(Fn.MUL, lift(other, self.dtype), self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply(Fn.DIV, self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply(Fn.DIV, lift(other, self.dtype), self)

    def __neg__(self) -> Expr:
        return apply(Fn.NEG, self)

    def __and__(self, other: Operand) -> Expr:
        return apply(Fn.AND, self, other)

    def __or__(self, other: Operand) -> Expr:
        return apply(Fn.OR, self, other)

    def __xor__(self, other: Operand) -> Expr:
        return apply(Fn.XOR, self, other)

    def __invert__(self) -> Expr:
        return apply(Fn.NOT, self)

    def __lshift__(self, other: Operand) -> Expr:
        return apply(Fn.SHL, self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return apply(Fn.SHR, self, other)

    def __lt__(self, other: Operand) -> Expr:
        return apply(Fn.LT, self, other)

    def __le__(self, other: Operand) -> Expr:
        return apply(Fn.LE, self, other)

    def __gt__(self, other: Operand) -> Expr:
        return apply(Fn.GT, self, other)

    def __ge__(self, other: Operand) -> Expr:
        return apply(Fn.GE, self, other)

    def eq(self, other: Operand) -> Expr:
        """Elementwise equality (`==` is identity, because expressions are interned)."""
        return apply(Fn.EQ, self, other)

    def ne(self, other: Operand) -> Expr:
        """Elementwise inequality."""
        return apply(Fn.NE, self, other)

    def __str__(self) -> str:
        assert self.fn is not None
        if self.fn in _INFIX:
            return f"({self.args[0]} {self.fn.value} {self.args[1]})"
        inner = ", ".join(map(str, self.args))
        if self.fn in (Fn.CONVERT, Fn.BITCAST):
            return f"{self.fn.value}.{self.dtype.short}({inner})"
        return f"{self.fn.value}({inner})"

    __repr__ = __str__


class Const(Expr):
    """A literal. `runtime` marks numbers of the user or of a shape, which kernels take as parameters."""

    __slots__ = ("runtime", "value")
    value: Number
    runtime: bool

    def __str__(self) -> str:
        return f"{self.value}" if not self.runtime else f"${self.value}"

    __repr__ = __str__


class Arg(Expr):
    """The element of operand number `index`."""

    __slots__ = ("index",)
    index: int

    def __str__(self) -> str:
        return f"%{self.index}"

    __repr__ = __str__


def intern_expr(cls: type[Any], dtype: DType, fn: Fn | None = None, args: tuple[Expr, ...] = (), **fields: Any) -> Any:
    """The one expression of class `cls` with this content (leaf fields must be hashable)."""
    key: Hashable = (cls, dtype, fn, args)
    if fields:
        key = (key, *[(k, type(v), _exact(v)) for k, v in fields.items()])
    found = _TABLE.get(key)
    if found is not None:
        return found
    made: Any = object.__new__(cls)
    made.fn, made.args, made.dtype = fn, args, dtype
    for k, v in fields.items():
        setattr(made, k, v)
    return _TABLE.setdefault(key, made)


def _exact(value: Any) -> Hashable:
    return value.hex() if type(value) is float else value  # tells -0.0 from 0.0, and NaN equals NaN


def const(value: Number, dtype: DType = dtypes.int64, runtime: bool = False) -> Expr:
    """A literal of `dtype`."""
    kind = {"bool": bool, "int": int, "float": float}[dtype.kind]
    held = value if runtime and isinstance(value, Tracked) else kind(value)
    return intern_expr(Const, dtype, value=held, runtime=runtime)  # type: ignore[no-any-return]


def size(value: int) -> Expr:
    """An int64 that depends on a shape: kernels take it as a parameter, so that they serve every shape."""
    return const(value, dtypes.int64, runtime=True)


def arg(index: int, dtype: DType) -> Expr:
    """The element of operand `index`."""
    return intern_expr(Arg, dtype, index=index)  # type: ignore[no-any-return]


def lift(value: Operand, dtype: DType) -> Expr:
    """`value` itself, or a literal of `dtype`."""
    return value if isinstance(value, Expr) else const(value, dtype)


def apply(fn: Fn, *operands: Operand, dtype: DType | None = None) -> Expr:
    """`fn` of the operands; Python numbers become literals of the first expression's dtype."""
    first = next(x for x in operands if isinstance(x, Expr))
    args = tuple(lift(x, first.dtype) for x in operands)
    if dtype is None:
        dtype = dtypes.bool_ if fn in COMPARISONS else first.dtype
    return intern_expr(Expr, dtype, fn, args)  # type: ignore[no-any-return]


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where the bool `condition` holds, else `b`."""
    other = a if isinstance(a, Expr) else b
    if not isinstance(other, Expr):
        raise TypeError("where: one branch must be an expression")
    a, b = lift(a, other.dtype), lift(b, other.dtype)
    return intern_expr(Expr, a.dtype, Fn.SELECT, (condition, a, b))  # type: ignore[no-any-return]


def convert(x: Expr, dtype: DType) -> Expr:
    """The value of `x` as `dtype`."""
    return x if x.dtype is dtype else intern_expr(Expr, dtype, Fn.CONVERT, (x,))


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The bits of `x` read as `dtype` of the same width."""
    return x if x.dtype is dtype else intern_expr(Expr, dtype, Fn.BITCAST, (x,))


def every(conditions: Iterable[Expr]) -> Expr:
    """True where all of the bool `conditions` hold; literal True ones are left out."""
    true = const(True, dtypes.bool_)
    distinct = [c for c in dict.fromkeys(conditions) if c is not true]
    return functools.reduce(lambda a, c: a & c, distinct) if distinct else true


def fma(a: Operand, b: Operand, c: Operand) -> Expr:
    """`a * b + c` rounded once."""
    return apply(Fn.FMA, a, b, c)


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller, or NaN if either is."""
    return apply(Fn.MIN, a, b)


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger, or NaN if either is."""
    return apply(Fn.MAX, a, b)


def is_nan(x: Expr) -> Expr:
    """True for NaN."""
    return x.ne(x)


def lshr(x: Expr, bits: Operand) -> Expr:
    """Logical right shift."""
    return apply(Fn.LSHR, x, bits)


def absolute(x: Expr) -> Expr:
    """|x|."""
    return apply(Fn.ABS, x)


def sqrt(x: Expr) -> Expr:
    """The square root."""
    return apply(Fn.SQRT, x)


def floor(x: Expr) -> Expr:
    """Rounded towards minus infinity."""
    return apply(Fn.FLOOR, x)


def exp(x: Expr) -> Expr:
    """e to the x."""
    return apply(Fn.EXP, x)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    return apply(Fn.LOG, x)


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent."""
    return apply(Fn.TANH, x)
