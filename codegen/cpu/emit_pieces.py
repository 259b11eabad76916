"""Vector loops in pieces: between the places where conditions change, whole registers without a mask.

    while something is left:
        up to the next place where a condition changes: whole registers, one load for each choice
        where that place is nearer than a register is wide: one register, everything under masks

Registers start at the same elements as without pieces. What code there is does not depend on how many places there are:
they are found at run time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitgrad.ir.scalar import Expr

from ..loops.analysis import changes
from ..loops.ir import Load, Loop
from ..loops.pieces import Choice, Pieces
from . import emit_convert as conv
from . import emit_types as types
from . import llvm_ir as ir
from .emit_types import I1, I64, memory_type
from .emit_values import Chosen, Scope, ValueEmitter


class PieceEmitter(ValueEmitter):
    """What is found out once for each piece."""

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Emit in `scope`."""
        outer, self.scope = self.scope, scope
        yield
        self.scope = outer

    def borders_of(self, loop: Loop, pieces: Pieces, start: ir.Value, enter: ir.Block) -> list[ir.Value]:
        """Where conditions change."""
        scope = self._scope_at(loop, start, enter)
        with self.inside(scope):
            return [self.value(e, 1) for e in pieces.borders]

    def next_border(self, borders: Sequence[ir.Value], index: ir.Value, stop: ir.Value) -> ir.Value:
        """The first border behind `index`, or `stop`."""
        b = self.builder

        def nearer(found: ir.Value, border: ir.Value) -> ir.Value:
            is_next = b.and_(b.icmp_signed(">", border, index), b.icmp_signed("<", border, found))
            return b.select(is_next, border, found)

        return functools.reduce(nearer, borders, stop)

    def piece_scope(self, loop: Loop, pieces: Pieces, lanes: int, first: ir.Value, enter: ir.Block) -> Scope:
        """What is the same from element `first` on, as long as no condition changes."""
        scope = Scope(self.scope, changes(loop), enter, False, lanes, loop.var)
        at_first = self._scope_at(loop, first, enter)
        for e in pieces.constant:
            with self.inside(at_first):
                value = self.value(e, 1)
            scope.values[e, 1] = value
            scope.values[e, lanes] = types.splat(self.builder, value, lanes)
        for choice in pieces.choices:
            with self.inside(at_first):
                scope.chosen[choice.root] = self._chosen(choice, first, lanes)
        return scope

    def _scope_at(self, loop: Loop, index: ir.Value, enter: ir.Block) -> Scope:
        """For values at one element of the loop."""
        scope = Scope(self.scope, changes(loop), enter)
        scope.values[loop.var, 1] = index
        return scope

    def _chosen(self, choice: Choice, first: ir.Value, lanes: int) -> Chosen:
        """The one load that a choice is from element `first` on."""
        b, dtype, backward = self.builder, choice.root.dtype, choice.stride == -1
        one = memory_type(dtype, 1)
        address = self._meant(choice, lambda e: self._address(e.buffer, self.value(e.args[0], 1)), _nothing)
        assert address is not None
        shift = b.sub(first, I64(lanes - 1)) if backward else b.sub(I64(0), first)
        address = b.gep(address, [shift], source_etype=one)
        if choice.total:
            return Chosen(address, dtype, choice.stride, None)
        is_element = self._meant(choice, lambda e: self.value(e.args[1], 1) if e.args[1:] else I1(1), _no)
        assert is_element is not None
        cell = self.alloca(memory_type(dtype, lanes))
        b.store(conv.to_memory(b, types.splat(b, self._fill(choice), lanes), dtype, lanes), cell)
        moves = b.select(is_element, I64(-1), I64(0))
        return Chosen(b.select(is_element, address, cell), dtype, choice.stride, moves)

    def _fill(self, choice: Choice) -> ir.Value:
        """What is chosen where no element is."""
        found = self._meant(choice, lambda e: self.value(e.args[2], 1) if e.args[1:] else None, self._value_of)
        return types.splat_constant(types.register_type(choice.root.dtype, 1), 0, 1) if found is None else found

    def _value_of(self, e: Expr) -> ir.Value:
        return self.value(e, 1)

    def _meant(
        self, choice: Choice, element: Callable[[Load], ir.Value | None], other: Callable[[Expr], ir.Value | None]
    ) -> ir.Value | None:
        """Follow the conditions of a choice, to what is made of the element or the other value that is meant.

        `None` is as good as anything.
        """
        found: dict[Expr, ir.Value | None] = {}
        for e in choice.order:
            if isinstance(e, Load):
                found[e] = element(e)
                continue
            first, second = (found[a] if a in found else other(a) for a in e.args[1:])
            if first is None or second is None:
                found[e] = second if first is None else first
            else:
                found[e] = self.builder.select(self.value(e.args[0], 1), first, second)
        return found[choice.root]


def _nothing(_: Expr) -> None:
    return None


def _no(_: Expr) -> ir.Value:
    return I1(0)


__all__ = ["PieceEmitter"]
