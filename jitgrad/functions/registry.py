"""Where functions become public: `jitgrad.name`, `Tensor.name` and the in-place `Tensor.name_`.

    @public()                         jg.sigmoid(x) and x.sigmoid()
    @public("mul", "multiply", inplace=True)   several names, and x.mul_(y)
    @public(out=True)                 jg.add(x, y, out=z)

A function is written once, in the functional form; the method is the same function, and the in-place form is
the function followed by a write (see `aliasing.write`), so that a failed call changes nothing.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.ir.errors import ArgumentTypeError, AutogradError, DTypeError
from jitgrad.ir.ops.select import Convert

from ..aliasing import check_memory, check_writable, replace_plainly, write
from ..autocasting import autocasts, without_autocast
from ..device import places, takes_device
from ..dispatch import apply
from ..errors import located
from ..hot_path import FUNCTIONS as HOT_FUNCTIONS
from ..hot_path import hot
from ..keeping import protect
from ..mode import local
from ..promotion import can_cast
from ..rebinding import resize
from ..tape import next_seq
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def public(
    *names: str, function: bool = True, method: bool = True, inplace: bool = False, out: bool | str = False,
    moves: bool = False, short: bool = False,
) -> Callable[[F], F]:  # fmt: skip
    """Decorator: publish the function under `names` (its own name if none).

    `out=True` gives it an `out` argument, and `out="exact"` one that must have the result's dtype. What has an
    argument `device` puts its results there by `places`, unless it `moves` tensors itself. What has an in-place form or
    an `out` makes new memory, and is native where it is called often (`hot`), unless it has a `short` way of its own.
    """

    def register(f: F) -> F:
        if not moves and takes_device(f):
            f = places(f)
        first = (names or (f.__name__,))[0]
        casts, often = autocasts(first), hot if first in HOT_FUNCTIONS or ((inplace or out) and not short) else _itself
        cast = casts(f)
        own, plain = often(cast), often(f)
        published = often(casts(with_out(f, out == "exact"))) if out else own
        for name in names or (f.__name__,):
            if function:
                FUNCTIONS[name] = published
            if method:
                setattr(Tensor, name, own)
            if inplace:
                setattr(Tensor, name + "_", make_inplace(plain if cast is f else without_autocast(plain), name + "_"))
        return own

    return register


def _itself(f: F) -> F:
    return f


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "a": "input", "x": "input"}


def numpy_names(f: F) -> F:
    """Decorator: `f` also takes NumPy's argument names, `axis` and `keepdims`, as PyTorch does."""

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {names.get(k, k): v for k, v in kwargs.items()}
        return f(*args, **kwargs)

    code = f.__code__  # type: ignore[attr-defined]
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {k: v for k, v in _NUMPY_NAMES.items() if k not in own}
    return function  # type: ignore[return-value]


def make_inplace(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The in-place form of `f`: compute, check, then write the result into the first argument."""

    @functools.wraps(f)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name)
        since = next_seq()
        value = f(self, *args, **kwargs)
        if replace_plainly(self, value):
            return self
        value = cast_result(value, self, name)
        if value._requires_grad:
            protect(self, value, since)
        return write(self, value, name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{name[:-1]}`."
    return method


def with_out(f: Callable[..., Any], exact: bool = False) -> Callable[..., Any]:
    """`f` with an `out` argument: a tensor (or one for each result) that the result is written to and returned.

    A tensor of another shape is resized, with a warning unless it is empty. `exact` says that it must have the
    result's dtype; otherwise the result is converted, if it may be.
    """

    @functools.wraps(f)
    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return f(*args, **kwargs)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        _check_gradients((*args, *kwargs.values(), *outs), f.__name__)
        result = f(*args, **kwargs)
        if isinstance(result, Tensor):
            if not isinstance(out, Tensor):
                raise located(_not_tensors(f.__name__, "a tensor", out))
            return write_out(result, out, f.__name__, exact)
        if len(outs) != len(result):
            raise located(_not_tensors(f.__name__, f"{len(result)} tensors", out))
        written = [write_out(r, o, f.__name__, exact) for r, o in zip(result, outs, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)

    return function


def _not_tensors(name: str, what: str, out: Any) -> ArgumentTypeError:
    return ArgumentTypeError(f"{name}(): argument 'out' must be {what}, not {type(out).__name__}")


def _check_gradients(values: tuple[Any, ...], name: str) -> None:
    if local.mode.grad and any(isinstance(x, Tensor) and x.requires_grad for x in values):
        raise located(
            AutogradError(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, "
                "but one of the arguments requires grad."
            )
        )


def write_out(result: Tensor, out: Any, name: str, exact: bool = False, warn: bool = True) -> Tensor:
    """Write `result` to `out`, which takes no part in gradients and is resized if need be, with a warning."""
    if not isinstance(out, Tensor):
        raise located(_not_tensors(name, "a tensor", out))
    _check_gradients((result, out), name)
    if exact and out.dtype is not result.dtype:
        raise located(
            DTypeError(
                f"{name}: Expected out tensor to have dtype {result.dtype.name}, but got {out.dtype.name} instead"
            )
        )
    value = cast_result(result, out, name)
    check_memory(out, name)
    if out.shape != value.shape:
        if warn and out.type_.numel:
            _warn_of_resizing(out, value)
        resize(out, tuple(value.shape))
    return write(out, value, name)


def _warn_of_resizing(out: Tensor, value: Tensor) -> None:
    warnings.warn(
        f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
        f"match the required output shape {list(value.shape)}. This behavior is deprecated: pass an output of that "
        "shape, or an empty one.",
        stacklevel=5,
    )


def cast_result(result: Tensor, target: Tensor, name: str) -> Tensor:
    """`result` in the dtype of the tensor it is written to, which must not be of a lower category."""
    if result._data.dtype is target._data.dtype:
        return result
    have, want = result.dtype, target.dtype
    if have is want:
        return result
    if not can_cast(have, want):
        raise located(
            DTypeError(f"{name}: result type {have.name} can't be cast to the desired output type {want.name}")
        )
    return apply(Convert(want), result)
