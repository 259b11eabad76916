"""jitgrad: tensors with PyTorch's API and meaning, compiled through a graph IR that can be read at every step."""

from __future__ import annotations

import math

from jitgrad.ir.config import config
from jitgrad.ir.dtypes import (
    DType as dtype,
)
from jitgrad.ir.dtypes import (
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
from jitgrad.ir.dtypes import bool_ as bool
from jitgrad.ir.errors import JitgradError

# Each of these publishes its functions and Tensor methods.
from . import (
    autograd,
    conversions,
    creation,
    cuda,
    formatting,
    indexing,
    nn,
    optim,
    random,
    serialization,
    utils,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .compiler import assert_no_compile, compile
from .device import device
from .functions import (
    arithmetic,
    assignment,
    comparison,
    composed,
    diagonals,
    einsum,
    gathering,
    joining,
    linalg,
    memory,
    operators,
    pointwise,
    reductions,
    repeating,
    scattering,
    shape,
    sorting,
    statistics,
    types,
)
from .functions.registry import FUNCTIONS
from .layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .random import Generator, default_generator
from .tensor import Size, Tensor

half, float, double, bfloat, int, long, short, cfloat, cdouble = (
    float16, float32, float64, bfloat16, int32, int64, int16, complex64, complex128,
)  # fmt: skip

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi

globals().update(FUNCTIONS)

__version__ = "0.1.0"
__all__ = [
    "Generator", "JitgradError", "Size", "Tensor", "arithmetic", "autograd", "bfloat", "bfloat16", "bool",
    "cdouble", "cfloat", "channels_last", "channels_last_3d", "compile", "complex128", "complex64", "config",
    "contiguous_format", "conversions", "creation", "cuda", "device", "double", "dtype", "enable_grad", "float",
    "float16", "float32", "float64", "formatting", "half", "indexing", "inference_mode", "int", "int16", "int32",
    "int64", "int8", "is_grad_enabled", "is_inference_mode_enabled", "layout", "linalg", "long", "memory",
    "memory_format", "nn", "no_grad", "operators", "optim", "pointwise", "preserve_format", "reductions",
    "set_grad_enabled", "shape", "short", "strided", "types", "uint8", "utils", *sorted(FUNCTIONS),
]  # fmt: skip
