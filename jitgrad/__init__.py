"""jitgrad: tensors with PyTorch's API and meaning, compiled through a graph IR that can be read at every step."""

from __future__ import annotations

import warnings as _warnings

# Floating-point exceptions follow IEEE 754 silently, as in PyTorch.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jitgrad\.dispatch")

from jitgrad.ir.config import config  # noqa: E402
from jitgrad.ir.dtypes import (  # noqa: E402
    DType as dtype,
)
from jitgrad.ir.dtypes import (  # noqa: E402
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from jitgrad.ir.dtypes import bool_ as bool  # noqa: E402

from . import conversions as _conversions  # noqa: E402, F401
from . import creation as _creation  # noqa: E402, F401
from . import formatting as _formatting  # noqa: E402, F401
from . import indexing as _indexing  # noqa: E402, F401
from .device import device  # noqa: E402
from .functions import arithmetic as _arithmetic  # noqa: E402, F401
from .functions import memory as _memory  # noqa: E402, F401
from .functions import linalg as _linalg  # noqa: E402, F401
from .functions import operators as _operators  # noqa: E402, F401
from .functions import pointwise as _pointwise  # noqa: E402, F401
from .functions import rearrange as _rearrange  # noqa: E402, F401
from .functions import reductions as _reductions  # noqa: E402, F401
from .functions import shape as _shape  # noqa: E402, F401
from .functions import types as _types  # noqa: E402, F401
from .functions.registry import FUNCTIONS as _FUNCTIONS  # noqa: E402
from .tensor import Size, Tensor  # noqa: E402

half, float, double, bfloat, int, long, short, cfloat, cdouble = (
    float16, float32, float64, bfloat16, int32, int64, int16, complex64, complex128,
)  # fmt: skip

globals().update(_FUNCTIONS)

__version__ = "0.1.0"
__all__ = ["Size", "Tensor", "config", "device", "dtype", *sorted(_FUNCTIONS)]
