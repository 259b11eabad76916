"""Forward mode by hand, as in `torch.autograd.forward_ad`: tensors carry a tangent through what is done to them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.ir.errors import OperationError

from ..aliasing import storage_of
from ..errors import located
from ..func.dual import Dual, DualLevel
from ..func.forward import check_tangent
from ..levels import Level
from ..mode import local
from ..tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """A primal, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


class dual_level:
    """A context in which `make_dual` makes tensors with tangents; outside of it the tangents are gone.

    >>> import jitgrad as jg
    >>> import jitgrad.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(jg.tensor(3.0), jg.tensor(1.0))
    ...     print(forward_ad.unpack_dual(x * x).tangent)
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def enter_dual_level() -> int:
    """Begin a level; there may be one at a time."""
    if _level() is not None:
        raise located(OperationError("Nested forward mode AD is not supported at the moment"))
    ByHand().__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: tensors of it become their primals."""
    found = _level()
    if found is None:
        raise located(OperationError("Trying to exit a forward AD level but no level is entered"))
    found.__exit__()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the elements of `tensor` that carries `tangent`, of the same shape and dtype.

    Raises `RuntimeError` outside of a level, or if the two do not fit.
    """
    found = _level()
    if found is None:
        raise located(OperationError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                                     "enter_dual_level() first."))  # fmt: skip
    check_tangent(tensor, tangent)
    return found.dual(found.data_of(tensor).primal, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal of a tensor, and its tangent: None if it has none, or outside of a level."""
    found = _level()
    if found is None:
        return UnpackedDualTensor(tensor, None)
    data = found.data_of(tensor)
    return UnpackedDualTensor(data.primal, data.tangent)


class ByHand(DualLevel):
    """A level that the user begins and ends."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[weakref.ref[Tensor]] = []

    def note(self, made: Sequence[Tensor]) -> None:
        """They become their primals at the end."""
        self._made += map(weakref.ref, made)
        if len(self._made) & (len(self._made) - 1) == 0:
            self._made = [ref for ref in self._made if ref() is not None]

    def __enter__(self) -> Level:
        """Begin; gradients by the tape may be taken inside, too."""
        super().__enter__()
        local.mode.transforms -= 1
        return self

    def __exit__(self, *exc: object) -> None:
        """End; tensors that are still there become their primals."""
        local.mode.transforms += 1
        super().__exit__(*exc)
        for ref in self._made:
            t = ref()
            if t is not None and isinstance(t._data, Dual) and t._data.level is self:
                primal = t._data.primal
                t._data, t._storage = primal._data, storage_of(primal)
                if primal._requires_grad:
                    t._node, t._index, t._requires_grad = primal._node, primal._index, True


def _level() -> Any:
    levels = local.mode.levels
    return levels[-1] if levels and isinstance(levels[-1], ByHand) else None


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
