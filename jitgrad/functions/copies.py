"""Views as copies: `view_copy`, `permute_copy` and the others, in memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .registry import public

_VIEWS = (
    "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select", "slice", "split", "split_with_sizes",
    "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "view_as_complex", "view_as_real",
)  # fmt: skip


def _copying(name: str) -> Callable[..., Any]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = getattr(input, name)(*args, **kwargs)
        return tuple([t.clone() for t in out]) if isinstance(out, tuple) else out.clone()

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"`Tensor.{name}` in memory of its own."
    return function


for _name in _VIEWS:
    _function = _copying(_name)
    public(_function.__name__, method=_name == "narrow", out=True)(_function)


@public(method=False, out=True)
def alias_copy(input: Tensor) -> Tensor:
    """A copy of `input`."""
    return input.clone()  # type: ignore[attr-defined, no-any-return]
