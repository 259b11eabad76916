"""Runs a kernel with NumPy, statement by statement: what the machine code must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Expr
from jitgrad.ir.scalar_eval import Evaluator

from .ir import AccRef, Init, Kernel, Load, Loop, LoopVar, Param, Slot, Stmt, Store, Update

Array = Any


def interpret(
    kernel: Kernel,
    buffers: Sequence[Array],
    slots: Sequence[int] = (),
    params: Sequence[bool | int | float] = (),
    span: tuple[int, int] | None = None,
) -> None:
    """Run `kernel` on flat arrays, one per non-local buffer, in place.

    `span` is the part of the parallel loop to run (by default all of it). Reading or writing outside a buffer raises.
    """
    _Interpreter(kernel, buffers, slots, params, span).block(kernel.body)


class _Interpreter:
    def __init__(
        self,
        kernel: Kernel,
        buffers: Sequence[Array],
        slots: Sequence[int],
        params: Sequence[bool | int | float],
        span: tuple[int, int] | None,
    ) -> None:
        given = iter(buffers)
        self.buffers = [np.zeros(b.length, b.dtype.np) if b.role == "local" else next(given) for b in kernel.buffers]
        self.slots, self.params, self.span = slots, params, span
        self.variables: dict[str, Array] = {}
        self.accumulators: dict[int, Array] = {}

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case Loop():
                    self.loop(stmt)
                case Init(index=index, value=value):
                    self.accumulators[index] = self.value(value)
                case Update(indices=indices, values=values):
                    new = self.evaluator()
                    self.accumulators.update(zip(indices, [new(v) for v in values]))
                case Store():
                    self.store(stmt)

    def loop(self, loop: Loop) -> None:
        start, stop = int(self.value(loop.start)), int(self.value(loop.stop))
        if loop.kind.startswith("parallel") and self.span is not None:
            start, stop = self.span
        name = loop.var.name
        if loop.kind.endswith("vector") and stop > start and all(isinstance(s, Store) for s in loop.body):
            self.variables[name] = np.arange(start, stop)
            self.block(loop.body)
        else:
            for i in range(start, stop):
                self.variables[name] = np.int64(i)
                self.block(loop.body)
        self.variables.pop(name, None)

    def store(self, stmt: Store) -> None:
        evaluate, target = self.evaluator(), self.buffers[stmt.buffer]
        index = evaluate(stmt.index)
        self.check(stmt.buffer, index)
        target[index] = evaluate(stmt.value)

    def value(self, expr: Expr) -> Array:
        return self.evaluator()(expr)

    def evaluator(self) -> Evaluator:
        def leaf(expr: Expr) -> Array:
            match expr:
                case LoopVar(name=name):
                    return self.variables[name]
                case Slot(index=index):
                    return np.int64(self.slots[index])
                case Param(index=index):
                    return np.asarray(self.params[index], expr.dtype.np)
                case AccRef(index=index):
                    return self.accumulators[index]
                case Load():
                    return self.load(expr, evaluate)
            raise InternalError(f"leaf {expr!r} has no place in a kernel")

        evaluate = Evaluator(leaf)
        return evaluate

    def load(self, expr: Load, evaluate: Evaluator) -> Array:
        source, index = self.buffers[expr.buffer], evaluate(expr.args[0])
        if len(expr.args) == 1:
            self.check(expr.buffer, index)
            return source[index]
        mask, fill = evaluate(expr.args[1]), evaluate(expr.args[2])
        index, mask, fill = np.broadcast_arrays(index, mask, fill)
        self.check(expr.buffer, index[mask])
        result = np.array(fill)
        result[mask] = source[index[mask]]
        return result

    def check(self, buffer: int, index: Array) -> None:
        size = len(self.buffers[buffer])
        if np.any((index < 0) | (index >= size)):
            raise InternalError(f"index {index} outside b{buffer} of {size} elements")
