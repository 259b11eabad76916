"""Parameters and buffers without a shape, which lazy modules have until they see their first input."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError

from ..creation import empty
from ..errors import located
from ..tensor import Tensor
from .parameter import Buffer, Parameter

_NEEDS_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` "
    "when trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the "
    "parameters before accessing their attributes."
)


class _Uninitialized:
    """What both kinds share."""

    __slots__ = ()

    cls_to_become: type[Tensor]

    @property
    def shape(self) -> Any:
        """There is none yet: raises `RuntimeError`."""
        raise located(UninitializedError(_NEEDS_SHAPE))

    def materialize(self, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Get this shape, with unset numbers, and become an ordinary parameter or buffer."""
        made = empty(shape, dtype=dtype or self.dtype, device=device or self.device)  # type: ignore[attr-defined]
        requires_grad = self.requires_grad  # type: ignore[attr-defined]
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.data = made
        self.requires_grad_(requires_grad)  # type: ignore[attr-defined]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"


class UninitializedError(ArgumentError, RuntimeError):
    """What needs the shape of a parameter or buffer that has none yet."""


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known yet.

    >>> UninitializedParameter()
    <UninitializedParameter>
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> UninitializedParameter:  # fmt: skip
        return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)  # type: ignore[return-value]


class UninitializedBuffer(_Uninitialized, Buffer):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: DType | None = None, persistent: bool = True
    ) -> UninitializedBuffer:  # fmt: skip
        made = super().__new__(cls, empty(0, device=device, dtype=dtype), persistent=persistent)
        made.requires_grad_(requires_grad)  # type: ignore[attr-defined]
        return made  # type: ignore[return-value]


def is_lazy(t: Any) -> bool:
    """Whether a tensor has no shape yet."""
    return isinstance(t, _Uninitialized)
