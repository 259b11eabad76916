"""Statements with other numbers for some of their buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jitgrad.ir.scalar import Expr, intern_expr

from . import walk
from .ir import Init, Load, Loop, Stmt, Store, Update, load


def renumbered(body: Iterable[Stmt], numbers: Mapping[int, int]) -> tuple[Stmt, ...]:
    """`body` with buffer `numbers[n]` where it has buffer `n`; buffers not named stay."""
    known: dict[Expr, Expr] = {}
    return tuple(_statement(s, numbers, known) for s in body)


def _statement(stmt: Stmt, numbers: Mapping[int, int], known: dict[Expr, Expr]) -> Stmt:
    def new(expr: Expr) -> Expr:
        for e in walk.postorder([expr]):
            if e not in known:
                known[e] = _expression(e, tuple(known[a] for a in e.args), numbers)
        return known[expr]

    match stmt:
        case Loop():
            body = tuple(_statement(s, numbers, known) for s in stmt.body)
            return replace(stmt, start=new(stmt.start), stop=new(stmt.stop), body=body)
        case Init():
            return replace(stmt, value=new(stmt.value))
        case Update():
            return replace(stmt, values=tuple(new(v) for v in stmt.values))
        case Store():
            buffer = numbers.get(stmt.buffer, stmt.buffer)
            return Store(buffer, new(stmt.index), new(stmt.value))


def _expression(e: Expr, args: tuple[Expr, ...], numbers: Mapping[int, int]) -> Expr:
    if isinstance(e, Load):
        return load(numbers.get(e.buffer, e.buffer), e.dtype, *args)
    if all(a is b for a, b in zip(args, e.args)):
        return e
    return intern_expr(Expr, e.dtype, e.fn, args)  # type: ignore[no-any-return]
