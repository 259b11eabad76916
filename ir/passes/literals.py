"""What rules ask about operands: what made them, which are constants, and of what value."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np

from ..builder import Builder
from ..dtypes import DType
from ..graph import Node, Value
from ..op import Op
from ..ops.creation import Constant, Full, Literal
from ..tracked import computed, decided, now
from ..types import TensorType

_O = TypeVar("_O", bound=Op)
_NEAR: Final = 0.1  # no dtype rounds to 0 or 1 from further away; most numbers are told apart by that alone


def made_by(value: Value, kind: type[_O]) -> _O | None:
    """The op that `value` is the result of, if it is a `kind`."""
    return value.node.op if value.node is not None and isinstance(value.node.op, kind) else None


def producer(value: Value, kind: type[Op]) -> Node | None:
    """The node that `value` is the result of, if its op is a `kind`."""
    return value.node if value.node is not None and isinstance(value.node.op, kind) else None


def operand_of(value: Value, kind: type[Op]) -> Value | None:
    """The first operand of the `kind` op that makes `value`, if one does."""
    node = producer(value, kind)
    return None if node is None else node.operands[0]


def number_of(value: Value) -> Any:
    """The number that all elements of `value` are, as its dtype holds it; None if it is no `Full`."""
    op = made_by(value, Full)
    return None if op is None else computed(rounded, op.value, op.dtype)


def rounded(number: Any, dtype: DType) -> Any:
    """`number` as `dtype` holds it, as a Python number.

    >>> from jitgrad.ir import dtypes
    >>> rounded(0.1, dtypes.float32)
    0.10000000149011612
    """
    with np.errstate(all="ignore"):
        held = np.asarray(number, dtype.np)
    return float(held) if dtype.is_floating_point else held.item()


def is_number(value: Value, number: float) -> bool:
    """Whether all elements of `value` are `number`; tells 0.0 from -0.0, and takes integers for floats."""
    full = made_by(value, Full)
    if full is None or isinstance(full.value, complex) or abs(now(full.value) - number) > _NEAR:
        return False
    return bool(decided(_is_exactly, full.value, full.dtype, number))


def _is_exactly(value: Any, dtype: DType, number: float) -> bool:
    held = rounded(value, dtype)
    return held.hex() == float(number).hex() if isinstance(held, float) else bool(held == number)


def array_of(value: Value) -> np.ndarray[Any, Any] | None:
    """The array that `value` is, if it is a constant; a `Full` is not spread out, but broadcast."""
    constant = made_by(value, Constant)
    if constant is not None:
        return constant.literal.array
    return np.broadcast_to(element_of(value), value.shape) if made_by(value, Full) is not None else None


def element_of(value: Value) -> np.ndarray[Any, Any]:
    """The element of a `Full`, as a 0-d array."""
    full = made_by(value, Full)
    assert full is not None
    with np.errstate(all="ignore"):
        return np.asarray(full.value, full.dtype.np)


def emit_array(b: Builder, array: np.ndarray[Any, Any], type: TensorType) -> Value:
    """A constant of `type`: a `Full` where all elements are the same to the bit, else a `Constant`."""
    number = uniform_element(array)
    if number is not None:
        return b(Full(type.shape, type.dtype, number, type.device))
    return b(Constant(Literal(array), type.device))


def uniform_element(array: np.ndarray[Any, Any]) -> Any:
    """The one number in `array` (0 if there is none at all), or None if they differ in any bit."""
    if array.size == 0:
        return 0
    flat = np.ascontiguousarray(array).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    if not (raw == raw[0]).all():
        return None
    return float(flat[0]) if array.dtype.kind not in "biuc" else flat[0].item()
