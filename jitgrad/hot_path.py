"""Functions of small tensors that are called again and again with the same types, as one native call.

`hot(f)` counts the calls of `f` by the types of its tensors and the values of its other arguments. What comes often
enough is captured as a graph, compiled so that arithmetic rounds as NumPy's does, and called from then on; what can't
be one graph of native steps stays as it is. A recorded call leaves the same nodes on the tape as `f` would.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from jitgrad.ir.dtypes import DType

from .memo import Memo
from .mode import local
from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

CALLS = 500  # from the one on, which together take about as long as capturing and compiling, it is native
SMALL = 16384  # elements; above, the ops by themselves are kernels
_KEPT = 256  # combinations of types of one function
_PLAIN = frozenset((int, bool, str, type(None), DType))
# Public functions that are captured: each depends on its arguments alone, and makes new memory.
FUNCTIONS = frozenset([
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax", "any", "argmax",
    "argmin", "baddbmm", "bmm", "cat", "cdist", "clamp", "clamp_max", "clamp_min", "column_stack", "copysign",
    "corrcoef", "count_nonzero", "cov", "cross", "cummax", "cummin", "cumprod", "cumsum", "diag", "diag_embed",
    "diagflat", "diff", "dist", "dot", "dstack", "einsum", "flip", "fliplr", "flipud", "float_power", "floor_divide",
    "fmax", "fmin", "fmod", "frac", "gather", "heaviside", "hstack", "hypot", "index_add", "index_copy", "index_fill",
    "index_select", "inner", "isclose", "kron", "lerp", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp",
    "logit", "logsumexp", "masked_fill", "matmul", "max", "mean", "min", "mm", "mv", "nan_to_num", "nanmean",
    "nansum", "norm", "outer", "prod", "remainder", "renorm", "repeat", "repeat_interleave", "roll", "rot90", "round",
    "scatter", "scatter_add", "sinc", "softmax", "stack", "std", "std_mean", "sum", "take", "take_along_dim",
    "tensordot", "tile", "trace", "tril", "triu", "var", "var_mean", "vdot", "vstack", "where", "xlogy",
])  # fmt: skip
_RECORDED = object()
_ndarray = np.ndarray


class NativeCall(Protocol):
    """A captured call."""

    def __call__(self, tensors: list[Any]) -> Any:
        """What the function gives for these tensors; None if it must be called itself."""


class Capture:
    """How calls are captured; set by `compiler`, which knows how functions become graphs."""

    make: ClassVar[Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], NativeCall | None]]


def _note(value: Any, key: list[Any], tensors: list[Any], grad: bool) -> bool:
    """Add what an argument says to the key; False if it can't be one of a captured call."""
    kind = value.__class__
    if kind is Tensor or isinstance(value, Tensor):
        data = value._data
        if data.__class__ is not _ndarray:
            return False
        key.append(data.shape)
        key.append(data.dtype)
        if grad and value._requires_grad:
            key.append(_RECORDED)
        tensors.append(value)
        return True
    if kind in _PLAIN:
        key += kind, value
        return True
    if kind is float:
        key += kind, value or repr(value)  # tells -0.0 from 0.0
        return True
    if kind is not tuple and kind is not list:
        return False
    key += kind, len(value)
    return all(_note(x, key, tensors, grad) for x in value)


def calls_needed() -> int:
    """The call from which one is native: a later one if the code generator would have to be loaded for it."""
    return CALLS if "jitgrad.codegen.compile" in sys.modules else 40 * CALLS


def hot(f: F) -> F:
    """`f`, a function of its arguments alone whose results share no memory with them, native where it is called often.

    Only what stands in positional arguments, or in lists and tuples there, may be a tensor.
    """
    calls: Memo[Any] = Memo(limit=_KEPT)
    get = calls.get

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        if mode.tracer is not None or mode.levels or mode.autocast is not None or mode.watches or SMALL < 0:
            return f(*args, **kwargs)
        grad = mode.grad
        key: list[Any] = [mode.default_dtype]
        tensors: list[Any] = []
        for x in args:
            if x.__class__ is Tensor and (data := x._data).__class__ is _ndarray:
                key += (data.shape, data.dtype, _RECORDED) if grad and x._requires_grad else (data.shape, data.dtype)
                tensors.append(x)
            elif not _note(x, key, tensors, grad):
                return f(*args, **kwargs)
        if kwargs:
            count = len(tensors)
            for name, x in kwargs.items():
                key.append(name)
                if not _note(x, key, tensors, grad) or len(tensors) != count:
                    return f(*args, **kwargs)
        found = get(whole := tuple(key))
        if found.__class__ is int:
            calls.put(whole, found + 1 if found < calls_needed() else Capture.make(f, args, kwargs) or False)
        elif found:
            out = found(tensors)
            if out is not None:
                return out
        elif found is None:
            calls.add(whole, 1)
        return f(*args, **kwargs)

    return function  # type: ignore[return-value]
