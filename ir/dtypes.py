"""Element types: one `DType` per type, their NumPy counterparts, and PyTorch's promotion table."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from .errors import DTypeError

_KIND_ORDER: Final = {"bool": 0, "int": 1, "float": 2, "complex": 3}


class DType:
    """An element type. One object per type, compared by identity; `repr` is `jitgrad.float32`."""

    __slots__ = ("is_signed", "itemsize", "kind", "name", "np", "short")

    def __init__(self, name: str, short: str, np_type: Any, kind: str, is_signed: bool = True) -> None:
        self.name = name
        self.short = short
        self.np: np.dtype[Any] = np.dtype(np_type)
        self.kind = kind
        self.itemsize: int = self.np.itemsize
        self.is_signed = is_signed

    @property
    def is_floating_point(self) -> bool:
        """True for float16, bfloat16, float32 and float64."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.kind == "complex"

    @property
    def is_differentiable(self) -> bool:
        """True where gradients exist: floating-point and complex types."""
        return self.kind in ("float", "complex")

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return by_name, (self.name,)

    def __deepcopy__(self, memo: Any) -> DType:
        return self


bool_ = DType("bool", "bool", np.bool_, "bool", is_signed=False)
uint8 = DType("uint8", "u8", np.uint8, "int", is_signed=False)
uint16 = DType("uint16", "u16", np.uint16, "int", is_signed=False)
uint32 = DType("uint32", "u32", np.uint32, "int", is_signed=False)
uint64 = DType("uint64", "u64", np.uint64, "int", is_signed=False)
int8 = DType("int8", "i8", np.int8, "int")
int16 = DType("int16", "i16", np.int16, "int")
int32 = DType("int32", "i32", np.int32, "int")
int64 = DType("int64", "i64", np.int64, "int")
float16 = DType("float16", "f16", np.float16, "float")
bfloat16 = DType("bfloat16", "bf16", ml_dtypes.bfloat16, "float")
float32 = DType("float32", "f32", np.float32, "float")
float64 = DType("float64", "f64", np.float64, "float")
complex64 = DType("complex64", "c64", np.complex64, "complex")
complex128 = DType("complex128", "c128", np.complex128, "complex")

ALL: Final = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64,
    complex128,
)  # fmt: skip
UNSIGNED: Final = (uint16, uint32, uint64)  # which PyTorch promotes to floating-point types alone
FROM_NUMPY: Final[dict[Any, DType]] = {d.np: d for d in ALL}
_BY_NAME: Final = {d.name: d for d in ALL}
_BY_SHORT: Final = {d.short: d for d in ALL}


def converted(x: Any, dtype: DType) -> Any:
    """An array as another type. bfloat16 becomes an integer by way of float32, whose values out of range are NumPy's.

    >>> converted(np.float32([-2]).astype(bfloat16.np), uint8)
    array([254], dtype=uint8)
    """
    if x.dtype == bfloat16.np and dtype.kind == "int":
        x = x.astype(np.float32)
    return x.astype(dtype.np)


def by_name(name: str) -> DType:
    """The dtype called `float32` etc.; `KeyError` for others."""
    return _BY_NAME[name]


def by_short(short: str) -> DType:
    """The dtype printed as `f32` etc.; `KeyError` for others."""
    return _BY_SHORT[short]


def to_real(dtype: DType) -> DType:
    """The type of a complex type's parts; other types unchanged."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def to_complex(dtype: DType) -> DType:
    """The complex type whose parts are `dtype` (half types give complex64)."""
    return dtype if dtype.is_complex else (complex128 if dtype is float64 else complex64)


def promote(a: DType, b: DType) -> DType:
    """The common type of two tensors of equal rank category, as in `torch.promote_types`, which refuses some."""
    if a is b:
        return a
    if (a in UNSIGNED and not b.is_floating_point) or (b in UNSIGNED and not a.is_floating_point):
        both = f"{a.name} and {b.name}"
        raise DTypeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {both}")
    ka, kb = _KIND_ORDER[a.kind], _KIND_ORDER[b.kind]
    if ka < kb:
        a, b, ka, kb = b, a, kb, ka
    if a.is_complex:
        wide = a is complex128 or b in (complex128, float64)
        return complex128 if wide else complex64
    if ka > kb:
        return a
    if a.kind == "float":
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if a.itemsize >= b.itemsize else b
    return _promote_integers(a, b)


def _promote_integers(a: DType, b: DType) -> DType:
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed = a if a.is_signed else b
    return int16 if signed.itemsize == 1 else signed
