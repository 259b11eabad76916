"""Emitted code that reads Python's objects and makes some: words at offsets, references, tuples.

Objects are int64 addresses. Functions of Python's own are called at addresses; where one gives 0, it has failed, and
the emitted function ends and gives 0 as well, so that Python raises what was set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from . import llvm_ir as ir
from .cells import I64, PTR, call

CLASS: Final = object.__basicsize__ - 8
TUPLE_ITEMS: Final = tuple.__basicsize__
_COUNTS_ALL: Final = sys.version_info < (3, 12)  # later Pythons have objects whose references are not counted
_TYPES: Final = [ir.FunctionType(I64, [I64] * k) for k in range(9)]  # functions of so many objects and numbers


class ObjectCode:
    """Code for objects, appended by `b`; `count` is the address of `Py_IncRef`."""

    def __init__(self, b: ir.IRBuilder, count: ir.Value) -> None:
        self.b = b
        self._count = count

    def get(self, x: ir.Value, offset: int) -> ir.Value:
        """The word at an offset of an object."""
        return self.b.load(self._at(x, offset), typ=I64)

    def put(self, x: ir.Value, offset: int, word: ir.Value) -> None:
        """Set it, whatever was there."""
        self.b.store(word, self._at(x, offset))

    def _at(self, x: ir.Value, offset: int) -> ir.Value:
        return self.b.inttoptr(self.b.add(x, I64(offset)), PTR)

    def hold(self, x: ir.Value) -> ir.Value:
        """The object, with one reference more."""
        if _COUNTS_ALL:
            self.put(x, 0, self.b.add(self.get(x, 0), I64(1)))
        else:
            call(self.b, ir.FunctionType(ir.VoidType(), [I64]), self._count, [x])
        return x

    def result(self, function: ir.Value, args: Sequence[ir.Value]) -> ir.Value:
        """What a function of Python's gives, 0 if it fails."""
        return call(self.b, _TYPES[len(args)], function, list(args))

    def made(self, function: ir.Value, args: Sequence[ir.Value]) -> ir.Value:
        """The object that it gives."""
        x = self.result(function, args)
        with self.b.if_then(self.same(x, I64(0))):
            self.b.ret(I64(0))
        return x

    def tuple_of(self, make: ir.Value, items: Sequence[ir.Value]) -> ir.Value:
        """A tuple, to which the references to its items go; `make` is the address of `PyTuple_New`."""
        made = self.made(make, [I64(len(items))])
        for k, x in enumerate(items):
            self.put(made, TUPLE_ITEMS + 8 * k, x)
        return made

    def same(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Whether they are the same object."""
        return self.b.icmp_signed("==", x, y)

    def go_on(self, holds: ir.Value) -> None:
        """What follows is for the case that this holds; otherwise the function gives 0."""
        b = self.b
        good, bad = b.append_basic_block("good"), b.append_basic_block("bad")
        b.cbranch(holds, good, bad)
        b.position_at_end(bad)
        b.ret(I64(0))
        b.position_at_end(good)
