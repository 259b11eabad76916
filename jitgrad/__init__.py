"""jitgrad: tensors with PyTorch's API and meaning, compiled through a graph IR that can be read at every step."""

from __future__ import annotations

import importlib
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
    uint16,
    uint32,
    uint64,
)
from jitgrad.ir.dtypes import bool_ as bool
from jitgrad.ir.errors import JitgradError

# Each of these publishes its functions and Tensor methods.
from . import (
    amp,
    autograd,
    backends,
    conversions,
    cpu,
    creation,
    cuda,
    dump,
    fft,
    formatting,
    func,
    indexing,
    linalg,
    nn,
    optim,
    overrides,
    profiler,
    random,
    sampling,
    serialization,
    settings,
    signal,
    special,
    storage,
    tensor_types,
    utils,
)
from .amp.autocast_mode import (
    autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd import forward_ad as _forward_ad
from .autograd import functional as _functional
from .autograd import gradcheck as _gradcheck
from .compiler import assert_no_compile, compile
from .device import device, get_default_device, set_default_device
from .export import export, load_program
from .func import vmap
from .functions import (
    arithmetic as _arithmetic,
)
from .functions import (
    assignment as _assignment,
)
from .functions import (
    combinations as _combinations,
)
from .functions import (
    comparison as _comparison,
)
from .functions import (
    complex as _complex,
)
from .functions import (
    composed as _composed,
)
from .functions import (
    control as _control,
)
from .functions import (  # last: they take over what the others have published
    copies as _copies,
)
from .functions import (
    covariance as _covariance,
)
from .functions import (
    diagonals as _diagonals,
)
from .functions import (
    differences as _differences,
)
from .functions import (
    einsum as _einsum,
)
from .functions import (
    elements as _elements,
)
from .functions import (
    gathering as _gathering,
)
from .functions import (
    histograms as _histograms,
)
from .functions import (
    inplace as _inplace,
)
from .functions import (
    joining as _joining,
)
from .functions import (
    linalg as _linalg,
)
from .functions import (
    memory as _memory,
)
from .functions import (
    operators as _operators,
)
from .functions import (
    pointwise as _pointwise,
)
from .functions import (
    positions as _positions,
)
from .functions import (
    quantiles as _quantiles,
)
from .functions import (
    reductions as _reductions,
)
from .functions import (
    repeating as _repeating,
)
from .functions import (
    scans as _scans,
)
from .functions import (
    scattering as _scattering,
)
from .functions import (
    searching as _searching,
)
from .functions import (
    shape as _shape,
)
from .functions import (
    sorting as _sorting,
)
from .functions import (
    special as _special,
)
from .functions import (
    statistics as _statistics,
)
from .functions import (
    strided as _strided,
)
from .functions import (
    types as _types,
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
from .linalg import distances as _distances
from .linalg import older as _older
from .random import Generator, default_generator
from .signal import older as _windows
from .signal import stft as _stft
from .tensor import Size, Tensor

half, float, double, bfloat, int, long, short, cfloat, cdouble = (
    float16, float32, float64, bfloat16, int32, int64, int16, complex64, complex128,
)  # fmt: skip

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

globals().update(FUNCTIONS)
globals().update(tensor_types.TYPES)
vars(cuda).update(tensor_types.CUDA_TYPES)
autograd.gradcheck, autograd.gradgradcheck = _gradcheck.gradcheck, _gradcheck.gradgradcheck  # type: ignore
autograd.GradcheckError = _gradcheck.GradcheckError  # type: ignore[attr-defined]

_LAZY = ("array_api", "masked", "testing", "train", "vision")  # modules that few scripts need


def __getattr__(name: str) -> object:
    """Modules that are loaded when first asked for."""
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"
# Not among them: bool, float and int, which would hide the built-in names.
__all__ = [
    "Generator", "JitgradError", "Size", "Tensor", "amp", "array_api", "assert_no_compile", "autocast", "autograd",
    "bfloat", "bfloat16",
    "cdouble", "cfloat", "channels_last", "channels_last_3d", "compile", "complex64", "complex128", "config",
    "contiguous_format", "cuda", "default_generator", "device", "double", "dtype", "dump", "enable_grad", "export",
    "fft", "float16", "float32", "float64", "func", "get_default_device", "half", "inference_mode", "int8", "int16",
    "int32", "int64", "is_grad_enabled", "is_inference_mode_enabled", "layout", "linalg", "load_program", "long",
    "masked", "memory_format", "nn", "no_grad", "optim", "preserve_format", "profiler", "random", "set_default_device",
    "set_grad_enabled", "short", "signal", "special", "strided", "testing", "train", "uint8", "uint16", "uint32",
    "uint64", "utils", "vision", "vmap",
]  # fmt: skip
