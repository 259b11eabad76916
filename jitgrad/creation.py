"""Making tensors: from Python and NumPy data, filled ones, ranges.

Every function takes `dtype`, `device` ("cpu") and `requires_grad`, as in PyTorch. While a function is traced,
filled tensors and ranges become ops of the graph, and data becomes constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Mul, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.comparison import Eq, Lt
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.ops.math import Pow
from jitgrad.ir.ops.select import Convert, Where

from .device import as_device
from .dispatch import apply, constant, shared
from .errors import located
from .functions.dims import sizes
from .functions.pointwise import convert, filled, pointwise
from .functions.registry import public, write_out
from .mode import local
from .promotion import Number, number_dtype
from .sequences import array_of_sequence, known_dtype
from .tensor import Tensor

_PYTHON_DTYPES = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool_,
    complex: dtypes.complex128,
}


def check_dtype(dtype: Any, otherwise: DType) -> DType:
    """`dtype`, or `otherwise` for None; Python's `float`, `int`, `bool` and `complex` are dtypes too."""
    if dtype is None:
        return otherwise
    if isinstance(dtype, DType):
        return dtype
    named = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}.get(dtype)
    if named is None:
        raise located(ArgumentTypeError(f"dtype must be a jitgrad.dtype, not {type(dtype).__name__}"))
    return named


def _finish(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_() if requires_grad else t


# ---------------------------------------------------------------------------------------------- from data


@public(method=False)
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor with a copy of `data`: a number, nested sequences of numbers, an array or a tensor.

    Python floats get the default dtype, integers int64; arrays and tensors keep theirs.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    as_device(device)
    if isinstance(data, Tensor):
        out = apply(Convert(check_dtype(dtype, data.dtype)), data.detach())
    elif isinstance(data, np.ndarray) and local.mode.tracer is not None:
        known_dtype(data.dtype)
        out = apply(Convert(check_dtype(dtype, known_dtype(data.dtype))), shared(data))
    else:
        out = constant(_array_of(data, dtype))
    return _finish(out, requires_grad)


def _array_of(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """A fresh array of the dtype that `data` calls for, or of `dtype`."""
    if isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array_interface__"):
        array = np.asarray(data)
        have = known_dtype(array.dtype)
        want = check_dtype(dtype, have)
        return np.array(_cast(array, want), copy=True, order="C")
    array, found = array_of_sequence(data)
    return np.array(_cast(array, check_dtype(dtype, found)), copy=True, order="C")


def _cast(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    with np.errstate(all="ignore"):
        return array.astype(dtype.np, copy=False)


@public(method=False)
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with an array, and itself if it is a tensor, when the dtype fits.

    >>> import jitgrad as jg
    >>> jg.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    as_device(device)
    if isinstance(data, Tensor):
        return convert(data, check_dtype(dtype, data.dtype))
    if isinstance(data, np.ndarray) and data.dtype in dtypes.FROM_NUMPY:
        t = from_numpy(data)
        return convert(t, check_dtype(dtype, t.dtype))
    return tensor(data, dtype=dtype)


public("asarray", method=False)(as_tensor)


@public(method=False)
def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that shares the array's memory.

    >>> import numpy as np
    >>> import jitgrad as jg
    >>> a = np.zeros(2)
    >>> t = jg.from_numpy(a)
    >>> a[0] = 1
    >>> t
    tensor([1., 0.], dtype=jitgrad.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise located(ArgumentTypeError(f"expected np.ndarray (got {type(ndarray).__name__})"))
    known_dtype(ndarray.dtype)
    return shared(ndarray)


# ------------------------------------------------------------------------------------------------ filled


def _full(shape: Sequence[int], value: Number, dtype: DType, requires_grad: bool) -> Tensor:
    for n in shape:
        if n < 0:
            raise located(ShapeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}"))
    out = apply(Full(tuple(shape), dtype, value))
    return out.requires_grad_() if requires_grad else out


def _filled_function(name: str, value: int, doc: str) -> Callable[..., Tensor]:
    def function(
        *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, pin_memory: bool = False, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        as_device(device)
        shape = sizes(size, f"{name}: size")
        if out is not None:
            return write_out(_full(shape, value, out.dtype, False), out, name, warn=False)
        return _full(shape, value, check_dtype(dtype, local.mode.default_dtype), requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public(name, method=False)(function)


zeros = _filled_function("zeros", 0, """A tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`.

>>> import jitgrad as jg
>>> jg.zeros(2)
tensor([0., 0.])
""")  # fmt: skip
ones = _filled_function("ones", 1, """A tensor of ones: `ones(2, 3)` or `ones((2, 3))`.

>>> import jitgrad as jg
>>> jg.ones(2, dtype=jg.int32)
tensor([1, 1], dtype=jitgrad.int32)
""")  # fmt: skip
empty = _filled_function("empty", 0, """A tensor whose values are not specified (they are zero).""")


@public(method=False)
def full(
    size: Any, fill_value: Number | Tensor, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A tensor whose elements all are `fill_value`, with the dtype that number calls for.

    >>> import jitgrad as jg
    >>> jg.full((2, 2), 3)
    tensor([[3, 3],
            [3, 3]])
    """
    as_device(device)
    shape = sizes((size,), "full: size")
    if isinstance(fill_value, Tensor):
        made = apply(BroadcastTo(shape), convert(fill_value, check_dtype(dtype, fill_value.dtype)))
        made = _finish(apply(Convert(made.dtype), made), requires_grad)
    else:
        made = _full(shape, fill_value, check_dtype(dtype, number_dtype(fill_value)), requires_grad)
    return made if out is None else write_out(made, out, "full", warn=False)


@public(method=False)
def full_like(
    input: Tensor, fill_value: Number, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of the shape and dtype of `input` whose elements all are `fill_value`."""
    return full(
        tuple(input.shape), fill_value, dtype=check_dtype(dtype, input.dtype), device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def _like_function(name: str, value: int) -> None:
    def like(
        input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        as_device(device)
        return _full(tuple(input.shape), value, check_dtype(dtype, input.dtype), requires_grad)

    def new(
        self: Tensor, *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        as_device(device)
        return _full(sizes(size, name), value, check_dtype(dtype, self.dtype), requires_grad)

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"`{name}` in the shape and dtype of `input`."
    new.__name__ = new.__qualname__ = f"new_{name}"
    new.__doc__ = f"`{name}` in the dtype of this tensor."
    public(like.__name__, method=False)(like)
    public(new.__name__, function=False)(new)


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _like_function(_name, _value)


@public(function=False)
def new_full(
    self: Tensor, size: Any, fill_value: Number, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`full` in the dtype of this tensor."""
    return full(size, fill_value, dtype=check_dtype(dtype, self.dtype), requires_grad=requires_grad)


@public(function=False)
def new_tensor(
    self: Tensor, data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`tensor(data)` in the dtype of this tensor."""
    return tensor(data, dtype=check_dtype(dtype, self.dtype), requires_grad=requires_grad)


# ------------------------------------------------------------------------------------------------ ranges


def _ramp(count: int, start: Number, step: Number, dtype: DType) -> Tensor:
    """`start + i * step`, in float64 for floats, as `dtype`."""
    wide = dtypes.int64 if not dtype.is_differentiable else dtypes.float64
    t = apply(Iota((count,), 0, wide))
    if step != 1:
        t = apply(Mul(), t, filled((count,), wide, step))
    if start != 0:
        t = apply(Add(), t, filled((count,), wide, start))
    return convert(t, dtype)


@public(method=False)
def arange(
    start: Number | None = None, end: Number | None = None, step: Number = 1, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The numbers from `start` (0 if only one bound is given) up to `end`, which is left out, by `step`.

    Integers give int64, floats the default dtype.

    >>> import jitgrad as jg
    >>> jg.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    as_device(device)
    if end is None:
        start, end = None, start
    bounds = [x.item() if isinstance(x, (Tensor, np.generic)) else x for x in (start or 0, end or 0, step)]
    first, last, by = bounds
    if by == 0:
        raise located(OperationError("arange: step must be nonzero"))
    if (last - first) * by < 0:
        raise located(OperationError("arange: upper bound and lower bound inconsistent with step sign"))
    integral = all(isinstance(x, int) for x in bounds)
    want = check_dtype(dtype, dtypes.int64 if integral else local.mode.default_dtype)
    count = -((first - last) // by) if integral else math.ceil((last - first) / by)
    if not want.is_differentiable:
        first, by = int(first), int(by)
    made = _finish(_ramp(count, first, by, want), requires_grad)
    return made if out is None else write_out(made, out, "arange", warn=False)


@public(method=False)
def linspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`steps` numbers evenly spaced from `start` to `end`, both included.

    >>> import jitgrad as jg
    >>> jg.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    as_device(device)
    if steps < 0:
        raise located(OperationError("linspace: number of steps must be non-negative"))
    first, last = (float(x.item() if isinstance(x, Tensor) else x) for x in (start, end))
    want = check_dtype(dtype, local.mode.default_dtype)
    made = _finish(convert(_spaced(first, last, steps), want), requires_grad)
    return made if out is None else write_out(made, out, "linspace", warn=False)


def _spaced(first: float, last: float, steps: int) -> Tensor:
    """In float64; each half counted from its own end, so that both ends are exact."""
    if steps < 2:
        return apply(Full((steps,), dtypes.float64, first))
    wide, shape = dtypes.float64, (steps,)
    step = filled(shape, wide, (last - first) / (steps - 1))
    index = apply(Iota(shape, 0, wide))
    rest = apply(Sub(), filled(shape, wide, steps - 1), index)
    up = apply(Add(), filled(shape, wide, first), apply(Mul(), step, index))
    down = apply(Sub(), filled(shape, wide, last), apply(Mul(), step, rest))
    return apply(Where(), apply(Lt(), index, filled(shape, wide, steps // 2)), up, down)


@public(method=False)
def logspace(
    start: Number, end: Number, steps: int, base: float = 10.0, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from `base**start` to `base**end`, evenly spaced in their logarithms.

    >>> import jitgrad as jg
    >>> jg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    as_device(device)
    powers = pointwise(Pow(), base, _spaced(float(start), float(end), steps))
    return _finish(convert(powers, check_dtype(dtype, local.mode.default_dtype)), requires_grad)


@public(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal and zeros elsewhere, `n` by `m` (`n` by `n` without `m`).

    >>> import jitgrad as jg
    >>> jg.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    as_device(device)
    shape = (n, n if m is None else m)
    for letter, size in zip("nm", shape, strict=True):
        if size < 0:
            raise located(OperationError(f"{letter} must be greater or equal to 0, got {size}"))
    on_diagonal = apply(Eq(), apply(Iota(shape, 0)), apply(Iota(shape, 1)))
    return _finish(convert(on_diagonal, check_dtype(dtype, local.mode.default_dtype)), requires_grad)
