"""Elementwise functions: promote the operands, broadcast them, apply the op.

`pointwise` does that for any op. Functions, methods and in-place methods of ops that declare `public` names
are generated here; those with arguments of their own are written in `arithmetic` and `comparison`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError, DeviceError, DTypeError, ShapeError, operand_lines
from jitgrad.ir.graph import Value
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.arithmetic import Div, Mul
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.special_function import SinglePrecisionFunction
from jitgrad.ir.types import Shape

from ..autocast_lists import POINTWISE
from ..autocasting import autocast_operands
from ..device_ops import check_devices
from ..dispatch import apply, shared
from ..errors import located
from ..fast_path import binary_method, unary_method
from ..hot_path import hot
from ..mode import local
from ..promotion import Number, float_dtype, number_dtype, result_dtype
from ..runtime_float import RuntimeFloat
from ..tape import FIXED
from ..tensor import Tensor, wrap
from .registry import public

Operand = Tensor | Number
_MUL: Final = Mul()


def operand(x: Any, name: str, position: int) -> Operand:
    """`x` as a tensor or a Python number: NumPy scalars become numbers, and arrays tensors."""
    if isinstance(x, (Tensor, int, float, complex)):
        return x
    if isinstance(x, np.generic):
        return x.item()  # type: ignore[no-any-return]
    if isinstance(x, np.ndarray):
        return shared(x)
    raise located(
        ArgumentTypeError(f"{name}: argument {position} must be a Tensor or a number, not {type(x).__name__}")
    )


def is_operand(x: Any) -> bool:
    """Whether `x` can stand beside a tensor in arithmetic."""
    return isinstance(x, (Tensor, int, float, complex, np.generic, np.ndarray))


def broadcast_shape(name: str, tensors: Sequence[Tensor]) -> Shape:
    """The common shape of tensors, aligned at their last axes; raises if two do not fit."""
    shapes = {t._data.shape for t in tensors}
    if len(shapes) == 1:
        return shapes.pop()
    rank = max(map(len, shapes))
    out = [1] * rank
    for t in tensors:
        shape = t._data.shape
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and out[axis] == 1:
                out[axis] = n
            elif n not in (1, out[axis]):
                raise located(
                    ShapeError(
                        f"{name}: shapes do not broadcast: axis {axis - rank} is {out[axis]} in one operand "
                        f"and {n} in another{operand_lines([t.type_ for t in tensors])}"
                    )
                )
    return tuple(out)


def convert(t: Tensor, dtype: DType) -> Tensor:
    """`t` as `dtype`; itself if it has that dtype."""
    return t if t._data.dtype is dtype.np or t.dtype is dtype else apply(Convert(dtype), t)


def expand(t: Tensor, shape: Shape) -> Tensor:
    """`t` repeated to `shape`, for use as an operand: it shares the memory and the write count of `t`."""
    return t if t._data.shape == shape else apply(BroadcastTo(shape), t)


def filled(shape: Shape, dtype: DType, value: Number) -> Tensor:
    """An operand whose elements all are `value`, as a part of a function; it must not be written to."""
    made = repeated(shape, dtype, value)
    made._storage = FIXED
    return made


def repeated(shape: Shape, dtype: DType, value: Number) -> Tensor:
    """A tensor whose elements all are `value`; eagerly it takes no memory and must not be written to."""
    if dtype.kind == "int" and value.__class__ is float and not math.isfinite(value):
        raise located(DTypeError(f"value cannot be converted to type {dtype.name} without overflow"))
    tracer = local.mode.tracer
    if tracer is not None:
        made = apply(Full(tuple(shape), dtype, value))
        tracer.layout.repeated(tracer.value(made))
        return made
    if dtype.kind == "int":
        element = np.array(int(value), np.int64).astype(dtype.np)  # type: ignore[arg-type]
    else:
        element = np.array(value, dtype.np)
    if not shape:
        return wrap(element)
    if dtype is dtypes.bfloat16:  # which has no buffers
        return wrap(np.broadcast_to(element, shape))
    spread: np.ndarray[Any, Any] = np.ndarray(shape, element.dtype, element, 0, (0,) * len(shape))
    spread.flags.writeable = False
    return wrap(spread)


def broadcast(name: str, dtype: DType, *args: Operand) -> list[Tensor]:
    """Tensors and numbers as tensors of one shape and of `dtype`."""
    shape = broadcast_shape(name, [x for x in args if isinstance(x, Tensor)] or [repeated((), dtype, 0)])
    args = tuple([x._tensor if type(x) is RuntimeFloat and x._is_traced() else x for x in args])
    return [expand(convert(x, dtype), shape) if isinstance(x, Tensor) else repeated(shape, dtype, x) for x in args]


def pointwise(op: Pointwise, *args: Any) -> Tensor:
    """`op` of tensors and numbers, promoted by the op's rule and broadcast."""
    if local.mode.autocast is not None and op.name in POINTWISE:
        args = autocast_operands(op.name, *args)
    operands = [operand(x, op.name, i) for i, x in enumerate(args, 1)]
    if len(operands) == 1:
        (x,) = operands
        dtype = x.dtype if isinstance(x, Tensor) else number_dtype(x)
    else:
        dtype = result_dtype(*operands)
        _check_devices(op.name, operands)
    if op.promotes == "float":
        dtype = float_dtype(dtype)
    if dtype.itemsize == 2 and dtype.is_floating_point and _keeps_number(op, operands):
        return convert(apply(op, *broadcast(op.name, dtypes.float32, *operands)), dtype)
    return apply(op, *broadcast(op.name, dtype, *operands))


def scaled(x: Tensor, factor: Number, op: Pointwise = _MUL) -> Tensor:
    """`x * factor`, or `x / factor`, with a number that a function keeps as such, so that backward may come twice."""
    made = pointwise(op, x, factor)
    node = made._node
    if node is not None and node.op is not op:  # half types are computed in float32
        node = node.edges[0]
    if node is not None:
        node.owners = (None, FIXED, None)
    return made


def _check_devices(name: str, operands: Sequence[Operand]) -> None:
    try:
        check_devices(name, [x._data for x in operands if isinstance(x, Tensor) and x._data.__class__ is not Value])
    except DeviceError as error:
        raise located(error) from None


def _keeps_number(op: Pointwise, operands: Sequence[Operand]) -> bool:
    """Whether a half-type tensor is scaled by a number, which then is not rounded to the half type, as in PyTorch."""
    if isinstance(op, Div):
        return not isinstance(operands[1], Tensor)
    return isinstance(op, Mul) and any(not isinstance(x, Tensor) for x in operands)


def check_tensor(x: Any, name: str, argument: str = "'input' (position 1)") -> Tensor:
    """`x` if it is a tensor."""
    if not isinstance(x, Tensor):
        raise located(ArgumentTypeError(f"{name}: argument {argument} must be Tensor, not {type(x).__name__}"))
    return x


def check_tensors(name: str, input: Any, other: Any, numbers: str = "none") -> None:
    """Raise if `input` or `other` is a number where that can't be: see `Pointwise.numbers`."""
    first, second = (isinstance(x, (int, float, complex)) for x in (input, other))
    if (first and numbers in ("none", "second")) or (first and second and numbers == "either"):
        check_tensor(input, name)
    if second and numbers == "none":
        check_tensor(other, name, "'other' (position 2)")


def exact_dtypes(op: Pointwise) -> frozenset[np.dtype[Any]]:
    """The integer types and bool, if NumPy's function means the same as the op on two operands of one of them."""
    if op.promotes == "float" or not op.fast:
        return frozenset()
    return frozenset(d.np for d in dtypes.ALL if d.kind in ("bool", "int") and d.kind in op.accepts)


def weak_dtypes(op: Pointwise) -> frozenset[np.dtype[Any]]:
    """Of those, the types on which it does so too when the other operand is a Python integer.

    In a comparison NumPy would look at the integer's value, where PyTorch converts it to a narrow type first.
    """
    exact = exact_dtypes(op) - {np.dtype(np.bool_)}
    return exact & {np.dtype(np.int64)} if op.promotes == "comparison" else exact


Pair = tuple[Callable[..., Any], Callable[..., Any]]


def _unary(cls: type[Pointwise]) -> Pair:
    """The function and the method of an op with one operand."""
    op = cls()

    def general(x: Any) -> Tensor:
        return pointwise(op, x)

    if isinstance(op, SinglePrecisionFunction):  # NumPy has no short way
        fast = hot(general)
    else:
        fast = unary_method(op, hot(general)) if op.quick else hot(unary_method(op, general))

    def function(input: Tensor) -> Tensor:
        return fast(check_tensor(input, op.name))  # type: ignore[no-any-return]

    return function, fast


def _binary(cls: type[Pointwise]) -> Pair:
    """The function and the method of an op with two operands."""
    op = cls()

    @hot
    def general(input: Tensor | Number, other: Tensor | Number) -> Tensor:
        return pointwise(op, input, other)

    method: Callable[[Any, Any], Any] = general
    if isinstance(cls.ufunc, np.ufunc) and cls.fast:
        method = binary_method(op, general, exact_dtypes(op), weak_dtypes(op))

    def function(input: Tensor | Number, other: Tensor | Number) -> Tensor:
        if not isinstance(input, Tensor) or not isinstance(other, Tensor):
            check_tensors(op.name, input, other, cls.numbers)
            return general(input, other) if not isinstance(input, Tensor) else method(input, other)  # type: ignore
        return method(input, other)  # type: ignore[no-any-return]

    return function, method


def _general(cls: type[Pointwise]) -> Callable[..., Any]:
    """An op with fields, or of three operands: operands first, then fields by position or name."""
    fields = list(dataclasses.fields(cls))  # type: ignore[arg-type]
    kinds = inspect.Parameter
    names = ("input", "other", "third")[: cls.arity]
    parameters = [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in names]
    parameters += [
        kinds(
            f.name,
            kinds.POSITIONAL_OR_KEYWORD,
            default=kinds.empty if f.default is dataclasses.MISSING else f.default,
        )
        for f in fields
    ]
    signature = inspect.Signature(parameters)

    @hot
    def function(*args: Any, **kwargs: Any) -> Tensor:
        given = signature.bind(*args, **kwargs).arguments
        operands = [given.pop(n) for n in names]
        return pointwise(cls(**given), *operands)

    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def publish(cls: type[Pointwise]) -> None:
    """Make the functions, methods and in-place methods that an op declares."""
    if dataclasses.fields(cls) or cls.arity > 2:  # type: ignore[arg-type]
        function = method = _general(cls)
    else:
        function, method = _unary(cls) if cls.arity == 1 else _binary(cls)
    for published in (function, method):
        published.__doc__ = cls.__doc__
        published.__name__ = published.__qualname__ = cls.public[0]
    public(*cls.public, method=False, out=True, short=True)(function)
    public(*cls.public, function=False, inplace=cls.inplace, short=True)(method)


def _declared(cls: type[Op]) -> bool:
    return issubclass(cls, Pointwise) and bool(cls.public)


for _cls in filter(_declared, REGISTRY.values()):
    publish(_cls)  # type: ignore[arg-type]
