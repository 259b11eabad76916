"""`jitgrad.device`: where tensors live. Only the CPU so far."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentTypeError, DeviceError
from jitgrad.ir.types import CPU, Device

from .errors import located

_NO_CUDA = "device {!r} is not available: jitgrad runs on the CPU only; use device='cpu'"


class _DeviceType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device)


class device(metaclass=_DeviceType):
    """`device("cpu")`, `device("cpu:0")` or `device(other)`; an error for devices that are not there.

    >>> import jitgrad as jg
    >>> jg.device("cpu")
    device(type='cpu')
    """

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Device:  # type: ignore[misc]
        return as_device(type, index)


def as_device(given: Any, index: int | None = None) -> Device:
    """The device named by a string or a `Device`; `None` means the default one."""
    if given is None:
        return CPU
    if isinstance(given, Device):
        return given
    if not isinstance(given, str):
        raise located(ArgumentTypeError(f"device must be a string or a device, not {type(given).__name__}"))
    kind, _, number = given.partition(":")
    if number and not number.isdigit():
        raise located(DeviceError(f"Invalid device string: {given!r}"))
    if kind == "cpu":
        at = int(number) if number else index
        return CPU if at is None else Device("cpu", at)
    if kind in ("cuda", "mps", "xpu", "meta"):
        raise located(DeviceError(_NO_CUDA.format(given)))
    raise located(DeviceError(f"Expected one of cpu, cuda, ... device type at start of device string: {given}"))
