"""Pulling one element of a value through the graph: the expression that computes it out of elements in memory.

`Puller.element(value, index)` inlines pointwise ops and index maps until it meets values that live in memory, which
appear as `Element` leaves: a value's number and one index expression per axis. Flattening to addresses comes later,
once loops are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value
from jitgrad.ir.op import IndexMap, Pointwise
from jitgrad.ir.scalar import Const, Expr, Number, intern_expr
from jitgrad.ir.types import TensorType

from ..loops import walk as loops_walk
from ..loops.ir import Load, load, loop_var

Index = tuple[Expr, ...]


class Element(Expr):
    """The element of value `number` at `args[:rank]`; with `masked`, two more arguments are mask and fill."""

    __slots__ = ("masked", "number")
    number: int
    masked: bool

    @property
    def index(self) -> Index:
        """One expression per axis."""
        return self.args[:-2] if self.masked else self.args

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.index))
        tail = f" if {self.args[-2]} else {self.args[-1]}" if self.masked else ""
        return f"v{self.number}[{inner}]{tail}"

    __repr__ = __str__


class RuntimeNumber(Expr):
    """A user's number. `key` tells numbers apart that happen to be equal, so that a kernel's text does not."""

    __slots__ = ("key", "value")
    key: int
    value: Number

    def __str__(self) -> str:
        return f"${self.value}"

    __repr__ = __str__


def element(number: int, dtype: DType, index: Index, mask: Expr | None = None, fill: Expr | None = None) -> Element:
    """An element in memory."""
    masked = mask is not None and fill is not None
    args = index if mask is None or fill is None else (*index, mask, fill)
    return intern_expr(Element, dtype, args=args, number=number, masked=masked)  # type: ignore[no-any-return]


def canonical_index(rank: int) -> Index:
    """The index variables in which every root's expression is written."""
    return tuple(loop_var(f"d{k}") for k in range(rank))


class ValueLoad:
    """What an op's `element` is given for one operand: see `ir.op.Load`."""

    __slots__ = ("_puller", "_value", "_within")

    def __init__(self, puller: Puller, value: Value, within: Expr | None) -> None:
        self._puller = puller
        self._value = value
        self._within = within

    @property
    def type(self) -> TensorType:
        """The operand's type."""
        return self._value.type

    def __call__(self, index: Sequence[Expr], mask: Expr | None = None, fill: Number | None = None) -> Expr:
        """The element at `index`, guarded by the masks around it."""
        pulled = self._puller.element(self._value, tuple(index), both(self._within, mask))
        if mask is None:
            return pulled
        filler = scalar.const(fill or 0, pulled.dtype)
        if isinstance(pulled, Element) and pulled.masked and self._within is None:
            return element(pulled.number, pulled.dtype, pulled.index, mask, filler)
        return scalar.where(mask, pulled, filler)


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """The conjunction of two masks, None meaning true."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


class Puller:
    """Inlines values until `number_of` names one that lives in memory."""

    def __init__(self, number_of: Callable[[Value], int | None], key_of: Callable[[Value], int]) -> None:
        self._number_of = number_of
        self._key_of = key_of
        self._memo: dict[tuple[Value, Index, Expr | None], Expr] = {}

    def element(self, value: Value, index: Index, mask: Expr | None = None) -> Expr:
        """The element of `value` at `index`; nothing is read where `mask` is false."""
        number = self._number_of(value)
        if number is not None:
            fill = None if mask is None else scalar.const(0, value.type.dtype)
            return element(number, value.type.dtype, index, mask, fill)
        key = (value, index, mask)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.compute(value, index, mask)
        return found

    def compute(self, value: Value, index: Index, mask: Expr | None = None) -> Expr:
        """The element by the op that defines `value`, even where it lives in memory."""
        node = value.node
        if node is None or not isinstance(node.op, (Pointwise, IndexMap)):
            raise InternalError(f"value {value!r} has no element rule and no place in memory")
        made = node.op.element(index, [ValueLoad(self, v, mask) for v in node.operands])
        if isinstance(made, Const) and made.runtime:
            key = self._key_of(value)
            made = intern_expr(RuntimeNumber, made.dtype, key=key, value=made.value)
        return made


def rebuild(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """`expr` with other arguments."""
    if all(a is b for a, b in zip(args, expr.args)):
        return expr
    if isinstance(expr, Element):
        return intern_expr(Element, expr.dtype, args=args, number=expr.number, masked=expr.masked)  # type: ignore[no-any-return]
    if isinstance(expr, Load):
        return load(expr.buffer, expr.dtype, *args)
    return intern_expr(Expr, expr.dtype, expr.fn, args)  # type: ignore[no-any-return]


def arguments(expr: Expr) -> tuple[Expr, ...]:
    """All arguments."""
    return expr.args


def postorder(roots: Iterable[Expr], inner: Callable[[Expr], Iterable[Expr]] = arguments) -> list[Expr]:
    """Every distinct expression reached from `roots` through `inner`, what is reached before what it is reached from.

    Without recursion: fused chains of ops are deeper than Python's stack.
    """
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack = list(roots)[::-1]
    while stack:
        expr = stack[-1]
        if expr not in seen:
            missing = [a for a in inner(expr) if a not in seen]
            if missing:
                stack += missing[::-1]
                continue
            seen.add(expr)
            order.append(expr)
        stack.pop()
    return order


def walk(expr: Expr) -> list[Expr]:
    """Every distinct sub-expression once, arguments before what uses them."""
    return loops_walk.postorder((expr,))


ZERO = scalar.const(0)
