"""Where functions become public: `jitgrad.name`, `Tensor.name` and the in-place `Tensor.name_`.

    @public()                         jg.sigmoid(x) and x.sigmoid()
    @public("mul", "multiply", inplace=True)   several names, and x.mul_(y)
    @public(out=True)                 jg.add(x, y, out=z)

A function is written once, in the functional form; the method is the same function, and the in-place form is
the function followed by a write (see `aliasing.write`), so that a failed call changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.ir.errors import AutogradError, DTypeError
from jitgrad.ir.ops.select import Convert

from ..aliasing import check_writable, protect, write
from ..dispatch import apply
from ..errors import located
from ..mode import local
from ..promotion import can_cast
from ..tape import next_seq
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def public(
    *names: str, function: bool = True, method: bool = True, inplace: bool = False, out: bool = False
) -> Callable[[F], F]:
    """Decorator: publish the function under `names` (its own name if none), with an `out` argument."""

    def register(f: F) -> F:
        published = with_out(f) if out else f
        for name in names or (f.__name__,):
            if function:
                FUNCTIONS[name] = published
            if method:
                setattr(Tensor, name, f)
            if inplace:
                setattr(Tensor, name + "_", make_inplace(f, name + "_"))
        return f

    return register


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "a": "input", "x": "input"}


def numpy_names(f: F) -> F:
    """Decorator: `f` also takes NumPy's argument names, `axis` and `keepdims`, as PyTorch does."""

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {_NUMPY_NAMES.get(k, k): v for k, v in kwargs.items()}
        return f(*args, **kwargs)

    return function  # type: ignore[return-value]


def make_inplace(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The in-place form of `f`: compute, check, then write the result into the first argument."""

    @functools.wraps(f)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name)
        since = next_seq()
        value = cast_result(f(self, *args, **kwargs), self, name)
        if value.requires_grad:
            protect(self, value, since)
        return write(self, value, name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{name[:-1]}`."
    return method


def with_out(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with an `out` argument: a tensor that the result is written to and that is returned."""

    @functools.wraps(f)
    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        return result if out is None else write_out(result, out, f.__name__)

    return function


def write_out(result: Tensor, out: Tensor, name: str) -> Tensor:
    """Write `result` to `out`, which takes no part in gradients."""
    if local.mode.grad and (result.requires_grad or out.requires_grad):
        raise located(
            AutogradError(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, "
                "but one of the arguments requires grad."
            )
        )
    return write(out, cast_result(result, out, name), name)


def cast_result(result: Tensor, target: Tensor, name: str) -> Tensor:
    """`result` in the dtype of the tensor it is written to, which must not be of a lower category."""
    have, want = result.dtype, target.dtype
    if have is want:
        return result
    if not can_cast(have, want):
        raise located(
            DTypeError(f"{name}: result type {have.name} can't be cast to the desired output type {want.name}")
        )
    return apply(Convert(want), result)
