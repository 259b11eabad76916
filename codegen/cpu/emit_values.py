"""Expressions, loads and stores of a kernel as LLVM values, each emitted once at the outermost place it may stand.

Every loop opens a `Scope` that remembers the values emitted in it. An expression goes to the outermost scope in which
none of its inputs changes; expressions with loads leave a loop, but not the test whether it runs at all, so that
nothing is read that the kernel would not read anyway. Updates and stores drop the values they make stale.

In a vector loop a value exists in up to two forms: for all lanes (`lanes > 1`), and for the first lane
(`lanes == 1`), from which consecutive addresses are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Const, Expr

from ..loops import walk
from ..loops.analysis import ANY_LOAD, Dependencies, Dependency, moved_parts, step, stride
from ..loops.ir import AccRef, Kernel, Load, LoopVar, Param, Slot, Store
from . import abi
from . import emit_convert as conv
from . import emit_types as types
from . import llvm_ir as ir
from .emit_math import math_function
from .emit_scalar import constant, divide_lanes, emit_fn, intrinsic, type_suffix
from .emit_stream import Streams, store_past_caches
from .emit_types import I1, I8, I32, I64, POINTER, memory_type, register_type, splat_constant, vector_of
from .options import EmitOptions

Key: TypeAlias = tuple[Expr, int]


@dataclass(slots=True)
class Accumulator:
    """Where an accumulator lives: a stack cell that LLVM turns into registers."""

    cell: ir.Value
    dtype: DType
    lanes: int
    outer: bool = False  # a vector loop's partial result of an accumulator declared around it


@dataclass(frozen=True, slots=True)
class Chosen:
    """Elements next to each other in memory: where the loop's index, or its negative, is that of the first from
    `address`; with `moves` it is `index & moves`, which is 0 where there is one value for all lanes."""

    address: ir.Value
    dtype: DType
    stride: int
    moves: ir.Value | None


@dataclass(slots=True)
class Scope:
    """One nesting level of emitted code; `before` is the block at whose end code of the parent scope goes.

    A loop opens two: one that is `guarded`, entered when the loop runs at all, and in it one for its body.
    """

    parent: Scope | None = None
    changes: frozenset[Dependency] = frozenset()
    before: ir.Block | None = None
    guarded: bool = False
    lanes: int = 1
    vector: LoopVar | None = None
    mask: ir.Value | None = None
    whole: ir.Value | None = None  # whether the mask is true everywhere, if that is known
    values: dict[Key, ir.Value] = field(default_factory=dict)
    chosen: dict[Expr, Chosen] = field(default_factory=dict)  # choices that are one load here
    accumulators: dict[int, Accumulator] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class ValueEmitter:
    """Emits the expressions of one kernel into one function."""

    def __init__(self, module: ir.Module, symbol: str, kernel: Kernel, options: EmitOptions) -> None:
        self.kernel = kernel
        self.options = options
        self.dependencies = Dependencies(walk.stored_buffers(kernel.body))
        signature = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, I64])
        self.function = ir.Function(module, signature, symbol)
        self.function.attributes.add("nounwind")
        self.function.align_stack = options.vector_bits // 8  # else spilled vectors straddle cache lines
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.scope = Scope()
        self.streams: Streams | None = None
        self.pointers = self._buffer_pointers()

    def _buffer_pointers(self) -> list[ir.Value]:
        b, table = self.builder, iter(range(len(self.kernel.buffers)))
        pointers: list[ir.Value] = []
        for buffer in self.kernel.buffers:
            if buffer.role == "local":
                storage = ir.ArrayType(memory_type(buffer.dtype, 1), buffer.length)
                cell = b.alloca(storage)
                cell.align = 64
                pointers.append(cell)
            else:
                address = b.gep(self.function.args[0], [I64(next(table))], source_etype=POINTER)
                pointers.append(b.load(address, typ=POINTER))
        return pointers

    # Scopes

    @contextmanager
    def _at(self, home: Scope) -> Iterator[None]:
        """Emit at the current end of `home`, which is just before the scope opened in it."""
        if home is self.scope:
            yield
            return
        child = next(s for s in self.scope.chain() if s.parent is home)
        assert child.before is not None
        with self._at_end_of(child.before):
            yield

    @contextmanager
    def _at_end_of(self, block: ir.Block) -> Iterator[None]:
        """Emit at the end of `block`, before its terminator if it has one; then go on where we were."""
        came_from = self.builder.block
        self._go_to(block)
        yield
        self._go_to(came_from)

    def _go_to(self, block: ir.Block) -> None:
        if block.is_terminated:
            self.builder.position_before_end(block)
        else:
            self.builder.position_at_end(block)

    def _home(self, deps: frozenset[Dependency]) -> Scope:
        """The outermost scope where an expression with these dependencies may be emitted."""
        scope = self.scope
        while scope.parent is not None and not (scope.changes & deps):
            if scope.guarded and ANY_LOAD in deps:
                break
            scope = scope.parent
        return scope

    def forget(self, changed: frozenset[Dependency]) -> None:
        """Drop every remembered value that reads something in `changed`."""
        for scope in self.scope.chain():
            stale = [k for k in scope.values if self.dependencies.of(k[0]) & changed]
            for key in stale:
                del scope.values[key]

    def accumulator(self, index: int) -> Accumulator:
        """The cell of accumulator `index` in the innermost scope that declares it."""
        for scope in self.scope.chain():
            if index in scope.accumulators:
                return scope.accumulators[index]
        raise InternalError(f"accumulator {index} used before its Init")

    def alloca(self, type_: ir.Type) -> ir.Value:
        """A stack cell, in the entry block as LLVM's promotion to registers wants it."""
        with self._at_end_of(self.function.entry_basic_block):
            return self.builder.alloca(type_)

    # Expressions

    def value(self, expr: Expr, lanes: int) -> ir.Value:
        """The value of `expr` on `lanes` lanes, emitted unless it is there already."""
        found = self._lookup(expr, lanes)
        if found is None:
            for e in self._missing(expr, lanes):
                found = self._place(e, lanes)
            assert found is not None
        return found

    def _lookup(self, expr: Expr, lanes: int) -> ir.Value | None:
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype, lanes)
        key, scope = (expr, lanes), self.scope
        while (value := scope.values.get(key)) is None and scope.parent is not None:
            scope = scope.parent
        return value

    def _missing(self, root: Expr, lanes: int) -> list[Expr]:
        """What must be emitted for `root`, operands first; indices of loads are left to the loads."""
        seen: set[Expr] = set()
        order: list[Expr] = []
        stack = [(root, False)]
        while stack:
            expr, done = stack.pop()
            if done:
                order.append(expr)
            elif expr not in seen and self._lookup(expr, lanes) is None:
                seen.add(expr)
                stack.append((expr, True))
                if lanes > 1 and expr in self.scope.chosen:
                    continue
                if lanes == 1 or self._is_varying(expr):
                    operands = expr.args[1:] if isinstance(expr, Load) else expr.args
                    stack.extend((a, False) for a in reversed(operands))
        return order

    def _place(self, expr: Expr, lanes: int) -> ir.Value:
        found = self._lookup(expr, lanes)
        if found is not None:
            return found
        home = self._home(self.dependencies.of(expr))
        uniform = None
        if lanes > 1 and not self._is_varying(expr):
            uniform = self.value(expr, 1)
        with self._at(home):
            value = self._emit(expr, lanes) if uniform is None else types.splat(self.builder, uniform, lanes)
        home.values[expr, lanes] = value
        return value

    def _is_varying(self, expr: Expr) -> bool:
        """Whether lanes of the current vector loop may see different values of `expr`."""
        if self.scope.vector is None:
            return False
        for dependency in self.dependencies.of(expr):
            kind, name = dependency
            if kind == "loop" and name == self.scope.vector.name:
                return True
            if kind == "acc" and self.accumulator(int(name)).lanes > 1:
                return True
        return False

    def _emit(self, expr: Expr, lanes: int) -> ir.Value:
        b = self.builder
        if lanes > 1 and expr in self.scope.chosen:
            return conv.from_memory(b, self._chosen_raw(self.scope.chosen[expr], lanes), expr.dtype, lanes)
        match expr:
            case LoopVar():
                first = self.value(expr, 1)
                return b.add(types.splat(b, first, lanes), types.ramp_constant(I64, range(lanes)))
            case Slot(index=index):
                return b.load(b.gep(self.function.args[1], [I64(index)], source_etype=I64), typ=I64)
            case Param(index=index):
                cell = b.gep(self.function.args[2], [I64(abi.PARAM_CELL * index)], source_etype=I8)
                raw = b.load(cell, typ=memory_type(expr.dtype, 1), align=expr.dtype.itemsize)
                return conv.from_memory(b, raw, expr.dtype, 1)
            case AccRef(index=index):
                acc = self.accumulator(index)
                return b.load(acc.cell, typ=register_type(acc.dtype, acc.lanes))
            case Load():
                return self._load(expr, lanes)
        return self._apply(expr, [self.value(a, lanes) for a in expr.args], lanes)

    def _apply(self, expr: Expr, args: list[ir.Value], lanes: int) -> ir.Value:
        fn = expr.fn
        if fn is None:
            raise InternalError(f"leaf {expr!r} has no place in a kernel")
        operand = expr.args[1 if fn is scalar.Fn.SELECT else 0].dtype
        if fn in scalar.MATH or (fn is scalar.Fn.REM and lanes > 1 and operand.is_floating_point):
            return self._math(expr, args, lanes)
        if fn in (scalar.Fn.DIV, scalar.Fn.REM) and lanes > 1 and self._divides_in_float(expr):
            return divide_lanes(self.builder, fn, operand, args, lanes)
        return emit_fn(self.builder, fn, operand, expr.dtype, args, lanes, not self.options.strict)

    def _divides_in_float(self, expr: Expr) -> bool:
        """Whether an integer division's operands are surely below 2**53: narrow types, and indices."""
        if expr.dtype.is_floating_point:
            return False
        if expr.dtype.itemsize < 8:
            return True
        is_index = not any(isinstance(e, Load | Param | AccRef) for e in walk.postorder([expr]))
        return is_index and self.options.masked_tails  # which says that int64 converts in vectors

    def _math(self, expr: Expr, args: list[ir.Value], lanes: int) -> ir.Value:
        """A call of a mathematical function; half types go through float32."""
        assert expr.fn is not None
        dtype, half = expr.dtype, expr.dtype in types.HALF_TYPES
        computed = dtypes.float32 if half else dtype
        function = math_function(self.builder.module, expr.fn, computed, lanes, self.options.scales)
        inline = "alwaysinline" if lanes > 1 else "noinline"  # what runs one at a time may cost a call
        result = self.builder.call(function, args, attrs=(inline,))
        return conv.round_to_half(self.builder, result, dtype, lanes) if half else result

    # Memory

    def _address(self, buffer: int, index: ir.Value) -> ir.Value:
        element = memory_type(self.kernel.buffers[buffer].dtype, 1)
        return self.builder.gep(self.pointers[buffer], [index], source_etype=element)

    def _load(self, expr: Load, lanes: int) -> ir.Value:
        mask = self.value(expr.args[1], lanes) if len(expr.args) == 3 else None
        fill = self.value(expr.args[2], lanes) if len(expr.args) == 3 else None
        loaded = conv.from_memory(self.builder, self._load_raw(expr, mask, lanes), expr.dtype, lanes)
        return loaded if mask is None or fill is None else self.builder.select(mask, loaded, fill)

    def _load_raw(self, expr: Load, mask: ir.Value | None, lanes: int) -> ir.Value:
        return self._load_one(expr, mask) if lanes == 1 else self._load_lanes(expr, mask, lanes)

    def _in_memory(self, expr: Expr, lanes: int) -> ir.Value:
        """A value as it is in memory: where it comes from there, it is not converted to and fro."""
        dtype, b = expr.dtype, self.builder
        parts = moved_parts(expr) if dtype in types.HALF_TYPES or dtype is dtypes.bool_ else frozenset()
        if not parts:
            return conv.to_memory(b, self.value(expr, lanes), dtype, lanes)
        found: dict[Expr, ir.Value] = {}
        for e in self._as_they_are(expr, parts, lanes):
            if lanes > 1 and e in self.scope.chosen:
                found[e] = self._chosen_raw(self.scope.chosen[e], lanes)
            elif self._is_whole(e, lanes):
                found[e] = conv.to_memory(b, self.value(e, lanes), dtype, lanes)
            elif isinstance(e, Load):
                mask = self.value(e.args[1], lanes) if len(e.args) == 3 else None
                raw = self._load_raw(e, mask, lanes)
                found[e] = raw if mask is None else b.select(mask, raw, found[e.args[2]])
            else:
                found[e] = b.select(self.value(e.args[0], lanes), found[e.args[1]], found[e.args[2]])
        return found[expr]

    def _as_they_are(self, root: Expr, parts: frozenset[Expr], lanes: int) -> list[Expr]:
        """The parts of a moved value that have to be emitted, operands first."""
        needed, stack = {root}, [root]
        while stack:
            e = stack.pop()
            if not (lanes > 1 and e in self.scope.chosen) and not self._is_whole(e, lanes):
                more = [a for a in e.args if a in parts and a not in needed]
                needed.update(more)
                stack += more
        return [e for e in walk.postorder([root]) if e in needed]

    def _is_whole(self, e: Expr, lanes: int) -> bool:
        """Whether a part of a moved value is a number, or known, or the same in all lanes."""
        return not e.args or self._lookup(e, lanes) is not None or (lanes > 1 and not self._is_varying(e))

    def bits(self, expr: Load, lanes: int) -> ir.Value:
        """What a load finds in memory, as it is there; nothing where it is masked."""
        return self._load_lanes(expr, self.value(expr.args[1], lanes) if len(expr.args) == 3 else None, lanes)

    def _load_one(self, expr: Load, mask: ir.Value | None) -> ir.Value:
        b, memory = self.builder, memory_type(expr.dtype, 1)
        address = self._address(expr.buffer, self.value(expr.args[0], 1))
        if mask is not None:  # where nothing may be read, read a cell of our own
            cell = self.alloca(memory)
            b.store(ir.Constant(memory, None), cell)
            address = b.select(mask, address, cell)
        return b.load(address, typ=memory, align=expr.dtype.itemsize)

    def _load_lanes(self, expr: Load, mask: ir.Value | None, lanes: int) -> ir.Value:
        b, memory = self.builder, memory_type(expr.dtype, lanes)
        step = self._stride(expr.args[0])
        active = self._both(mask, self.scope.mask)
        if step == 1:
            address = self._address(expr.buffer, self.value(expr.args[0], 1))
            if active is None:
                return b.load(address, typ=memory, align=expr.dtype.itemsize)
            if mask is not None:
                address = self._readable(address, expr, active)
            return self._masked("load", memory, [address, I32(expr.dtype.itemsize), active, _zeros(memory)])
        if step == -1 and active is None:
            last = b.sub(self.value(expr.args[0], 1), I64(lanes - 1))
            return self._load_reversed(self._address(expr.buffer, last), expr.dtype, lanes)
        apart = self._step(expr.args[0]) if active is None else None
        if apart is not None:
            return self._one_by_one(expr, self.value(apart, 1), memory)
        index = self.value(expr.args[0], lanes)
        if mask is None and self.scope.mask is not None:  # idle lanes read what the first reads
            first = types.splat(b, b.extract_element(index, I32(0)), lanes)
            index, active = b.select(self.scope.mask, index, first), None
        every = active or splat_constant(I1, 1, lanes)
        pointers = self._address(expr.buffer, index)
        return self._masked("gather", memory, [pointers, I32(expr.dtype.itemsize), every, _zeros(memory)])

    def _load_reversed(self, address: ir.Value, dtype: DType, lanes: int) -> ir.Value:
        b, memory = self.builder, memory_type(dtype, lanes)
        whole = b.load(address, typ=memory, align=dtype.itemsize)
        order = types.lane_order(tuple(reversed(range(lanes))))
        return b.shuffle_vector(whole, types.undefined(memory), order)

    def _chosen_raw(self, chosen: Chosen, lanes: int) -> ir.Value:
        b, dtype = self.builder, chosen.dtype
        assert self.scope.vector is not None
        index = self.value(self.scope.vector, 1)
        if chosen.moves is not None:
            index = b.and_(index, chosen.moves)
        if chosen.stride == -1:
            index = b.sub(I64(0), index)
        address = b.gep(chosen.address, [index], source_etype=memory_type(dtype, 1))
        if chosen.stride == -1:
            raw = self._load_reversed(address, dtype, lanes)
        else:
            raw = b.load(address, typ=memory_type(dtype, lanes), align=dtype.itemsize)
        return raw

    def _one_by_one(self, expr: Load, apart: ir.Value, memory: ir.Type) -> ir.Value:
        """Elements at equal distances: as many loads, which many processors do in a third of a gather's time."""
        b, dtype = self.builder, expr.dtype
        one = memory_type(dtype, 1)
        address = self._address(expr.buffer, self.value(expr.args[0], 1))
        found: ir.Value = types.undefined(memory)
        for lane in range(memory.count):
            if lane:
                address = b.gep(address, [apart], source_etype=one)
            found = b.insert_element(found, b.load(address, typ=one, align=dtype.itemsize), I32(lane))
        return found

    def _readable(self, address: ir.Value, expr: Load, active: ir.Value) -> ir.Value:
        """`address`, or the buffer's own where no lane is active.

        Reading nothing of a page that isn't there is no fault, but processors take hundreds of cycles to find out.
        """
        b, bits = self.builder, ir.IntType(active.type.count)
        some = b.icmp_signed("!=", b.bitcast(active, bits), bits(0))
        return b.select(some, address, self.pointers[expr.buffer])

    def store(self, stmt: Store, lanes: int) -> None:
        """Emit `buffer[index] = value` for the active lanes."""
        b, dtype = self.builder, self.kernel.buffers[stmt.buffer].dtype
        raw = self._in_memory(stmt.value, lanes)
        mask = self.scope.mask if lanes > 1 else None
        if lanes == 1 or self._stride(stmt.index) == 1:
            address = self._address(stmt.buffer, self.value(stmt.index, 1))
            streams = self.streams if lanes > 1 and (mask is None or self.scope.whole is not None) else None
            if streams is None or stmt.buffer not in streams.buffers:
                self._store(raw, address, dtype, mask)
            else:
                whole = None if mask is None else self.scope.whole
                past = streams.chosen if whole is None else b.and_(streams.chosen, whole)
                with b.if_else(past) as (past_caches, through_caches):
                    with past_caches:
                        store_past_caches(b, raw, address, lanes * dtype.itemsize)
                    with through_caches:
                        self._store(raw, address, dtype, mask)
        else:
            pointers = self._address(stmt.buffer, self.value(stmt.index, lanes))
            every = mask or splat_constant(I1, 1, lanes)
            self._masked("scatter", ir.VoidType(), [raw, pointers, I32(dtype.itemsize), every])
        self.forget(frozenset({("buffer", stmt.buffer)}))

    def _store(self, raw: ir.Value, address: ir.Value, dtype: DType, mask: ir.Value | None) -> None:
        if mask is None:
            self.builder.store(raw, address, align=dtype.itemsize)
        else:
            self._masked("store", ir.VoidType(), [raw, address, I32(dtype.itemsize), mask])

    def _stride(self, index: Expr) -> int | None:
        assert self.scope.vector is not None
        for kind, name in self.dependencies.of(index):
            if kind == "acc" and self.accumulator(int(name)).lanes > 1:
                return None  # a position that each lane has found for itself
        return stride(index, self.scope.vector)

    def _step(self, index: Expr) -> Expr | None:
        """The distance between lanes, if it is the same for all."""
        assert self.scope.vector is not None
        if any(kind == "acc" for kind, _ in self.dependencies.of(index)):
            return None
        return step(index, self.scope.vector)

    def _both(self, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
        return a if b is None else b if a is None else self.builder.and_(a, b)

    def _masked(self, operation: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
        """A call of one of LLVM's masked memory intrinsics."""
        memory = args[0].type if operation in ("store", "scatter") else result
        pointers = f"v{memory.count}p0" if operation in ("gather", "scatter") else "p0"
        return intrinsic(self.builder, f"llvm.masked.{operation}.{type_suffix(memory)}.{pointers}", result, args)


def _zeros(type_: ir.Type) -> ir.Constant:
    return ir.Constant(type_, None)


__all__ = ["Accumulator", "Chosen", "Scope", "ValueEmitter", "vector_of"]
