"""Watching what gets compiled: for tests and for services that must not stop to compile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.ir.errors import CompileError

from ..counters import watching


@contextmanager
def assert_no_compile(*, traces: bool = False) -> Iterator[None]:
    """Raise `CompileError` at the end of the block if this thread compiled a kernel inside.

    With `traces`, a function that is captured anew is an error as well, though it finds all its kernels. What other
    threads compile meanwhile does not count, and an error raised inside the block is not covered up. Large eager ops
    that have no kernel yet get none inside.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: x * 2)
    >>> _ = f(jg.ones(3))
    >>> with jg.assert_no_compile():
    ...     f(jg.ones(5))
    tensor([2., 2., 2., 2., 2.])
    >>> with jg.assert_no_compile(traces=True):  # doctest: +ELLIPSIS
    ...     _ = f(jg.ones(7))
    Traceback (most recent call last):
        ...
    jitgrad.ir.errors.CompileError: assert_no_compile: <lambda> was traced by the call at ...
    """
    with watching() as events:
        yield
    made = sum(event.kernels for event in events)
    found = [f"{made} kernels were compiled"] if made else []
    names = list(dict.fromkeys(event.name for event in events if event.kernels))
    if names:
        found[0] += f" (for {', '.join(names)})"
    if traces:
        found += [f"{event.name} was traced{_at(event.location)}" for event in events if event.kind == "trace"]
    if found:
        raise CompileError(f"assert_no_compile: {'; '.join(found)} inside the block")


def _at(location: object) -> str:
    return f" by the call at {location}" if location else ""
