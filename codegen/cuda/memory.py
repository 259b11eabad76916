"""Element types on the device: how they lie in memory, and what they are while computing.

In memory a bool is a byte, 0 or 1, and bfloat16 its 16 bits. In registers half types are float32 values that are always
exactly representable in the half type, as on the CPU.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

HALF_TYPES: Final = (dtypes.float16, dtypes.bfloat16)

MEMORY_NAME: Final[dict[DType, str]] = {
    dtypes.bool_: "uint8", dtypes.uint8: "uint8", dtypes.int8: "int8", dtypes.int16: "int16", dtypes.int32: "int32",
    dtypes.int64: "int64", dtypes.uint16: "uint16", dtypes.uint32: "uint32", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.bfloat16: "uint16", dtypes.float32: "float32", dtypes.float64: "float64",
}  # fmt: skip
"""The Numba type of an element in memory."""

PARAM_FORM: Final[dict[DType, Any]] = {
    dtypes.bool_: np.uint8, dtypes.float16: np.float32, dtypes.bfloat16: np.float32,
}  # fmt: skip
"""How params are passed that are not passed as they are."""

_VIEWS: Final = {dtypes.bool_.np: np.uint8, dtypes.bfloat16.np: np.uint16}


def register_name(dtype: DType) -> str:
    """The short name of the type that values of `dtype` have while computing: "f32" for half types."""
    return "f32" if dtype in HALF_TYPES else dtype.short


def memory_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A contiguous array, flat and in memory form; it shares its memory.

    >>> memory_view(np.array([[True, False]]))
    array([1, 0], dtype=uint8)
    """
    flat = array.reshape(-1)
    return flat.view(_VIEWS.get(array.dtype, array.dtype))
