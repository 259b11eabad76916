"""Collects what a kernel refers to (buffers, slots, params) and turns element expressions into loads."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Value
from jitgrad.ir.scalar import Const, Expr, Number
from jitgrad.ir.tracked import Tracked, always_equal
from jitgrad.ir.types import Shape

from ..fuse.element import ZERO, Element, Index, RuntimeNumber, postorder, rebuild
from ..loops.ir import Buffer, Kernel, LoopVar, Stmt, Store, load, param, slot
from ..loops.renumber import renumbered
from ..loops.tile import TileKernel
from .affine import LITERAL_ONE, Affine, Coefficient, affine_of
from .nest import Axis


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Memory that lives between the launches of one step."""

    dtype: DType
    length: int

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.length * self.dtype.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Memory that lives as long as one iteration of a kernel's parallel loop."""

    dtype: DType
    length: int


Operand: TypeAlias = Value | Scratch
AnyKernel: TypeAlias = Kernel | TileKernel

_NANOSECONDS_PER_OPERATION: Final = 0.04  # one lane of a vector instruction, about
_NANOSECONDS_PER_BYTE: Final = 0.08  # memory, one thread


_FIRST_TILE: Final = 1 << 20


def nbytes_of(operand: Operand) -> int:
    """Bytes of a value or of scratch memory."""
    return operand.nbytes if isinstance(operand, Scratch) else operand.type.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A kernel with what it is run on. `extent` is the length of its parallel loop (1 if it has none).

    `operands[i]` is buffer `i`'s memory; `operations` counts about as many as vector instructions would do one lane
    each, `work` is an estimate of the nanoseconds that one thread takes for all of it.
    """

    kernel: AnyKernel
    operands: tuple[Operand, ...]
    slots: tuple[int, ...]
    params: tuple[Number, ...]
    extent: int
    operations: int
    label: str

    @property
    def work(self) -> float:
        """Nanoseconds of one thread, roughly."""
        moved = sum([nbytes_of(o) for o in self.operands])
        return self.operations * _NANOSECONDS_PER_OPERATION + moved * _NANOSECONDS_PER_BYTE


@dataclass(slots=True)
class KernelBuilder:
    """Builds one kernel over the values of a program.

    `in_place` maps a stored value to the value whose memory it takes over: they are one buffer.
    """

    values: Sequence[Value]
    in_place: Mapping[Value, Value] = field(default_factory=dict)
    merged: set[LoopVar] = field(default_factory=set)
    extents: dict[LoopVar, int] = field(default_factory=dict)
    place: dict[LoopVar, Expr] = field(default_factory=dict)  # the group's variables in terms of the kernel's
    flat: tuple[Index, Expr] | None = None  # variables that have been split from one place, and that place
    _buffers: dict[Operand, int] = field(default_factory=dict)
    _tiles: dict[Tile, int] = field(default_factory=dict)
    _read: set[int] = field(default_factory=set)
    _written: set[int] = field(default_factory=set)
    _slots: dict[Hashable, int] = field(default_factory=dict)
    _slot_values: list[int] = field(default_factory=list)
    _params: dict[Hashable, int] = field(default_factory=dict)
    _param_values: list[tuple[Number, DType]] = field(default_factory=list)
    _memo: dict[Expr, Expr] = field(default_factory=dict)

    def shape_of(self, number: int) -> Shape:
        """The shape of value `number`."""
        return self.values[number].shape

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The memory of each buffer so far."""
        return tuple(self._buffers)

    # What a kernel is given at run time

    def buffer(self, operand: Operand) -> int:
        """The buffer of `operand`."""
        if isinstance(operand, Value):
            operand = self.in_place.get(operand, operand)
        return self._buffers.setdefault(operand, len(self._buffers))

    def _scratch_buffer(self, scratch: Scratch | Tile) -> int:
        """The buffer of scratch memory; tiles are numbered from `_FIRST_TILE` on until all others are known."""
        if isinstance(scratch, Scratch):
            return self.buffer(scratch)
        return self._tiles.setdefault(scratch, _FIRST_TILE + len(self._tiles))

    def slot(self, key: Hashable, value: int) -> Expr:
        """A run-time int64. Equal keys are one slot."""
        index = self._slots.get(key)
        if index is None:
            index = self._slots[key] = len(self._slot_values)
            self._slot_values.append(value)
        return slot(index)

    def extent(self, axis: Axis) -> Expr:
        """The length of a loop."""
        return self.slot(("lengths", tuple(v.name for v in axis.variables)), axis.extent)

    def coefficient(self, c: Coefficient) -> Expr:
        """A coefficient as an expression."""
        return scalar.const(c.value) if c.key is None else self.slot(c.key, c.value)

    def _param(self, key: Hashable, value: Number, dtype: DType) -> Expr:
        if dtype is dtypes.int64:
            return self.slot(key, value if isinstance(value, Tracked) and value.terms is not None else int(value))
        index = self._params.get((key, dtype))
        if index is None:
            index = self._params[key, dtype] = len(self._param_values)
            self._param_values.append((value, dtype))
        return param(index, dtype)

    # Expressions

    def use_axes(self, axes: Sequence[Axis]) -> None:
        """Tell which variables have been merged into others."""
        for axis in axes:
            self.merged.update(axis.merged)

    def finish(self, expr: Expr) -> Expr:
        """`expr` with loads for elements, slots and params for run-time numbers."""
        if expr not in self._memo:
            for e in postorder((expr,), _finished_first):
                if e not in self._memo:
                    self._memo[e] = self._finish(e)
        return self._memo[expr]

    def forget(self) -> None:
        """What has been finished so far is of no use: variables are placed anew."""
        self._memo.clear()

    def substitute(self, expr: Expr, finished: Expr) -> None:
        """Finish `expr` as `finished` from now on."""
        self._memo[expr] = finished

    def _finish(self, expr: Expr) -> Expr:
        if isinstance(expr, RuntimeNumber):
            return self._param(("value", expr.key), expr.value, expr.dtype)
        if isinstance(expr, Const):
            if not expr.runtime:
                return expr
            exact = expr.value.hex() if isinstance(expr.value, float) else expr.value
            return self._param(("number", exact), expr.value, expr.dtype)
        if isinstance(expr, LoopVar):
            return self.place.get(expr, expr)
        if isinstance(expr, Element):
            return self._load(expr)
        return rebuild(expr, tuple(self._memo[a] for a in expr.args))

    def _load(self, expr: Element) -> Expr:
        buffer = self.buffer(self.values[expr.number])
        self._read.add(buffer)
        where = self.address(expr.number, expr.index)
        if not expr.masked:
            return load(buffer, expr.dtype, where)
        return load(buffer, expr.dtype, where, self.finish(expr.args[-2]), self.finish(expr.args[-1]))

    def address(self, number: int, index: Index) -> Expr:
        """The flat index of an element of a contiguous value."""
        shape = self.shape_of(number)
        if self.flat is not None and self._is_flat(shape, index):
            return self.flat[1]
        total = Affine()
        stride, whole = LITERAL_ONE, True
        names: tuple[str, ...] = ()
        for place in reversed(range(len(shape))):
            entry, n = index[place], shape[place]
            if entry is ZERO and always_equal(n, 1):
                continue
            if not (isinstance(entry, LoopVar) and entry in self.merged):
                total.add(affine_of(entry, self.finish), stride)
            whole = whole and isinstance(entry, LoopVar) and always_equal(self.extents.get(entry), n)
            if isinstance(entry, LoopVar):
                names = (entry.name, *names)
            key: Hashable = ("lengths", names) if whole else ("stride", number, place)
            stride = Coefficient(stride.value * n, key)
        return self.linear(total)

    def _is_flat(self, shape: Shape, index: Index) -> bool:
        """Whether an index runs through all of a value as `flat` does."""
        assert self.flat is not None
        entries = [(e, n) for e, n in zip(index, shape) if not (e is ZERO and always_equal(n, 1))]
        same = len(entries) == len(self.flat[0]) and all(e is v for (e, _), v in zip(entries, self.flat[0]))
        return same and all(isinstance(e, LoopVar) and always_equal(self.extents.get(e), n) for e, n in entries[1:])

    def linear(self, form: Affine) -> Expr:
        """An affine form as an expression."""
        total: Expr | None = None
        for term, c in form.terms.items():
            if c.is_literal(0):
                continue
            term = self.finish(term) if isinstance(term, LoopVar) else term
            part = term if c.is_literal(1) else term * self.coefficient(c)
            total = part if total is None else total + part
        if total is None or not form.constant.is_literal(0):
            last = self.coefficient(form.constant)
            total = last if total is None else total + last
        return total

    def split(self, position: Expr, axes: Sequence[Axis]) -> None:
        """Place the variables of `axes` at the row-major `position` among them."""
        for axis in reversed(axes[1:]):
            length = self.extent(axis)
            quotient = position / length
            self.place[axis.var] = position - quotient * length
            position = quotient
        if axes:
            self.place[axes[0].var] = position

    def row_major(self, axes: Sequence[Axis]) -> Expr:
        """The row-major position among `axes`."""
        position: Expr | None = None
        for axis in axes:
            here = self.finish(axis.var)
            position = here if position is None else position * self.extent(axis) + here
        return scalar.const(0) if position is None else position

    def length(self, axes: Sequence[Axis]) -> Expr:
        """How many positions `axes` have."""
        total = 1
        for axis in axes:
            total *= axis.extent
        return self.slot(("length", tuple(a.var.name for a in axes)), total)

    # Memory

    def store(self, number: int, index: Index, value: Expr) -> Store:
        """A store to an element of a value."""
        buffer = self.buffer(self.values[number])
        self._written.add(buffer)
        return Store(buffer, self.address(number, index), value)

    def store_scratch(self, scratch: Scratch | Tile, index: Expr, value: Expr) -> Store:
        """A store to scratch memory."""
        buffer = self._scratch_buffer(scratch)
        self._written.add(buffer)
        return Store(buffer, index, value)

    def load_scratch(self, scratch: Scratch | Tile, index: Expr) -> Expr:
        """A load from scratch memory."""
        buffer = self._scratch_buffer(scratch)
        self._read.add(buffer)
        return load(buffer, scratch.dtype, index)

    def launch(self, body: Sequence[Stmt], extent: int, operations: int, label: str) -> Launch:
        """The finished kernel and its operands."""
        buffers = tuple(
            Buffer(operand.dtype if isinstance(operand, Scratch) else operand.type.dtype, self._role(i))
            for operand, i in self._buffers.items()
        )
        if self._tiles:
            buffers += tuple(Buffer(t.dtype, "local", t.length) for t in self._tiles)
            body = renumbered(body, {n: len(self._buffers) + k for k, n in enumerate(self._tiles.values())})
        kernel = Kernel(buffers, len(self._slot_values), tuple(d for _, d in self._param_values), tuple(body))
        numbers = tuple(v for v, _ in self._param_values)
        return Launch(kernel, tuple(self._buffers), tuple(self._slot_values), numbers, extent, operations, label)

    def _role(self, buffer: int) -> str:
        if buffer not in self._written:
            return "in"
        return "inout" if buffer in self._read else "out"


def _finished_first(expr: Expr) -> tuple[Expr, ...]:
    """The arguments that become part of the finished expression as they are; indices become addresses as a whole."""
    return expr.args[len(expr.index) :] if isinstance(expr, Element) else expr.args
