"""Functions about dtypes: promotion rules, the default dtype, the limits of numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError

from .. import promotion
from ..errors import located
from ..mode import local
from .registry import FUNCTIONS, public

for _function in (
    promotion.can_cast,
    promotion.get_default_dtype,
    promotion.promote_types,
    promotion.result_type,
    promotion.set_default_dtype,
):
    public(method=False)(_function)


class finfo:
    """The limits of a floating point dtype (the default one unless given), as Python floats.

    >>> import jitgrad as jg
    >>> jg.finfo(jg.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: DType | None = None) -> None:
        dtype = local.mode.default_dtype if type is None else type
        if not isinstance(dtype, DType) or not dtype.is_differentiable:
            raise located(ArgumentTypeError(f"jitgrad.finfo() requires a floating point input type, not {dtype!r}"))
        real = dtypes.to_real(dtype)
        limits = ml_dtypes.finfo(real.np)
        self.dtype = real.name
        self.bits = 8 * real.itemsize
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype, as Python integers.

    >>> import jitgrad as jg
    >>> jg.iinfo(jg.int8).max
    127
    """

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType) or type.kind != "int":
            raise located(ArgumentTypeError(f"jitgrad.iinfo() requires an integer input type, not {type!r}"))
        limits = np.iinfo(type.np)
        self.dtype = type.name
        self.bits = limits.bits
        self.max = int(limits.max)
        self.min = int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


FUNCTIONS["finfo"] = finfo
FUNCTIONS["iinfo"] = iinfo
