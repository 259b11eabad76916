"""`jitgrad.device`: where tensors live, and where new ones are made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from jitgrad.ir.errors import ArgumentTypeError, DeviceError, JitgradError
from jitgrad.ir.types import CPU, Device

from .arrays import on_device
from .backend import DeviceArray, gpus
from .errors import located
from .levels import in_likeness
from .mode import local
from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_NOWHERE = 1000  # no function takes so many arguments
_OTHERS = ("mps", "xpu", "meta", "hip", "xla", "mtia", "hpu", "ipu", "vulkan")


class _DeviceType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device)


class device(metaclass=_DeviceType):
    """`device("cpu")`, `device("cuda")`, `device("cuda:1")`, `device("cuda", 1)`, `device(1)` or `device(other)`.

    In a `with` statement, new tensors are made there.

    >>> import jitgrad as jg
    >>> jg.device("cpu")
    device(type='cpu')
    >>> jg.device("cuda:1").index
    1
    """

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Device:  # type: ignore[misc]
        return named_device(type, index)


def named_device(given: Any, index: int | None = None) -> Device:
    """The device named by a string, a number (a CUDA device) or a `Device`, whether it is there or not."""
    if isinstance(given, Device):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Device("cuda", given)
    if not isinstance(given, str):
        raise located(ArgumentTypeError(f"device must be a string or a device, not {type(given).__name__}"))
    kind, colon, number = given.partition(":")
    if colon and not number.isdigit():
        raise located(DeviceError(f"Invalid device string: {given!r}"))
    if colon and index is not None:
        raise located(
            DeviceError(f"type (string) must not include an index because index was passed explicitly: {given}")
        )
    at = int(number) if colon else index
    if kind in ("cpu", "cuda"):
        return CPU if at is None and kind == "cpu" else Device(kind, at)
    if kind in _OTHERS:
        raise located(DeviceError(f"device {given!r} is not available: jitgrad runs on 'cpu' and 'cuda'"))
    raise located(DeviceError(f"Expected one of cpu, cuda device type at start of device string: {kind}"))


def as_device(given: Any, index: int | None = None) -> Device:
    """The device that tensors are put on for a `device` argument, which must be there; `None` means the default one.

    There is one CPU, whatever its number; "cuda" without a number is this thread's current device.
    """
    if given is None:
        return local.mode.place or CPU
    found = named_device(given, index)
    if found.type == "cpu":
        return CPU
    machine = gpus()
    try:
        return machine.gpu(found.index).device  # type: ignore[no-any-return]
    except JitgradError as error:
        raise located(error) from None


@contextmanager
def place(where: Device | None) -> Iterator[None]:
    """New tensors are made on `where` inside; None is the CPU."""
    mode = local.mode
    before, mode.place = mode.place, None if where is None or where.type == "cpu" else where
    try:
        yield
    finally:
        mode.place = before


def set_default_device(device: Any) -> None:
    """Make new tensors on `device` from now on, in this thread; None is the CPU."""
    where = CPU if device is None else as_device(device)
    local.mode.place = None if where is CPU else where


def get_default_device() -> Device:
    """Where new tensors are made without a `device` argument.

    >>> import jitgrad as jg
    >>> jg.get_default_device()
    device(type='cpu')
    """
    return local.mode.place or CPU


def places(f: F) -> F:
    """Decorator for functions with a `device` argument: what they make is made there, or moved there.

    Without that argument it is the device of a tensor that comes as first argument, or the default one.
    """
    code = inspect.unwrap(f).__code__  # type: ignore[attr-defined]
    at = code.co_varnames.index("device")
    at = at if at < code.co_argcount else _NOWHERE

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        is_plain = mode.place is None and mode.tracer is None and not mode.levels and "device" not in kwargs
        if is_plain and (not args or (len(args) <= at and not _on_device(args))):
            return f(*args, **kwargs)
        made = here(*args, **kwargs)
        return in_likeness(made, args[0]) if local.mode.levels and args else made

    def here(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        if len(args) > at:
            kwargs["device"], args = args[at], args[:at]
        given = kwargs.get("device")
        if given is None and mode.place is None and mode.tracer is None and not _on_device(args):
            return f(*args, **kwargs)
        where = as_device(given) if given is not None else args[0].device if _on_device(args) else mode.place or CPU
        kwargs.pop("device", None)
        with place(where):
            made = f(*args, **kwargs)
        if mode.tracer is not None:
            mode.tracer.placement.made(mode.tracer, made, where)
        if isinstance(made, Tensor):
            return _there(made, where, args)
        return made

    return function  # type: ignore[return-value]


def takes_device(f: Callable[..., Any]) -> bool:
    """Whether a function has an argument `device`."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return code is not None and "device" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _on_device(args: tuple[Any, ...]) -> bool:
    """Whether the first argument is a tensor that is not on the CPU."""
    if not args or not isinstance(args[0], Tensor):
        return False
    kind = args[0]._data.__class__
    return kind is DeviceArray or (kind is not np.ndarray and args[0].device is not CPU)


def _there(t: Tensor, where: Device, args: tuple[Any, ...]) -> Tensor:
    """`t`, which a function made, on `where`."""
    if t.device == where or t._data.__class__ not in (np.ndarray, DeviceArray):
        return t
    if t._node is not None or t._view is not None or any(t is a for a in args):
        return t.to(where)  # type: ignore[attr-defined, no-any-return]
    t._data = on_device(t._data, where)
    return t


def _enter(self: Device) -> Device:
    mode = local.mode
    mode.places.append(mode.place)
    where = as_device(self)
    mode.place = None if where is CPU else where
    return self


def _exit(self: Device, *exc: object) -> None:
    mode = local.mode
    mode.place = mode.places.pop()


Device.__enter__ = _enter  # type: ignore[attr-defined]
Device.__exit__ = _exit  # type: ignore[attr-defined]
