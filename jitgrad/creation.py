"""Making tensors: from Python and NumPy data, filled ones, ranges.

Every function takes `dtype`, `device` ("cpu") and `requires_grad`, as in PyTorch. While a function is traced,
filled tensors and ranges become ops of the graph, and data becomes constants.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Div, Maximum, Mul, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.comparison import Eq, Lt
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.ops.math import Pow
from jitgrad.ir.ops.select import Convert, Where
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.symbols import is_tracked

from .device import as_device
from .dispatch import apply, constant, shared
from .errors import located
from .functions.dims import sizes
from .functions.pointwise import convert, filled, pointwise
from .functions.registry import public, write_out
from .hot_path import repeats, repeats_like
from .interchange import from_cuda_array_interface
from .mode import local
from .promotion import Number, number_dtype
from .sequences import array_of_sequence, known_dtype
from .tensor import Tensor, wrap

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
    if not isinstance(data, (Tensor, np.ndarray)) and hasattr(data, "__cuda_array_interface__"):
        data = from_cuda_array_interface(data)
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
    array, found = array_of_sequence(data, dtype)
    return np.array(_cast(array, check_dtype(dtype, found)), copy=True, order="C")


def _cast(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    with np.errstate(all="ignore"):
        return array if array.dtype == dtype.np else dtypes.converted(array, dtype)  # type: ignore[no-any-return]


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
    if not isinstance(data, np.ndarray) and hasattr(data, "__cuda_array_interface__"):
        t = from_cuda_array_interface(data)
        return convert(t, check_dtype(dtype, t.dtype))
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


_MAKERS: dict[Number, Callable[..., Any]] = {0: np.zeros, 1: np.ones}  # for types of NumPy's own


def _full(shape: Sequence[int], value: Number, dtype: DType, requires_grad: bool) -> Tensor:
    for n in shape:
        if n < 0:
            raise located(ShapeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}"))
    mode, make = local.mode, _MAKERS.get(value) if value.__class__ is int and dtype.np.kind in "fiubc" else None
    if make is not None and mode.tracer is None and mode.place is None and not mode.levels:
        out = wrap(make(shape, dtype.np))
    else:
        out = apply(Full(tuple(shape), dtype, value))
    return out.requires_grad_() if requires_grad else out


def check_out_dtype(dtype: DType | None, out: Tensor) -> None:
    """Raise unless `out` has the dtype asked for."""
    if dtype is not None and dtype is not out.dtype:
        raise located(DTypeError(f"dtype {dtype.name} does not match dtype of out parameter ({out.dtype.name})"))


def _filled_function(name: str, value: int, doc: str) -> Callable[..., Tensor]:
    def function(
        *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, pin_memory: bool = False, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        as_device(device)
        shape = sizes(size, f"{name}: size")
        if out is not None:
            check_out_dtype(dtype, out)
            return write_out(_full(shape, value, out.dtype, False), out, name, warn=False)
        return _full(shape, value, check_dtype(dtype, local.mode.default_dtype), requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public(name, method=False)(repeats(function))


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
@repeats
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
@repeats_like
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
    public(like.__name__, method=False)(repeats_like(like))
    public(new.__name__, function=False)(repeats_like(new))


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
@repeats
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
    first, last, by = bounds = [_number(x) for x in (start or 0, end or 0, step)]
    integral = all(isinstance(x, int) for x in bounds)
    fallback = dtypes.int64 if integral else local.mode.default_dtype
    want = check_dtype(dtype, fallback if out is None else out.dtype)
    _check_range("arange", first, last, by)
    if by and not want.is_differentiable and int(by) == 0:
        raise located(ArgumentError(f"arange: step must be nonzero, but {by} is 0 as {want.name}"))
    made = _finish(_ramp(_count(first, last, by, want), *_cut((first, by), want), want), requires_grad)
    return made if out is None else _write_line(made, out, "arange")


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, (Tensor, np.generic)) else x


def _check_range(name: str, first: Number, last: Number, by: Number) -> None:
    if by == 0:
        raise located(OperationError(f"{name}: step must be nonzero"))
    if not (math.isfinite(first) and math.isfinite(last)):  # type: ignore[arg-type]
        raise located(OperationError(f"{name}: unsupported range: {first} -> {last}"))
    if (last - first) * by < 0:
        raise located(OperationError(f"{name}: upper bound and lower bound inconsistent with step sign"))


def _cut(values: Sequence[Any], dtype: DType) -> list[Any]:
    """Numbers of the kind of `dtype`: PyTorch rounds the ends of ranges of integers towards zero first."""
    return [v if dtype.is_differentiable else int(v) for v in values]


def _count(first: Any, last: Any, by: Any, dtype: DType) -> int:
    """How many numbers there are from `first` up to `last`, which is left out."""
    if dtype is dtypes.int64:
        first, last, by = (int(x) for x in (first, last, by))
    if all(isinstance(x, int) for x in (first, last, by)):
        return -((first - last) // by)
    return math.ceil((last - first) / by)


def _write_line(made: Tensor, out: Tensor, name: str) -> Tensor:
    """Write a vector to `out`, whose shape is kept if it has as many elements."""
    count = made.shape[0]
    fits = out.type_.numel == count and out.dtype is made.dtype
    return write_out(apply(Reshape(tuple(out.shape)), made) if fits else made, out, name, warn=name == "arange")


@public("range", method=False)
def range_(
    start: Number = 0, end: Number | None = None, step: Number = 1, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The numbers from `start` to `end`, included, by `step`: PyTorch's deprecated form of `arange`."""
    warnings.warn("jitgrad.range is deprecated: use jitgrad.arange, which leaves out the end", stacklevel=2)
    as_device(device)
    first, last, by = (_number(x) for x in ((0, start, step) if end is None else (start, end, step)))
    _check_range("range", first, last, by)
    want = check_dtype(dtype, local.mode.default_dtype)
    made = _finish(_ramp(math.floor((last - first) / by) + 1, *_cut((first, by), want), want), requires_grad)
    return made if out is None else _write_line(made, out, "range")


def _ends(name: str, start: Any, end: Any, steps: int, dtype: DType) -> tuple[Any, Any]:
    if steps < 0:
        raise located(OperationError(f"{name}: number of steps must be non-negative"))
    for what, x in (("start", start), ("end", end)):
        if isinstance(x, Tensor) and x.ndim:
            raise located(
                OperationError(f"{name} only supports 0-dimensional start and end tensors, but got {what} with "
                               f"{x.ndim} dimension(s).")
            )  # fmt: skip
    first, last = _cut([_number(x) for x in (start, end)], dtype)
    return first, last


@public(method=False)
@repeats
def linspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`steps` numbers evenly spaced from `start` to `end`, both included.

    >>> import jitgrad as jg
    >>> jg.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    as_device(device)
    want = _spaced_dtype(start, end, dtype, out)
    made = _finish(convert(_spaced(*_ends("linspace", start, end, steps, want), steps), want), requires_grad)
    return made if out is None else _write_line(made, out, "linspace")


def _spaced_dtype(start: Any, end: Any, dtype: DType | None, out: Tensor | None) -> DType:
    """The dtype asked for; without one the default, complex if an end is."""
    if dtype is None and out is not None:
        return out.dtype
    is_complex = any(isinstance(_number(x), complex) for x in (start, end))
    otherwise = dtypes.to_complex(local.mode.default_dtype) if is_complex else local.mode.default_dtype
    return check_dtype(dtype, otherwise)


def _spaced(first: Any, last: Any, steps: int) -> Tensor:
    """In float64 or complex128; each half counted from its own end, so that both ends are exact."""
    is_complex = any(isinstance(x, complex) for x in (first, last))
    wide = dtypes.complex128 if is_complex else dtypes.float64
    shape = (steps,)
    half = filled(shape, dtypes.float64, steps // 2)
    if is_tracked(steps):  # one graph for all numbers of them, a single one too
        one = filled(shape, dtypes.float64, 1)
        gaps = apply(Maximum(), filled(shape, dtypes.float64, steps - 1), one)
        step = apply(Div(), filled(shape, wide, last - first), convert(gaps, wide))
        half = apply(Maximum(), half, one)
    elif steps < 2:
        return apply(Full(shape, wide, first))
    else:
        step = filled(shape, wide, (last - first) / (steps - 1))
    index = apply(Iota(shape, 0, dtypes.float64))
    rest = apply(Sub(), filled(shape, dtypes.float64, steps - 1), index)
    up = apply(Add(), filled(shape, wide, first), apply(Mul(), step, convert(index, wide)))
    down = apply(Sub(), filled(shape, wide, last), apply(Mul(), step, convert(rest, wide)))
    return apply(Where(), apply(Lt(), index, half), up, down)


@public(method=False)
@repeats
def logspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, base: float = 10.0, *, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`steps` numbers from `base**start` to `base**end`, evenly spaced in their logarithms.

    >>> import jitgrad as jg
    >>> jg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    as_device(device)
    want = _spaced_dtype(start, end, dtype, out)
    powers = pointwise(Pow(), base, _spaced(*_ends("logspace", start, end, steps, want), steps))
    made = _finish(convert(powers, want), requires_grad)
    return made if out is None else _write_line(made, out, "logspace")


@public(method=False)
@repeats
def scalar_tensor(
    s: Number, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of a number, in the default dtype unless another is given.

    >>> import jitgrad as jg
    >>> jg.scalar_tensor(3)
    tensor(3.)
    """
    as_device(device)
    return _full((), s, check_dtype(dtype, local.mode.default_dtype), requires_grad)


@public(method=False)
@repeats
def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
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
    fallback = local.mode.default_dtype if out is None else out.dtype
    made = _finish(convert(on_diagonal, check_dtype(dtype, fallback)), requires_grad)
    return made if out is None else write_out(made, out, "eye", warn=False)
