"""`Variable`, which tensors were once wrapped in: now another name for them."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


class _VariableType(type):
    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        made = data.detach()  # type: ignore[attr-defined]
        return made.requires_grad_() if requires_grad else made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(x)` is a leaf with the memory of `x`; every tensor is an instance.

    >>> import jitgrad as jg
    >>> jg.autograd.Variable(jg.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
