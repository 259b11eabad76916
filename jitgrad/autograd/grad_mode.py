"""`no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`: context managers and decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..mode import local

F = TypeVar("F", bound=Callable[..., Any])


class _GradMode:
    """Sets the thread's grad mode inside a block, or inside each call of a decorated function."""

    def __init__(self, enabled: bool, inference: bool | None = None) -> None:
        self._enabled = enabled
        self._inference = inference
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        mode = local.mode
        self._before.append((mode.grad, mode.inference))
        mode.grad = self._enabled
        if self._inference is not None:
            mode.inference = self._inference

    def __exit__(self, *exc: object) -> None:
        mode = local.mode
        mode.grad, mode.inference = self._before.pop()

    def __call__(self, f: F) -> F:
        if inspect.isgeneratorfunction(f):
            return self._wrap_generator(f)

        @functools.wraps(f)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)._copy(self):
                return f(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _wrap_generator(self, f: Any) -> Any:
        @functools.wraps(f)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            items = f(*args, **kwargs)
            sent = None
            while True:
                try:
                    with type(self)._copy(self):
                        item = items.send(sent)
                except StopIteration as stop:
                    return stop.value
                sent = yield item

        return wrapped

    def _copy(self) -> _GradMode:
        return _GradMode(self._enabled, self._inference)


class _Switch(_GradMode):
    """A grad mode that decorates with or without brackets: `@no_grad` and `@no_grad()`."""

    enabled: bool

    def __init__(self) -> None:
        super().__init__(self.enabled)

    def __new__(cls, f: Any = None) -> Any:
        made = super().__new__(cls)
        if f is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(f)


class no_grad(_Switch):
    """Nothing inside is recorded for gradients.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class enable_grad(_Switch):
    """Recording is on inside, also within `no_grad`."""

    enabled = True


class inference_mode(_GradMode):
    """Like `no_grad`, for code that will never need gradients."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(False if mode else local.mode.grad, mode)

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()  # type: ignore[misc]
        return made(mode)


class set_grad_enabled(_GradMode):
    """Switches recording at once; as a context manager also back at its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._outer = local.mode.grad
        local.mode.grad = mode

    def __enter__(self) -> None:
        self._before.append((self._outer, local.mode.inference))
        local.mode.grad = self._enabled


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return local.mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return local.mode.inference
