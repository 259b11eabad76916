"""The text of a kernel: readable, and canonical, so that its hash names the kernel.

    kernel(b0: in f32, b1: out f32; 2 slots; p0: f32)
      parallel i0 in [0, s0):
        t0 = b0[i0] * p0
        b1[i0] = tanh(t0) + t0

Expressions used more than once, and very deep ones, get a name, so that the text stays linear in the
kernel's size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.scalar import Const, Expr, Fn

from . import walk
from .ir import AccRef, Init, Kernel, Load, Loop, LoopVar, Param, Slot, Stmt, Store, Update

_INDENT: Final = "  "
_DEEPEST: Final = 30
"""Expressions nest at most that deep within a line."""


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text, with the loop variables' own names."""
    return _Printer({}).kernel(kernel)


def canonical_text(kernel: Kernel) -> str:
    """The text with loop variables numbered in order: equal for kernels of equal structure."""
    loops = [s.var.name for s in walk.statements(kernel.body) if isinstance(s, Loop)]
    names: dict[str, str] = {}
    for name in loops:
        names.setdefault(name, f"i{len(names)}")
    return _Printer(names).kernel(kernel)


class _Printer:
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._lines: list[str] = []
        self._temporaries = 0

    def kernel(self, kernel: Kernel) -> str:
        buffers = ", ".join(
            f"b{i}: {b.role} {b.dtype.short}" + (f"[{b.length}]" if b.role == "local" else "")
            for i, b in enumerate(kernel.buffers)
        )
        params = "".join(f"; p{i}: {d.short}" for i, d in enumerate(kernel.params))
        self._lines.append(f"kernel({buffers}; {kernel.slots} slots{params})")
        self._block(kernel.body, 1)
        return "\n".join(self._lines) + "\n"

    def _block(self, body: Iterable[Stmt], depth: int) -> None:
        for stmt in body:
            shared = self._name_shared(stmt, depth)
            match stmt:
                case Loop(var=var, start=start, stop=stop, kind=kind):
                    bounds = f"[{self._text(start, shared)}, {self._text(stop, shared)})"
                    self._line(depth, f"{kind} {self._loop_name(var)} in {bounds}:")
                    self._block(stmt.body, depth + 1)
                case Init(index=index, value=value):
                    self._line(depth, f"acc{index}: {value.dtype.short} = {self._text(value, shared)}")
                case Update(indices=indices, values=values):
                    left = ", ".join(f"acc{i}" for i in indices)
                    self._line(depth, f"{left} <- {', '.join(self._text(v, shared) for v in values)}")
                case Store(buffer=buffer, index=index, value=value):
                    self._line(depth, f"b{buffer}[{self._text(index, shared)}] = {self._text(value, shared)}")

    def _line(self, depth: int, text: str) -> None:
        self._lines.append(_INDENT * depth + text)

    def _name_shared(self, stmt: Stmt, depth: int) -> dict[Expr, str]:
        """Print one line per expression that is used more than once in this statement, or deep; give their names."""
        roots = walk.expressions(stmt)
        order = walk.postorder(roots)
        uses = Counter(a for e in order for a in e.args)
        uses.update(roots)
        shared: dict[Expr, str] = {}
        depth_of: dict[Expr, int] = {}
        for expr in order:
            depth_of[expr] = 1 + max((depth_of[a] for a in expr.args), default=0)
            if expr.args and (uses[expr] > 1 or depth_of[expr] > _DEEPEST):
                depth_of[expr] = 0
                text = self._text(expr, shared)
                shared[expr] = f"t{self._temporaries}"
                self._temporaries += 1
                self._line(depth, f"{shared[expr]} = {text}")
        return shared

    def _loop_name(self, var: LoopVar) -> str:
        return self._names.get(var.name, var.name)

    def _text(self, expr: Expr, shared: dict[Expr, str]) -> str:
        if expr in shared:
            return shared[expr]
        match expr:
            case LoopVar():
                return self._loop_name(expr)
            case Const(value=value, runtime=runtime):
                suffix = "" if expr.dtype is dtypes.int64 else f":{expr.dtype.short}"
                return f"{'$' if runtime else ''}{value!r}{suffix}"
            case Slot() | Param() | AccRef():
                return str(expr)
            case Load(buffer=buffer):
                return f"b{buffer}[{', '.join(self._text(a, shared) for a in expr.args)}]"
        if expr.fn is None:
            return repr(expr)
        args = [self._text(a, shared) for a in expr.args]
        if len(args) == 2 and not expr.fn.value.isalpha():
            return f"({args[0]} {expr.fn.value} {args[1]})"
        cast = f".{expr.dtype.short}" if expr.fn in (Fn.CONVERT, Fn.BITCAST) else ""
        return f"{expr.fn.value}{cast}({', '.join(args)})"
