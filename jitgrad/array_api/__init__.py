"""jitgrad as a namespace of the Python array API standard (2024.12): `from jitgrad import array_api as xp`.

Its arrays are jitgrad's tensors, and gradients and compiling work as ever. What has PyTorch's meaning in `jitgrad`
and another in the standard (`max`, `sort`, `std`, `squeeze`, ...) has the standard's here. `Tensor.__array_namespace__`
gives this module, so that libraries written for the standard take tensors.

    >>> from jitgrad import array_api as xp
    >>> x = xp.asarray([[3.0, 1.0], [2.0, 4.0]])
    >>> xp.max(x, axis=0)
    tensor([3., 4.])
    >>> x.__array_namespace__() is xp
    True
"""

from __future__ import annotations

import math
import sys
from typing import Any

from jitgrad.ir.dtypes import bool_ as bool
from jitgrad.ir.dtypes import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from jitgrad.ir.errors import ArgumentError

from ..errors import located
from ..functions.registry import FUNCTIONS
from . import fft, linalg
from .creation import *  # noqa: F403
from .creation import __all__ as _creation
from .elementwise import *  # noqa: F403
from .elementwise import __all__ as _elementwise
from .manipulation import *  # noqa: F403
from .manipulation import __all__ as _manipulation
from .products import *  # noqa: F403
from .products import __all__ as _products
from .reductions import *  # noqa: F403
from .reductions import __all__ as _reductions
from .types import *  # noqa: F403
from .types import __all__ as _types
from .types import in_common_dtype
from .types import namespace_info as __array_namespace_info__

__array_api_version__ = "2024.12"

# Functions that PyTorch and the standard agree on.
_SAME = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_shapes", "ceil", "copysign", "cos", "cosh", "divide",
    "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive", "pow",
    "reciprocal", "remainder", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "where",
)  # fmt: skip
_OF_TWO = (
    "add", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "floor_divide",
    "greater", "greater_equal", "less", "less_equal", "maximum", "minimum", "multiply", "not_equal", "pow", "remainder",
    "subtract",
)  # fmt: skip
globals().update({name: FUNCTIONS[name] for name in _SAME})
globals().update({name: in_common_dtype(FUNCTIONS[name]) for name in _OF_TWO})
equal = in_common_dtype(FUNCTIONS["eq"])

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "bool", "complex64", "complex128", "e", "equal", "fft",
    "float32", "float64", "inf", "int8", "int16", "int32", "int64", "linalg", "nan", "newaxis", "pi", "uint8",
    "uint16", "uint32", "uint64",
    *_SAME, *_creation, *_elementwise, *_manipulation, *_products, *_reductions, *_types,
]  # fmt: skip


def namespace_of_version(version: str | None) -> Any:
    """This module, if it has that version of the standard (any, for None)."""
    if version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise located(ArgumentError(f"__array_namespace__: unknown version {version!r} of the array API standard"))
    return sys.modules[__name__]
