"""Where functions become public: `jitgrad.name`, `Tensor.name` and the in-place `Tensor.name_`.

    @public()                         jg.sigmoid(x) and x.sigmoid()
    @public("mul", "multiply", inplace=True)   several names, and x.mul_(y)

A function is written once, in the functional form; the method is the same function, and the in-place form is
the function followed by a write (see `aliasing.write`), so that a failed call changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..aliasing import check_writable, write
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def public(
    *names: str, function: bool = True, method: bool = True, inplace: bool = False
) -> Callable[[F], F]:
    """Decorator: publish the function under `names` (its own name if none)."""

    def register(f: F) -> F:
        for name in names or (f.__name__,):
            if function:
                FUNCTIONS[name] = f
            if method:
                setattr(Tensor, name, f)
            if inplace:
                setattr(Tensor, name + "_", make_inplace(f, name + "_"))
        return f

    return register


def make_inplace(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The in-place form of `f`: compute, check, then write the result into the first argument."""

    @functools.wraps(f)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name)
        return write(self, f(self, *args, **kwargs), name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{name[:-1]}`."
    return method
