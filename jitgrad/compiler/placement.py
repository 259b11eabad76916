"""On which device a trace runs: that of its tensors. A tensor elsewhere, unless it is a number, ends the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitgrad.ir.graph import Value
from jitgrad.ir.types import CPU, Device

from .. import pytree
from ..arrays import device_of, on_device
from ..mode import local
from ..tensor import Tensor
from .sources import ArgumentSource, CapturedSource

if TYPE_CHECKING:
    from .tracer import Tracer

_TWO_DEVICES = "tensors on different devices take part"


@dataclass(frozen=True, eq=False, slots=True)
class MovedSource:
    """The data of an argument or a captured tensor, copied to another device at each call."""

    of: ArgumentSource | CapturedSource
    device: Device
    name: str = ""

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """The data of this call on the device."""
        return on_device(self.of.fetch(leaves), self.device)

    def __str__(self) -> str:
        return f"{self.of} on {self.device}"


class Placement:
    """The device of a trace, settled by the first tensor that is more than a number."""

    __slots__ = ("device",)

    def __init__(self) -> None:
        self.device: Device | None = None

    @property
    def where(self) -> Device:
        """The device; the CPU while it is open."""
        return self.device or CPU

    def settles(self, device: Device) -> bool:
        """Whether a tensor on `device` can take part."""
        if self.device is None:
            self.device = device
        return self.device == device

    def takes(self, t: Tensor) -> bool:
        """Whether a tensor can: one of the trace, one on its device, or a number on the CPU."""
        data = t._data
        if data.__class__ is Value:
            return True
        device = device_of(data)
        return (device is CPU and data.ndim == 0) or self.settles(device)

    def made(self, tracer: Tracer, result: Any, device: Device) -> None:
        """A function that makes tensors on `device` was called: end a trace that runs elsewhere."""
        tensors = [t for t in pytree.flatten(result)[0] if isinstance(t, Tensor)]
        if tensors and (device is not CPU or any(t.ndim for t in tensors)) and not self.settles(device):
            tracer.materialise(_TWO_DEVICES)

    def end_unless_takes(self, tracer: Tracer, tensors: Sequence[Tensor]) -> bool:
        """End the trace if one of these is elsewhere; whether it ended."""
        for t in tensors:
            if not self.takes(t):
                tracer.materialise(_TWO_DEVICES)
                return True
        return False

    def moved(self, tracer: Tracer, t: Tensor, device: Device) -> Tensor | None:
        """`t` on `device` in the trace: itself, or an input copied there at each call. None if the trace had to end."""
        data = t._data
        here = self.where if data.__class__ is Value else device_of(data)
        if here == device:
            return t
        known = tracer._known.get(id(t)) or CapturedSource(t)
        copied = (
            data.__class__ is not Value and id(t) not in tracer.outside and not (local.mode.grad and t._requires_grad)
        )
        if copied and isinstance(known, (ArgumentSource, CapturedSource)) and self.settles(device):
            return tracer.traced(tracer._slot(MovedSource(known, device), t.type_))
        tracer.materialise("a tensor was moved to another device")
        return None
