"""Type promotion: which dtype an operation on several operands computes in, by PyTorch's rules.

Operands come in three ranks: tensors with dimensions, 0-d tensors, Python numbers. A higher rank decides the
dtype within its category (bool < integer < floating point < complex); a lower rank only lifts the category.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError

from .mode import local
from .tensor import Tensor

_CATEGORY = {"bool": 0, "int": 1, "float": 2, "complex": 3}

Number = bool | int | float | complex


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that holds both: categories first, then widths.

    >>> import jitgrad as jg
    >>> jg.promote_types(jg.int32, jg.float16)
    jitgrad.float16
    """
    return dtypes.promote(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a result of dtype `from_` may be written to a tensor of dtype `to`: never to a lower category.

    >>> import jitgrad as jg
    >>> jg.can_cast(jg.float64, jg.float32), jg.can_cast(jg.float32, jg.int64)
    (True, False)
    """
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and to.kind in ("int", "bool"):
        return False
    return not (from_.kind != "bool" and to.kind == "bool")


def default_complex() -> DType:
    """The complex dtype whose parts have the default dtype."""
    return dtypes.to_complex(local.mode.default_dtype)


def number_dtype(value: Number) -> DType:
    """The dtype a Python number has on its own: bool, int64, the default float or complex dtype."""
    kind = value.__class__
    if kind is bool:
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    if isinstance(value, float):
        return local.mode.default_dtype
    if isinstance(value, complex):
        return default_complex()
    raise ArgumentTypeError(f"not a number: {type(value).__name__}")


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """The dtype of a higher rank, lifted to the category of a lower one."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return dtypes.to_complex(higher) if lower.is_complex else higher
    if higher.kind == "bool" or _CATEGORY[lower.kind] > 1:
        return dtypes.promote(higher, lower)
    return higher


def result_dtype(*operands: Tensor | Number) -> DType:
    """The common dtype of tensors and Python numbers."""
    ranks: list[DType | None] = [None, None, None]
    for x in operands:
        if isinstance(x, Tensor):
            rank, dtype = (0 if x.ndim else 1), x.dtype
        else:
            rank, dtype = 2, number_dtype(x)
        before = ranks[rank]
        ranks[rank] = dtype if before is None else dtypes.promote(before, dtype)
    found = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    if found is None:
        raise ArgumentTypeError("result_type: needs at least one operand")
    return found


def result_type(*tensors: Any) -> DType:
    """The dtype that arithmetic on these tensors and Python numbers gives.

    >>> import jitgrad as jg
    >>> jg.result_type(jg.tensor([1, 2]), 1.0)
    jitgrad.float32
    """
    return result_dtype(*[x.item() if isinstance(x, np.generic) else x for x in tensors])


def float_dtype(dtype: DType) -> DType:
    """`dtype` if it is floating point or complex, else the default dtype."""
    return dtype if dtype.is_differentiable else local.mode.default_dtype


def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats; float32 unless set.

    >>> import jitgrad as jg
    >>> jg.get_default_dtype()
    jitgrad.float32
    """
    return local.mode.default_dtype


def set_default_dtype(d: DType) -> None:
    """Set the dtype of tensors made from Python floats, in this thread; a floating point dtype.

    >>> import jitgrad as jg
    >>> jg.set_default_dtype(jg.float32)
    """
    if not isinstance(d, DType) or not d.is_floating_point:
        raise ArgumentTypeError(f"set_default_dtype: only floating-point types are supported, not {d!r}")
    local.mode.default_dtype = d
