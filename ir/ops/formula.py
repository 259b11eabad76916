"""`Term`: IR values with Python's operators, so that decompositions and gradient rules read as formulas."""

from __future__ import annotations

from dataclasses import dataclass

from ..builder import Builder
from ..dtypes import DType
from ..graph import Value
from ..op import Op
from ..types import Shape
from .arithmetic import Add, Div, Mul, Neg, Sub
from .broadcast import BroadcastTo, Sum, expand_reduced
from .comparison import Ge, Gt, Le, Lt
from .creation import full_like
from .select import Convert, Where

__all__ = ["Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """A value and the builder that its uses are appended to. Numbers take the value's shape and dtype.

    >>> from jitgrad.ir import dtypes
    >>> from jitgrad.ir.types import TensorType
    >>> b = Builder()
    >>> x = Term(b, b.input(TensorType((3,), dtypes.float32)))
    >>> (1 - x * x).value.node.op
    sub
    """

    b: Builder
    value: Value

    def lift(self, other: Term | float) -> Value:
        """The other's value, or the number in this one's shape and dtype."""
        return other.value if isinstance(other, Term) else full_like(self.b, self.value, other)

    def like(self, number: float) -> Term:
        """The number in this one's shape and dtype."""
        return Term(self.b, full_like(self.b, self.value, number))

    def apply(self, op: Op, *others: Term | float) -> Term:
        """`op` of this term and the others."""
        return Term(self.b, self.b(op, self.value, *map(self.lift, others)))

    def __add__(self, other: Term | float) -> Term:
        return self.apply(Add(), other)

    def __radd__(self, other: float) -> Term:
        return self.apply(Add(), other)

    def __sub__(self, other: Term | float) -> Term:
        return self.apply(Sub(), other)

    def __rsub__(self, other: float) -> Term:
        return Term(self.b, self.b(Sub(), self.lift(other), self.value))

    def __mul__(self, other: Term | float) -> Term:
        return self.apply(Mul(), other)

    def __rmul__(self, other: float) -> Term:
        return self.apply(Mul(), other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.apply(Div(), other)

    def __rtruediv__(self, other: float) -> Term:
        return Term(self.b, self.b(Div(), self.lift(other), self.value))

    def __neg__(self) -> Term:
        return self.apply(Neg())

    def __gt__(self, other: Term | float) -> Term:
        return self.apply(Gt(), other)

    def __ge__(self, other: Term | float) -> Term:
        return self.apply(Ge(), other)

    def __lt__(self, other: Term | float) -> Term:
        return self.apply(Lt(), other)

    def __le__(self, other: Term | float) -> Term:
        return self.apply(Le(), other)

    def choose(self, yes: Term | float, no: Term | float) -> Term:
        """`yes` where this bool term holds, else `no`; at least one of them is a term."""
        like = yes if isinstance(yes, Term) else no
        assert isinstance(like, Term)
        return Term(self.b, self.b(Where(), self.value, like.lift(yes), like.lift(no)))

    def convert(self, dtype: DType) -> Term:
        """As `dtype`."""
        return self if self.value.type.dtype is dtype else self.apply(Convert(dtype))

    def sum(self, *axes: int) -> Term:
        """The sum over `axes`, which stay with length 1."""
        return self.apply(Sum(axes, True))

    def expand(self, shape: Shape) -> Term:
        """Repeated to `shape`."""
        return self.apply(BroadcastTo(shape))

    def expand_axis(self, axis: int, shape: Shape) -> Term:
        """Repeated along `axis`, which is not there yet, to `shape`."""
        return Term(self.b, expand_reduced(self.b, self.value, (axis,), False, shape))
