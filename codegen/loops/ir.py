"""The loop-level IR: one kernel as loops, scalar accumulators and stores over the scalar language of `ir.scalar`.

    kernel ::= buffers slots params body
    stmt   ::= Loop | Init | Update | Store
    leaves ::= LoopVar | Slot | Param | Load | AccRef      (besides the scalar language's own)

A kernel's text holds no sizes: every extent, stride, offset and user's number is a run-time `Slot` (int64) or
`Param` (a scalar), so that one kernel serves every shape of its structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Const, Expr, intern_expr


class LoopVar(Expr):
    """The current index of the loop of that name (int64)."""

    __slots__ = ("name",)
    name: str

    def __str__(self) -> str:
        return self.name


class Slot(Expr):
    """Run-time int64 number `index`: an extent, a stride, an offset."""

    __slots__ = ("index",)
    index: int

    def __str__(self) -> str:
        return f"s{self.index}"


class Param(Expr):
    """Run-time scalar number `index`: a user's constant."""

    __slots__ = ("index",)
    index: int

    def __str__(self) -> str:
        return f"p{self.index}"


class AccRef(Expr):
    """The current value of accumulator `index`."""

    __slots__ = ("index",)
    index: int

    def __str__(self) -> str:
        return f"acc{self.index}"


class Load(Expr):
    """Element `args[0]` (flat, in elements) of buffer `buffer`.

    With `args = (index, mask, fill)`: where `mask` is false nothing is read and `fill` is given.
    """

    __slots__ = ("buffer",)
    buffer: int

    def __str__(self) -> str:
        extra = "".join(f", {a}" for a in self.args[1:])
        return f"b{self.buffer}[{self.args[0]}{extra}]"


def loop_var(name: str) -> LoopVar:
    """The loop variable called `name`."""
    return intern_expr(LoopVar, dtypes.int64, name=name)  # type: ignore[no-any-return]


def slot(index: int) -> Slot:
    """Slot number `index`."""
    return intern_expr(Slot, dtypes.int64, index=index)  # type: ignore[no-any-return]


def param(index: int, dtype: DType) -> Param:
    """Param number `index`."""
    return intern_expr(Param, dtype, index=index)  # type: ignore[no-any-return]


def acc_ref(index: int, dtype: DType) -> AccRef:
    """Accumulator number `index`."""
    return intern_expr(AccRef, dtype, index=index)  # type: ignore[no-any-return]


def load(buffer: int, dtype: DType, index: Expr, mask: Expr | None = None, fill: Expr | None = None) -> Load:
    """An element of a buffer, masked if `mask` is given."""
    args = (index,) if mask is None or fill is None else (index, mask, fill)
    return intern_expr(Load, dtype, args=args, buffer=buffer)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A kernel operand in memory. `role`: "in", "out", "inout", or "local" (scratch of `length` elements).

    A buffer that is written overlaps no other buffer of the kernel; an operand updated in place is one "inout".
    """

    dtype: DType
    role: str
    length: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in range(start, stop)`.

    `kind`: "parallel" (only outermost; the launcher hands out sub-ranges), "serial", "vector" (iterations are
    independent, or fold into accumulators by associative and commutative updates, and should become SIMD), or
    "parallel_vector" (both, for a kernel that is one flat loop). A vector loop may hold serial loops, whose bounds are
    then the same for all lanes.
    """

    var: LoopVar
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    kind: str = "serial"


@dataclass(frozen=True, slots=True)
class Init:
    """Declares accumulator `index` in the enclosing scope with a starting value."""

    index: int
    value: Expr


@dataclass(frozen=True, slots=True)
class Update:
    """Sets accumulators at once: `acc[indices[i]] = values[i]`, all values computed before any is set."""

    indices: tuple[int, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`; `index` is flat, in elements."""

    buffer: int
    index: Expr
    value: Expr


Stmt: TypeAlias = Loop | Init | Update | Store


@dataclass(frozen=True, slots=True)
class Kernel:
    """A complete kernel. Equal structure gives equal text, and so one compilation."""

    buffers: tuple[Buffer, ...]
    slots: int
    params: tuple[DType, ...]
    body: tuple[Stmt, ...]
    _hash: int = field(init=False, repr=False, compare=False)  # it goes through all of the body, and is asked for often

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.buffers, self.slots, self.params, self.body)))

    def __hash__(self) -> int:
        return self._hash


__all__ = [
    "AccRef", "Buffer", "Const", "Expr", "Init", "Kernel", "Load", "Loop", "LoopVar", "Param", "Slot", "Stmt", "Store",
    "Update", "acc_ref", "load", "loop_var", "param", "slot",
]  # fmt: skip
