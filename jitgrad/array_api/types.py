"""Dtypes and what is known of them, as the standard has it, and the namespace's description of itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError
from jitgrad.ir.types import CPU

from .. import promotion
from ..errors import located
from ..functions import types
from ..functions.pointwise import convert
from ..mode import local
from ..tensor import Tensor

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_KINDS = {
    "bool": (dtypes.bool_,),
    "signed integer": _SIGNED,
    "unsigned integer": (dtypes.uint8, *dtypes.UNSIGNED),
    "real floating": (dtypes.float32, dtypes.float64),
    "complex floating": (dtypes.complex64, dtypes.complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_NARROW = {"real floating": (dtypes.float16, dtypes.bfloat16), "numeric": (dtypes.float16, dtypes.bfloat16)}


def _dtype(x: Any) -> DType:
    if isinstance(x, Tensor):
        return x.dtype
    if not isinstance(x, DType):
        raise located(ArgumentTypeError(f"an array or a dtype is needed, not {type(x).__name__}"))
    return x


def promoted(a: DType, b: DType) -> DType:
    """The common dtype of two arrays: PyTorch's, and for unsigned integers of any width the standard's."""
    if a.kind != "int" or b.kind != "int":
        return dtypes.promote(a, b)
    common = np.promote_types(a.np, b.np)
    if common.kind == "f":
        raise located(DTypeError(f"{a.name} and {b.name} have no common integer dtype"))
    return dtypes.FROM_NUMPY[common]


def in_common_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two arrays for all pairs of integer dtypes that have a common one in the standard."""

    @functools.wraps(function)
    def of_common(x1: Any, x2: Any, /, *args: Any, **options: Any) -> Any:
        return function(*alike(x1, x2), *args, **options)

    return of_common


def alike(*arrays: Any) -> Sequence[Any]:
    """Arrays of integers in their common dtype; others, and numbers, as they are."""
    found = {x.dtype for x in arrays if isinstance(x, Tensor)}
    if len(found) < 2 or any(d.kind != "int" for d in found):
        return arrays
    dtype = functools.reduce(promoted, found)
    return [convert(x, dtype) if isinstance(x, Tensor) else x for x in arrays]


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is of a kind ("bool", "integral", "real floating", ...), is another dtype, or any of several.

    >>> from jitgrad import array_api as xp
    >>> xp.isdtype(xp.float32, ("integral", "real floating"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in _KINDS:
        raise located(ArgumentError(f"isdtype: unknown kind {kind!r}; there are {', '.join(_KINDS)}"))
    return dtype in _KINDS[kind] or dtype in _NARROW.get(kind, ())


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether the standard's promotion rules take the dtype `from_` (or an array's) to `to`."""
    have = _dtype(from_)
    try:
        return promoted(have, to) is to
    except DTypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that operations on these arrays, dtypes and Python numbers have."""
    found: DType | None = None
    numbers = []
    for x in arrays_and_dtypes:
        if isinstance(x, (bool, int, float, complex)):
            numbers.append(x)
        else:
            found = _dtype(x) if found is None else promoted(found, _dtype(x))
    if found is None:
        raise located(ArgumentError("result_type: at least one array or dtype is needed"))
    for n in numbers:
        kind = promotion.number_dtype(n)
        if kind.is_complex and not found.is_complex:
            found = dtypes.to_complex(found) if found.is_floating_point else dtypes.promote(found, kind)
        elif kind.is_floating_point and not found.is_differentiable:
            found = dtypes.promote(found, kind)
    return found


class finfo(types.finfo):
    """The limits of a floating point dtype, or of an array's; `dtype` is that dtype."""

    def __init__(self, type: Any, /) -> None:
        super().__init__(_dtype(type))
        self.dtype = dtypes.to_real(_dtype(type))  # type: ignore[assignment]


class iinfo(types.iinfo):
    """The limits of an integer dtype, or of an array's; `dtype` is that dtype."""

    def __init__(self, type: Any, /) -> None:
        super().__init__(_dtype(type))
        self.dtype = _dtype(type)  # type: ignore[assignment]


class Info:
    """What the namespace can do: `__array_namespace_info__()`.

    >>> from jitgrad import array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["integral"]
    jitgrad.int64
    """

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on data work; there is no limit of dimensions but NumPy's."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The CPU."""
        return CPU

    def devices(self) -> list[Any]:
        """The CPU."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of what is made without one."""
        real = local.mode.default_dtype
        return {"real floating": real, "complex floating": dtypes.to_complex(real), "integral": dtypes.int64,
                "indexing": dtypes.int64}  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes by name, all or those of a kind."""
        every = _KINDS["bool"] + _KINDS["numeric"]
        return {d.name: d for d in every if kind is None or isdtype(d, kind)}


def namespace_info() -> Info:
    """The description of the namespace."""
    return Info()
