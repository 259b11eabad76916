"""Watching what gets compiled: for tests and for services that must not stop to compile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.ir.errors import CompileError

from ..backend import counters


@contextmanager
def assert_no_compile() -> Iterator[None]:
    """Raise `CompileError` at the end of the block if a kernel was compiled inside.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: x * 2)
    >>> _ = f(jg.ones(3))
    >>> with jg.assert_no_compile():
    ...     f(jg.ones(5))
    tensor([2., 2., 2., 2., 2.])
    """
    before = counters.kernels
    yield
    made = counters.kernels - before
    if made:
        raise CompileError(f"assert_no_compile: {made} kernels were compiled inside the block")
