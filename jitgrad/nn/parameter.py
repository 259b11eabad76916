"""`Parameter` and `Buffer`: tensors that a module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentTypeError

from ..aliasing import storage_of
from ..creation import empty
from ..errors import located
from ..mode import local
from ..overrides import not_overridden
from ..tensor import Tensor, wrap

__all__ = ["Buffer", "Parameter"]


def _own(cls: type[Tensor], data: Any) -> Any:
    """A leaf of class `cls` that has the memory of `data`, whose history it leaves."""
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise located(ArgumentTypeError(f"{cls.__name__}: data must be a Tensor, not {type(data).__name__}"))
    tracer = local.mode.tracer
    made = wrap(data._data if tracer is None else tracer.value(data), cls)
    if tracer is None:
        made._storage = storage_of(data)
    else:
        tracer.note((made,))
    return made


class Parameter(Tensor):
    """A tensor that is trained: assigned to a module, it is among its `parameters()`.

    It shares the memory of `data`.

    >>> import jitgrad as jg
    >>> jg.nn.Parameter(jg.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = classmethod(not_overridden)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        made: Parameter = _own(cls, data)
        made.requires_grad_(requires_grad)
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that belongs to a module's state without being trained, like a running mean.

    With `persistent=False` it is left out of the module's `state_dict`.
    """

    __slots__ = ()
    __torch_function__ = classmethod(not_overridden)

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made: Buffer = _own(cls, data)
        made.persistent = persistent
        return made
