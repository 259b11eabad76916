"""Which results of a call a replay can hand out again, beside tensors."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np

from jitgrad.ir.dtypes import DType
from jitgrad.ir.types import Device

from ..tensor import Tensor
from .deferred import Later

_MUTABLE = (list, dict, OrderedDict, defaultdict)  # types that `pytree` looks into
_CONSTANT = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), tuple, frozenset, range,
    slice, type, np.generic, np.dtype, DType, Device,
)  # fmt: skip
_OWN_REFERENCES = 3  # to a value in a container: the container's, the loop's and the question's


def unrepeatable(box: list[Any]) -> str | None:
    """Why the result, the only item of `box`, is not what another call would return; None if it is.

    A container that something else holds is known to the program, which may change it or expect it to be changed; a
    new object of an unknown type would be the same one at every call.
    """
    stack: list[Any] = [box]
    while stack:
        for x in _children(stack.pop()):
            known = sys.getrefcount(x) > _OWN_REFERENCES
            kind = type(x)
            if kind is tuple or (isinstance(x, tuple) and hasattr(x, "_fields")):
                stack.append(x)
            elif kind in _MUTABLE or (dataclasses.is_dataclass(x) and not isinstance(x, type)):
                if known:
                    return f"it returns a {kind.__name__} that exists outside the call"
                stack.append(x)
            elif not known and not isinstance(x, (Tensor, Later, *_CONSTANT)):
                return f"it returns a new {kind.__name__}"
    return None


def _children(container: Any) -> Collection[Any]:
    if isinstance(container, (list, tuple)):
        return container
    return container.values() if isinstance(container, dict) else vars(container).values()
