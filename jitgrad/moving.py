"""From one device to another, differentiably."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.types import Device

from .arrays import on_device
from .autograd.function import Function
from .mode import local
from .tensor import Tensor, wrap


class ToCopy(Function):
    """A tensor on another device; its gradient goes back to where it came from."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        """The numbers on `device`."""
        ctx.source = x.device
        return wrap(on_device(x._data, device, non_blocking))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient on the device of the operand."""
        return move(grads[0], ctx.source), None, None


def move(t: Tensor, device: Device, non_blocking: bool = False) -> Tensor:
    """`t` on `device`; itself if it is there."""
    mode = local.mode
    if mode.tracer is not None:
        moved = mode.tracer.placement.moved(mode.tracer, t, device)
        if moved is not None:
            return moved  # type: ignore[no-any-return]
    if t.device == device:
        return t
    if mode.grad and t._requires_grad:
        return ToCopy.apply(t, device, non_blocking)  # type: ignore[no-any-return]
    return wrap(on_device(t._data, device, non_blocking))
