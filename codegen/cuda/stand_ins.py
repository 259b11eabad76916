"""The names that kernel source uses, on NumPy scalars: what Numba's simulator runs instead of the device's own.

`f32(x)` and the like convert as the device does, integers by wrapping. `libdevice` has the functions of NVIDIA's
library that kernels call; they give what NumPy gives, which is not to the last bit what a device gives.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from jitgrad.ir import special

Scalar = Any


def _conversion(kind: type[np.generic]) -> Callable[[Scalar], Scalar]:
    def convert(x: Scalar) -> Scalar:
        return np.asarray(x).astype(kind)[()]

    return convert


i8, i16, i32, i64 = (_conversion(k) for k in (np.int8, np.int16, np.int32, np.int64))
u8, u16, u32, u64 = (_conversion(k) for k in (np.uint8, np.uint16, np.uint32, np.uint64))
f16, f32, f64 = (_conversion(k) for k in (np.float16, np.float32, np.float64))


def _bits(source: type[np.generic], target: type[np.generic]) -> Callable[[Scalar], Scalar]:
    def reinterpret(x: Scalar) -> Scalar:
        return np.asarray(x, source).view(target)[()]

    return reinterpret


def _fmaf(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def _fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    return np.float64(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


def _half_bits(x: Scalar) -> Scalar:
    return np.float16(x).view(np.int16)


def _half_value(bits: Scalar) -> Scalar:
    return np.float32(np.asarray(bits, np.int16).view(np.float16)[()])


def _typed(function: Callable[..., Any], kind: type[np.generic]) -> Callable[..., Scalar]:
    def call(*args: Scalar) -> Scalar:
        return np.asarray(function(*args)).astype(kind)[()]

    return call


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "erf": special.erf, "erfc": special.erfc, "pow": np.power,
    "lgamma": special.lgamma, "fmod": np.fmod, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "fabs": np.fabs, "copysign": np.copysign, "ldexp": np.ldexp,
}  # fmt: skip

libdevice: Final = SimpleNamespace(
    **{name: _typed(f, np.float64) for name, f in _PLAIN.items()},
    **{f"{name}f": _typed(f, np.float32) for name, f in _PLAIN.items()},
    fmaf=_fmaf,
    fma=_fma,
    fadd_rn=_typed(np.add, np.float32),
    fsub_rn=_typed(np.subtract, np.float32),
    fmul_rn=_typed(np.multiply, np.float32),
    dadd_rn=_typed(np.add, np.float64),
    dmul_rn=_typed(np.multiply, np.float64),
    float_as_int=_bits(np.float32, np.int32),
    int_as_float=_bits(np.int32, np.float32),
    double_as_longlong=_bits(np.float64, np.int64),
    longlong_as_double=_bits(np.int64, np.float64),
    float2half_rn=_half_bits,
    half2float=_half_value,
)

NAMES: Final[dict[str, Any]] = {
    "i8": i8, "i16": i16, "i32": i32, "i64": i64, "u8": u8, "u16": u16, "u32": u32, "u64": u64, "f16": f16,
    "f32": f32, "f64": f64, "libdevice": libdevice,
}  # fmt: skip
"""What a namespace for kernel source needs besides `cuda`, `device_functions` and the types of shared arrays."""
