"""Expressions of a kernel in source: which get a name, where, and for how long it holds.

An expression that is used more than once in a block is computed once, at its first use. A name holds in the loops
inside, until something it was computed from changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Arg, Const, Expr, Fn

from .. import mathlib
from ..loops import walk
from ..loops.analysis import Dependencies, Dependency
from ..loops.ir import AccRef, Init, Kernel, Load, Loop, LoopVar, Param, Slot, Stmt
from . import expressions
from .expressions import bare, needs_expansion
from .memory import HALF_TYPES

_DEEPEST: Final = 12
"""Expressions nest at most that deep within a line."""


class ValuePrinter:
    """Lines of source, and the names of values in them."""

    def __init__(self, kernel: Kernel, strict: bool) -> None:
        self.kernel = kernel
        self.strict = strict
        self.lines: list[str] = []
        self.line_depth = 0
        self.dependencies = Dependencies(walk.stored_buffers(kernel.body))
        self.accumulator_types: dict[int, DType] = {
            s.index: s.value.dtype for s in walk.statements(kernel.body) if isinstance(s, Init)
        }
        self._scopes: list[dict[Expr, str]] = [{}]
        self._uses: Counter[Expr] = Counter()
        self._renamed: dict[str, str] = {}
        self._parts: Set[int] = frozenset()
        self._values = 0

    # Lines

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.line_depth + text)

    def assign(self, name: str, text: str) -> None:
        """`name = text`."""
        self.line(f"{name} = {bare(text)}")

    @contextmanager
    def indented(self, head: str | None) -> Iterator[None]:
        """A block under `head`; without one, the block around."""
        if head is None:
            yield
            return
        self.line(head)
        self.line_depth += 1
        yield
        self.line_depth -= 1

    # Names

    @contextmanager
    def scope(self) -> Iterator[dict[Expr, str]]:
        """Names given inside are forgotten afterwards."""
        self._scopes.append({})
        yield self._scopes[-1]
        self._scopes.pop()

    @contextmanager
    def counting(self, body: Sequence[Stmt]) -> Iterator[None]:
        """Count uses in the statements of a block, those of inner loops left out."""
        before = self._uses
        roots = [e for s in body for e in walk.expressions(s)]
        order = walk.postorder(roots)
        self._uses = Counter(a for e in order for a in e.args)
        self._uses.update(roots)
        yield
        self._uses = before

    @contextmanager
    def renamed(self, variable: str, name: str) -> Iterator[None]:
        """Loop variable `variable` is called `name` inside."""
        before = self._renamed
        self._renamed = {**before, variable: name}
        yield
        self._renamed = before

    @contextmanager
    def standing_for(self, accumulators: Set[int]) -> Iterator[None]:
        """Inside, these accumulators are a thread's own share of them."""
        before, self._parts = self._parts, accumulators
        yield
        self._parts = before

    def accumulator_name(self, index: int) -> str:
        """The variable of an accumulator."""
        return f"part{index}" if index in self._parts else f"acc{index}"

    def forget(self, changed: Set[Dependency]) -> None:
        """Names of what depends on `changed` no longer hold."""
        for scope in self._scopes:
            for expr in [e for e in scope if self.dependencies.of(e) & changed]:
                del scope[expr]

    def name_fixed(self, loop: Loop, changed: Set[Dependency]) -> None:
        """Give names to what is computed in `loop`, and the loops in it, from what they don't change, but for loads."""

        def is_fixed(e: Expr) -> bool:
            return not any(kind in ("acc", "load") or (kind, of) in changed for kind, of in self.dependencies.of(e))

        inside = [e for s in walk.statements(loop.body) for e in walk.expressions(s)]
        order = walk.postorder([*inside, *walk.expressions(loop)])
        outermost = dict.fromkeys(a for e in order if not is_fixed(e) for a in e.args if is_fixed(a))
        outermost.update(dict.fromkeys(e for e in inside if is_fixed(e)))
        for e in outermost:
            if e.args:
                self.name(e)

    def known(self, expr: Expr) -> str | None:
        """The name that an expression has."""
        return next((s[expr] for s in reversed(self._scopes) if expr in s), None)

    def name(self, expr: Expr) -> str:
        """Give `expr` a name, if it has none, and the value at this place."""
        found = self.known(expr)
        return found if found is not None else self._bind(expr, self.value(expr, named=True))

    def _bind(self, expr: Expr, text: str) -> str:
        name = self.new_name()
        self.assign(name, text)
        self._scopes[-1][expr] = name
        return name

    def new_name(self) -> str:
        """A fresh variable."""
        self._values += 1
        return f"v{self._values - 1}"

    # Texts

    def value(self, expr: Expr, named: bool = False) -> str:
        """The text of `expr`; lines for what is named on the way come before. `named`: the caller will name it."""
        texts: dict[Expr, str] = {}
        depth: dict[Expr, int] = {}
        for e in self._unknown(expr):
            found = self.known(e)
            if found is not None:
                texts[e], depth[e] = found, 0
                continue
            depth[e] = 1 + max((depth[a] for a in e.args), default=0)
            text = self._text(e, [texts[a] for a in e.args])
            wanted = e.args and (self._uses[e] > 1 or depth[e] > _DEEPEST or needs_expansion(e))
            if wanted and not (named and e is expr) and not isinstance(e, (Slot, LoopVar)):
                text, depth[e] = self._bind(e, text), 0
            texts[e] = text
        return texts[expr]

    def _unknown(self, expr: Expr) -> list[Expr]:
        """What must be looked at to compute `expr`: nothing behind what has a name."""
        order: list[Expr] = []
        seen: set[Expr] = set()
        stack = [(expr, False)]
        while stack:
            e, done = stack.pop()
            if done:
                order.append(e)
            elif e not in seen:
                seen.add(e)
                stack.append((e, True))
                if self.known(e) is None:
                    stack.extend((a, False) for a in reversed(e.args))
        return order

    def _text(self, expr: Expr, args: Sequence[str]) -> str:
        match expr:
            case LoopVar(name=name):
                return self._renamed.get(name, name)
            case Const():
                return expressions.literal(expr)
            case Param(index=index):
                return f"(p{index} != 0)" if expr.dtype is dtypes.bool_ else f"p{index}"
            case AccRef(index=index):
                return self.accumulator_name(index)
            case Load():
                return self._load(expr, args)
        if expr.fn is None:
            return str(expr)
        if needs_expansion(expr):
            return self._expanded(expr, args)
        return expressions.operation(expr, args, self.strict, _is_place(expr))

    def _load(self, expr: Load, args: Sequence[str]) -> str:
        text = expressions.loaded(f"b{expr.buffer}[{bare(args[0])}]", expr.dtype)
        return text if len(args) == 1 else f"({text} if {args[1]} else {args[2]})"

    def _expanded(self, expr: Expr, args: Sequence[str]) -> str:
        """A function that libdevice lacks, by its expansion; half types by way of float32."""
        half = expr.dtype if expr.dtype in HALF_TYPES else None
        assert expr.fn is not None
        expansion = mathlib.expand(expr.fn, dtypes.float32 if half else expr.dtype)
        (text,) = self.closed([expansion.value], args, self.line, self.new_name)
        return expressions.rounded(text, half) if half else text

    def closed(
        self, roots: Sequence[Expr], args: Sequence[str], line: Callable[[str], None], new_name: Callable[[], str]
    ) -> list[str]:
        """The texts of expressions made of `scalar.arg`s, literals and functions alone; shared parts get lines."""
        order = walk.postorder(roots)
        uses = Counter(a for e in order for a in e.args)
        texts: dict[Expr, str] = {}
        depth: dict[Expr, int] = {}
        for e in order:
            depth[e] = 1 + max((depth[a] for a in e.args), default=0)
            if isinstance(e, Arg):
                texts[e] = args[e.index]
            elif isinstance(e, Const):
                texts[e] = expressions.literal(e)
            else:
                text = expressions.operation(e, [texts[a] for a in e.args], self.strict, False)
                if uses[e] > 1 or depth[e] > _DEEPEST:
                    name = new_name()
                    line(f"{name} = {bare(text)}")
                    text, depth[e] = name, 0
                texts[e] = text
        return [texts[r] for r in roots]


def _is_place(expr: Expr) -> bool:
    """Whether `expr` divides an int64 that cannot be negative by a length, as where a place in a loop is split."""
    return (
        expr.fn is Fn.DIV
        and expr.dtype is dtypes.int64
        and _is_natural(expr.args[0])
        and (isinstance(expr.args[1], Slot) or (isinstance(expr.args[1], Const) and int(expr.args[1].value) > 0))
    )


def _is_natural(expr: Expr) -> bool:
    """Whether an int64 is made of loop variables in ways that give nothing below zero."""
    match expr:
        case LoopVar():
            return True
        case Const(value=value):
            return int(value) >= 0
    if expr.fn in (Fn.DIV, Fn.REM, Fn.ADD, Fn.MUL) and expr.dtype is dtypes.int64:
        return all(_is_natural(a) or isinstance(a, Slot) for a in expr.args) and _is_natural(expr.args[0])
    if expr.fn is Fn.SUB:  # what is left after whole rows: x - (x / n) * n
        x, taken = expr.args
        return taken.fn is Fn.MUL and any(a.fn is Fn.DIV and a.args[0] is x for a in taken.args) and _is_natural(x)
    return False


__all__ = ["ValuePrinter"]
