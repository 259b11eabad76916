"""Small steps that optimizers' update rules are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from ..aliasing import write
from ..autograd.grad_mode import enable_grad
from ..compiler.names import tensor_names
from ..functions.pointwise import convert
from ..mode import local
from ..tensor import Tensor, to_array


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What the closure returns, computed with gradients on; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def with_gradients(group: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The group's parameters that have a gradient, each with it (its negative to `maximize`)."""
    tracer = local.mode.tracer
    names = {} if tracer is None else tensor_names(tracer)
    for number, p in enumerate(group["params"]):
        grad = p.grad
        if grad is None:
            continue
        with nullcontext() if tracer is None else tracer.module(names.get(id(p), f"parameter {number}")):
            yield p, (-grad if group.get("maximize") else grad)


def scalar(x: Any, like: Tensor) -> Any:
    """A number as it is; a 0-d tensor in the dtype of `like`."""
    return convert(x, like.dtype) if isinstance(x, Tensor) else x


def assign(t: Tensor, value: Any) -> None:
    """`t` gets new contents."""
    write(t, convert(value, t.dtype), "step")


def move(t: Tensor, towards: Any, share: Any) -> None:
    """`t` goes that share of the way: a running mean with weight `1 - share` for what was."""
    assign(t, t + (towards - t) * scalar(share, t))  # type: ignore[operator]


def value_of(t: Tensor) -> Any:
    """A 0-d tensor as a float, or while tracing as a 0-d float64 tensor."""
    if local.mode.tracer is None:
        return float(to_array(t))
    return t.double()  # type: ignore[attr-defined]


def larger(x: Any, y: Any) -> Any:
    """The larger of two numbers or 0-d tensors."""
    if isinstance(x, Tensor):
        return x.clamp(min=y)  # type: ignore[attr-defined]
    return y.clamp(min=x) if isinstance(y, Tensor) else max(x, y)  # type: ignore[attr-defined]


def smaller(x: Any, y: Any) -> Any:
    """The smaller of two numbers or 0-d tensors."""
    return -larger(-x, -y)


def advance(step: Tensor) -> Any:
    """Count a step; how many there are, as a float or while tracing as a 0-d float64 tensor."""
    assign(step, step + 1)  # type: ignore[operator]
    return value_of(step)
