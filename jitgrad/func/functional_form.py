"""`functionalize`, a function without writes inside; `debug_unwrap`, what a tensor inside a transform holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import OperationError

from ..errors import located
from ..levels import LevelData
from ..tensor import Tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func`, for code that asks for a form of it without writes: what it computes, and what it writes to, is the same.

    Traces take writes out of what they capture by themselves, so that nothing is left to do here. `remove` is
    "mutations" or "mutations_and_views".

    >>> import jitgrad as jg
    >>> jg.func.functionalize(lambda x: x.clone().add_(1))(jg.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise located(
            OperationError(
                "functionalize(f, remove='mutations'): received invalid argument for remove: "
                f"{remove!r}. Valid options are 'mutations' and 'mutations_and_views'"
            )
        )

    @functools.wraps(func, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside a transform is made of, for looking at: all samples, or the primal.

    With `recurse`, that of all transforms around; else of the innermost.

    >>> import jitgrad as jg
    >>> seen = []
    >>> jg.vmap(lambda x: seen.append(jg.func.debug_unwrap(x)) or x)(jg.arange(3)), seen
    (tensor([0, 1, 2]), [tensor([0, 1, 2])])
    """
    while isinstance(tensor._data, LevelData):
        tensor = tensor._data.outer()
        if not recurse:
            break
    return tensor
