"""`record_function`: stretches of the user's program with a name."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ..mode import local
from .recorder import active

F = TypeVar("F", bound=Callable[..., Any])


class record_function:
    """Names a block, or a function that it decorates, in profiles; costs next to nothing when none is recorded.

    Inside a compiled function a block runs only while that is traced; there the name becomes part of the scope of the
    nodes, which dumps and graphs show.

    >>> import jitgrad as jg
    >>> with jg.profiler.profile() as p, jg.profiler.record_function("double"):
    ...     _ = jg.ones(3) * 2
    >>> "double" in [e.name for e in p.events()]
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._began: list[int] = []
        self._scopes: list[AbstractContextManager[None] | None] = []

    def __enter__(self) -> record_function:
        tracer = local.mode.tracer
        scope = None if tracer is None else tracer.module(self.name)
        if scope is not None:
            scope.__enter__()
        self._scopes.append(scope)
        self._began.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: Any) -> None:
        began, scope, recorder = self._began.pop(), self._scopes.pop(), active.recorder
        if scope is not None:
            scope.__exit__(*error)
        elif recorder is not None:
            args = {} if self.args is None else {"args": self.args}
            recorder.add(self.name, "annotation", began, time.perf_counter_ns(), args=args)

    def __call__(self, f: F) -> F:
        @functools.wraps(f)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return f(*args, **kwargs)

        return named  # type: ignore[return-value]
