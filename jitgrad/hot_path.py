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
from .tensor import Size, Tensor, wrap

F = TypeVar("F", bound=Callable[..., Any])

CALLS = 500  # from the one on, which together take about as long as capturing and compiling, it is native
SMALL = 16384  # elements; above, the ops by themselves are kernels
_AS_A_CALL = 2048  # elements, which take NumPy about as long as a call
_KEPT = 256  # combinations of types of one function
_FEW = 256  # elements of a tensor that is kept to be copied
_PLAIN = frozenset((int, bool, str, type(None), DType))
# Public functions that are captured: each depends on its arguments alone, and makes new memory.
FUNCTIONS = frozenset([
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax", "any", "argmax",
    "argmin", "argsort", "baddbmm", "bernoulli", "binomial", "bmm", "cartesian_prod", "cat", "cdist", "clamp",
    "clamp_max", "clamp_min", "clone", "column_stack", "copysign", "corrcoef", "count_nonzero", "cov", "cross",
    "cummax", "cummin", "cumprod", "cumsum", "diag", "diag_embed", "diagflat", "diff", "dist", "dot", "dstack",
    "einsum", "flip", "fliplr", "flipud", "float_power", "floor_divide", "fmax", "fmin", "fmod", "frac", "gather",
    "heaviside", "hstack", "hypot", "index_add", "index_copy", "index_fill", "index_select", "inner", "isclose",
    "kron", "lerp", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logit", "logsumexp", "masked_fill",
    "matmul", "max", "mean", "min", "mm", "mv", "nan_to_num", "nanmean", "nansum", "norm", "outer", "poisson",
    "prod", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "remainder", "renorm", "repeat",
    "repeat_interleave", "roll", "rot90", "round", "scatter", "scatter_add", "sinc", "softmax", "stack", "std",
    "std_mean", "sum", "take", "take_along_dim", "tensordot", "tile", "trace", "tril", "triu", "var", "var_mean",
    "vdot", "vstack", "where", "xlogy",
])  # fmt: skip
_RECORDED = object()
_ndarray = np.ndarray
_contiguous = np.ascontiguousarray


class NativeCall(Protocol):
    """A captured call."""

    def __call__(self, tensors: list[Any], arrays: list[Any]) -> Any:
        """What the function gives for these tensors, whose data is `arrays`; None if it must be called itself."""


class Capture:
    """How calls are captured; set by `compiler`, which knows how functions become graphs."""

    make: ClassVar[Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], NativeCall | None]]
    is_row_major: ClassVar[Callable[[Any], bool]]


def _note(value: Any, key: list[Any], tensors: list[Any], arrays: list[Any], grad: bool) -> bool:
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
        arrays.append(data)
        return True
    if kind in _PLAIN:
        key += kind, value
        return True
    if kind is float:
        key += kind, value or repr(value)  # tells -0.0 from 0.0
        return True
    if kind is not tuple and kind is not list and kind is not Size:
        return False
    key += kind, len(value)
    for x in value:  # noqa: SIM110  # a generator takes twice as long
        if not _note(x, key, tensors, arrays, grad):
            return False
    return True


def _note_named(named: dict[str, Any], key: list[Any], tensors: list[Any], arrays: list[Any], grad: bool) -> bool:
    """The same for named arguments, of which `out` is written to."""
    for name, x in named.items():
        key.append(name)
        if (name == "out" and x is not None) or not _note(x, key, tensors, arrays, grad):
            return False
    return True


def calls_needed() -> int:
    """The call from which one is native: a later one if the code generator would have to be loaded for it."""
    return CALLS if "jitgrad.codegen.compile" in sys.modules else 40 * CALLS


def hot(f: F) -> F:
    """`f`, a function of its arguments alone whose results share no memory with them, native where it is called often.

    It may draw from the default generator. Tensors are arguments, or stand in lists and tuples that are.
    """
    calls: Memo[Any] = Memo(limit=_KEPT)
    get = calls.get

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        plain = mode.tracer is None and mode.autocast is None and not (mode.levels or mode.watches or mode.place)
        if not plain or SMALL < 0:
            return f(*args, **kwargs)
        key: list[Any] = [mode.default_dtype]
        tensors: list[Any] = []
        arrays: list[Any] = []
        for x in args:
            if x.__class__ is Tensor and (data := x._data).__class__ is _ndarray:
                key += data.shape, data.dtype
                if mode.grad and x._requires_grad:
                    key.append(_RECORDED)
                tensors.append(x)
                arrays.append(data)
            elif not _note(x, key, tensors, arrays, mode.grad):
                return f(*args, **kwargs)
        if kwargs and not _note_named(kwargs, key, tensors, arrays, mode.grad):
            return f(*args, **kwargs)
        found = get(whole := tuple(key))
        if found.__class__ is int:
            found += 1 + sum([x.size for x in arrays]) // _AS_A_CALL
            calls.put(whole, found if found <= calls_needed() else Capture.make(f, args, kwargs) or False)
        elif found:
            out = found(tensors, arrays)
            return out if out is not None else _of_strided(f, args, kwargs, tensors, found, calls, whole)
        elif found is None:
            calls.add(whole, 1)
        return f(*args, **kwargs)

    return function  # type: ignore[return-value]


def repeats(f: F) -> F:
    """`f`, which makes equal tensors of equal numbers: small ones that come again are copies of the first."""
    return _repeating(f, 0)


def repeats_like(f: F) -> F:
    """The same for what takes shape and dtype, and nothing else, from a tensor that is its first argument."""
    return _repeating(f, 1)


def _repeating(f: F, models: int) -> F:
    made: Memo[Any] = Memo(limit=_KEPT)
    get = made.get

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        if mode.tracer is not None or mode.levels or mode.place is not None or SMALL < 0:
            return f(*args, **kwargs)
        key: list[Any] = [mode.default_dtype]
        tensors: list[Any] = []
        for x in args:
            if x.__class__ is int:
                key.append(x)
            elif not _note(x, key, tensors, tensors, False):
                return f(*args, **kwargs)
        for name, x in kwargs.items():
            key.append(name)
            if not _note(x, key, tensors, tensors, False):
                return f(*args, **kwargs)
        if tensors and (not models or len(tensors) > 2 or args[0] is not tensors[0]):
            return f(*args, **kwargs)
        found = get(whole := tuple(key))
        if found is not None:
            return wrap(found.copy())
        out = f(*args, **kwargs)
        if out._data.__class__ is _ndarray and out._data.size <= _FEW and not out._requires_grad:
            made.add(whole, out._data.copy())
        return out

    return function  # type: ignore[return-value]


def _of_strided(
    f: Any, args: Any, kwargs: Any, tensors: list[Any], native: NativeCall, calls: Memo[Any], key: tuple[Any, ...]
) -> Any:
    """A call whose tensors lie otherwise than native code takes them: on copies, if its results are row-major."""
    arrays = [t._data for t in tensors]
    if all(a.flags.c_contiguous for a in arrays):
        return f(*args, **kwargs)
    key = *key, *[a.strides for a in arrays]
    found = calls.get(key)
    if found is None:
        out = f(*args, **kwargs)
        calls.add(key, Capture.is_row_major(out))
        return out
    out = native(tensors, [a if a.flags.c_contiguous else _contiguous(a) for a in arrays]) if found else None
    return f(*args, **kwargs) if out is None else out
