"""Walks over loop-level IR: what a statement contains, what an expression depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitgrad.ir.scalar import Expr

from .ir import Init, Load, Loop, Stmt, Store, Update


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of `body`, nested ones included, in program order."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, Loop):
            yield from statements(stmt.body)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself (a loop: its bounds)."""
    match stmt:
        case Loop(start=start, stop=stop):
            return start, stop
        case Init(value=value):
            return (value,)
        case Update(values=values):
            return values
        case Store(index=index, value=value):
            return index, value


def postorder(roots: Iterable[Expr]) -> list[Expr]:
    """Every distinct expression under `roots`, operands before users."""
    order: dict[Expr, None] = {}
    stack = list(roots)[::-1]
    while stack:
        expr = stack.pop()
        if expr in order:
            continue
        if args := expr.args:
            missing = [a for a in args if a not in order]
            if missing:
                stack.append(expr)
                stack += missing[::-1]
                continue
        order[expr] = None
    return list(order)


def stored_buffers(body: Iterable[Stmt]) -> frozenset[int]:
    """The buffers that some statement of `body` writes."""
    return frozenset(s.buffer for s in statements(body) if isinstance(s, Store))


def updated_accumulators(body: Iterable[Stmt]) -> frozenset[int]:
    """The accumulators that some statement of `body` updates or declares."""
    found: set[int] = set()
    for stmt in statements(body):
        if isinstance(stmt, Update):
            found.update(stmt.indices)
        elif isinstance(stmt, Init):
            found.add(stmt.index)
    return frozenset(found)


def loads(roots: Iterable[Expr]) -> list[Load]:
    """Every distinct load under `roots`."""
    return [e for e in postorder(roots) if isinstance(e, Load)]
