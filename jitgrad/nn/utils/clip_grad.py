"""Limiting gradients, by their joint norm or one by one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from jitgrad.ir.errors import AutogradError

from ...autograd.grad_mode import no_grad
from ...dispatch import constant
from ...errors import located
from ...functions.pointwise import convert
from ...tensor import Tensor, truth
from .clip_launch import clipped

Tensors = Tensor | Iterable[Tensor]


def _tensors(given: Tensors) -> list[Tensor]:
    return [given] if isinstance(given, Tensor) else list(given)


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The `norm_type`-norm of all elements of all tensors together, as a 0-d tensor.

    >>> import jitgrad as jg
    >>> jg.nn.utils.get_total_norm([jg.tensor([3.0]), jg.tensor([4.0])])
    tensor(5.)
    """
    given: list[Any] = _tensors(tensors)
    norm_type = float(norm_type)
    with no_grad():
        if not given:
            return constant(0.0).float()  # type: ignore[attr-defined, no-any-return]
        if norm_type == 2.0:
            total = _sum([_square(t).sum() for t in given]).sqrt()
        elif math.isinf(norm_type):
            total = _extreme([t.abs() for t in given], norm_type > 0)
        elif norm_type == 0.0:
            total = _sum([convert((t != 0).any(), t.abs().dtype if t.dtype.is_complex else t.dtype) for t in given])
        else:
            total = _sum([(t.abs() ** norm_type).sum() for t in given]) ** (1 / norm_type)
    if error_if_nonfinite and not truth(total.isfinite()):
        raise located(
            AutogradError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
        )
    return total  # type: ignore[no-any-return]


def _square(t: Any) -> Any:
    if not t.dtype.is_complex:
        return t * t
    return t.real * t.real + t.imag * t.imag


def _sum(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _extreme(sizes: list[Any], largest: bool) -> Any:
    """The largest of all elements, or the smallest."""
    total = None
    for size in sizes:
        part = size.amax() if largest else size.amin()
        total = part if total is None else total.maximum(part) if largest else total.minimum(part)
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of `parameters` in place, as `clip_grad_norm_` does, given their norm."""
    with no_grad():
        scale: Any = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)  # type: ignore[operator]
        for p in _tensors(parameters):
            if p.grad is not None:
                p.grad.mul_(scale if p.grad.dtype.is_complex else convert(scale, p.grad.dtype))  # type: ignore[attr-defined]


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients of `parameters` in place so that their joint norm is at most `max_norm`; the norm before.

    >>> import jitgrad as jg
    >>> w = jg.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> jg.nn.utils.clip_grad_norm_(w, 1.0)
    tensor(10.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    given = _tensors(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if norm_type == 2.0 and not error_if_nonfinite:
        norm = clipped(grads, float(max_norm))
        if norm is not None:
            return norm
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The older name of `clip_grad_norm_`."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit each element of the gradients of `parameters` to between `-clip_value` and `clip_value`, in place."""
    with no_grad():
        for p in _tensors(parameters):
            if p.grad is not None:
                p.grad.clamp_(-float(clip_value), float(clip_value))  # type: ignore[attr-defined]
