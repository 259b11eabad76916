"""Norms of vectors and matrices, the condition number and the rank."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, DimError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Abs, Maximum, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Eq, Gt, IsNan, Ne
from jitgrad.ir.ops.complex import Conj, Real
from jitgrad.ir.ops.math import Pow
from jitgrad.ir.ops.reduction import Amax, Amin
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.ops.spectral import EighVals, SvdVals
from jitgrad.ir.ops.statistics import SumOfSquares

from ..dispatch import apply
from ..errors import located
from ..functions.dims import Dims, normalize_dim, reduced_axes
from ..functions.pointwise import broadcast, check_tensor, convert, expand, filled, pointwise
from ..functions.reductions import reduction
from ..functions.statistics import root
from ..hot_path import hot
from ..tensor import Tensor
from .arguments import column, epsilon, floating, function, matrices, square
from .solving import inverse_and_info

Order = float | str | None


def converted(name: str, x: Tensor, dtype: DType | None) -> Tensor:
    """`x` as `dtype`, of the same kind and not narrower."""
    if dtype is None:
        return x
    if dtype.is_complex is not x.dtype.is_complex or not dtype.is_differentiable:
        raise located(
            DTypeError(
                f"{name}: dtype should be {'complex' if x.dtype.is_complex else 'real floating point'} for "
                f"{x.dtype.name} inputs, but got {dtype.name}"
            )
        )
    if dtypes.promote(x.dtype, dtype) is not dtype:
        raise located(
            DTypeError(
                f"{name}: the dtype of the input ({x.dtype.name}) should be convertible without narrowing to the "
                f"specified dtype ({dtype.name})"
            )
        )
    return convert(x, dtype)


def _check_not_empty(name: str, x: Tensor, order: float, axes: tuple[int, ...], dim: Dims) -> None:
    """Norms that are extremes have none of no elements."""
    if x.type_.numel or not (order < 0 or order == math.inf):
        return
    if (dim is None or dim == () or dim == []) and (x.ndim == 0 or len(axes) == x.ndim):
        raise located(
            OperationError(
                f"{name} cannot compute the {order:g} norm on an empty tensor because the operation does not have "
                "an identity"
            )
        )
    for a in axes:
        if x.shape[a] == 0:
            raise located(
                OperationError(
                    f"{name} cannot compute the {order:g} norm on the dimension {a} because this dimension is empty "
                    "and the operation does not have an identity"
                )
            )


def vector_norm_of(x: Tensor, order: float, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """The norm over `axes`, real; half types are summed in float32. Gradients are 0 where they are not unique."""
    narrow = dtypes.to_real(x.dtype)
    if x.dtype.itemsize == 2:
        x = convert(x, dtypes.float32)
    if order == 2.0:
        if axes and math.prod(x.shape[a] for a in axes) == 1:
            return convert(reduction(Sum, axes, keepdim)(apply(Abs(), x)), narrow)
        if not x.dtype.is_complex:
            return convert(root(reduction(SumOfSquares, axes, keepdim)(x)), narrow)
        squares = apply(Real(), apply(Mul(), x, apply(Conj(), x)))
        return convert(root(reduction(Sum, axes, keepdim)(squares)), narrow)
    size = apply(Abs(), x)
    if order in (math.inf, -math.inf):
        return convert(reduction(Amax if order > 0 else Amin, axes, keepdim)(size), narrow)
    if order == 1.0:
        return convert(reduction(Sum, axes, keepdim)(size), narrow)
    is_zero = apply(Eq(), size, filled(size._data.shape, size.dtype, 0))
    if order == 0.0:
        counted = convert(apply(Ne(), size, filled(size._data.shape, size.dtype, 0)), size.dtype)
        # recorded as a function of the elements, with gradient zero, as in PyTorch
        never = filled(size._data.shape, dtypes.bool_, False)
        return convert(reduction(Sum, axes, keepdim)(apply(Where(), never, size, counted)), narrow)
    powers = _masked_power(size, is_zero, order)
    total = reduction(Sum, axes, keepdim)(powers)
    return convert(
        _masked_power(total, apply(Eq(), total, filled(total._data.shape, total.dtype, 0)), 1 / order), narrow
    )


def _masked_power(x: Tensor, is_zero: Tensor, exponent: float) -> Tensor:
    """`x ** exponent`, with gradient 0 at 0."""
    shape, dtype = x._data.shape, x.dtype
    powered = apply(Pow(), apply(Where(), is_zero, filled(shape, dtype, 1), x), filled(shape, dtype, exponent))
    return apply(Where(), is_zero, filled(shape, dtype, 0.0 if exponent > 0 else math.inf), powered)


@hot
@function
def vector_norm(
    x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The `ord`-norm of the elements over `dim`, or of all: the root of the sum of powers of absolute values.

    `ord` may be infinite, negative or 0 (which counts elements that are not zero). The gradient is 0 at 0.

    >>> import jitgrad as jg
    >>> jg.linalg.vector_norm(jg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    name = "linalg.vector_norm"
    given = converted(name, floating(name, x, half=True), dtype)
    if isinstance(ord, str) or not isinstance(ord, (int, float)):
        raise located(ArgumentError(f"{name}: ord must be a number, not {ord!r}"))
    axes = reduced_axes(dim, given.ndim)
    _check_not_empty(name, given, float(ord), axes, dim)
    return vector_norm_of(given, float(ord), axes, bool(keepdim))


def _matrix_dims(name: str, x: Tensor, dim: Any) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise located(OperationError(f"{name}: dim must be a 2-tuple. Got {dim}"))
    a, b = (normalize_dim(d, x.ndim) for d in dim)
    if a == b:
        raise located(OperationError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})"))
    return a, b


def _singular_values(x: Tensor, rows: int, columns: int) -> Tensor:
    """Of the matrices that two dims make, as a last dim."""
    rest = tuple(a for a in range(x.ndim) if a not in (rows, columns))
    return apply(SvdVals(), apply(Permute((*rest, rows, columns)), x))


def _extreme(name: str, sizes: Tensor, largest: bool, axis: int) -> Tensor:
    """The largest (of none 0) or smallest size along `axis`, which stays with length 1."""
    if sizes.shape[axis]:
        return reduction(Amax if largest else Amin, (axis,), True)(sizes)
    if largest:
        return reduction(Sum, (axis,), True)(sizes)
    raise located(DimError(f"{name}: Expected reduction dim {axis} to have non-zero size."))


def matrix_norm_of(name: str, x: Tensor, order: float | str, dims: tuple[int, int], keepdim: bool) -> Tensor:
    """A norm of the matrices that two dims make."""
    rows, columns = dims
    if order == "fro":
        return vector_norm_of(x, 2.0, tuple(sorted(dims)), keepdim)
    if order == "nuc" or order in (2, -2):
        values = _singular_values(floating(name, x), rows, columns)
        if order == "nuc":
            out = reduction(Sum, (values.ndim - 1,), False)(values)
        else:
            out = _extreme(name, values, order == 2, values.ndim - 1)
            out = out.reshape(tuple(out.shape[:-1]))  # type: ignore[attr-defined]
        shape = tuple(1 if a in dims else n for a, n in enumerate(x.shape))
        return out.reshape(shape) if keepdim else out  # type: ignore[attr-defined, no-any-return]
    if order not in (1, -1, math.inf, -math.inf):
        raise located(OperationError(f"{name}: Order {order} not supported."))
    assert not isinstance(order, str)
    summed, taken = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = vector_norm_of(x, 1.0, (summed,), True)
    out = _extreme(name, sums, order > 0, taken)
    if keepdim:
        return out
    kept = tuple(n for a, n in enumerate(x.shape) if a not in dims)
    return out.reshape(kept)  # type: ignore[attr-defined, no-any-return]


@function
def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """A norm of matrices: "fro" (root of the sum of squares), "nuc" (sum of singular values), 2 (the largest), 1
    (largest sum of a column), inf (of a row); or with a minus the smallest instead of the largest.

    >>> import jitgrad as jg
    >>> jg.linalg.matrix_norm(jg.tensor([[1.0, 2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    name = "linalg.matrix_norm"
    x = check_tensor(A, name)
    if x.ndim < 2:
        raise located(ShapeError(f"{name}: The input tensor A must have at least 2 dimensions."))
    x = converted(name, floating(name, x, half=True), dtype)
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise located(OperationError(f"{name}: Order {ord} not supported."))
    return matrix_norm_of(name, x, ord, _matrix_dims(name, x, dim), bool(keepdim))


@hot
@function
def norm(
    A: Tensor, ord: Order = None, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """A norm of vectors (`ord` a number, one `dim`) or of matrices (two, or a name); without `ord`, of all elements.

    >>> import jitgrad as jg
    >>> jg.linalg.norm(jg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = check_tensor(A, "linalg.norm")
    dims = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if dims is not None and len(dims) not in (1, 2):
        raise located(OperationError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}"))
    if isinstance(ord, str):
        if dims is None and x.ndim != 2:
            raise located(
                OperationError(f"linalg.norm: If dim is not specified but ord is, the input must be 2D. Got {x.ndim}D.")
            )
        return matrix_norm(x, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    if dims is None and ord is not None and x.ndim not in (1, 2):
        raise located(
            OperationError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {x.ndim}D."
            )
        )
    if ord is not None and ((dims is not None and len(dims) == 2) or (dims is None and x.ndim == 2)):
        return matrix_norm(x, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(x, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@function
def cond(A: Tensor, p: Order = None) -> Tensor:
    """The condition number: the norm of a matrix times that of its inverse; without `p` that of the 2-norm.

    Infinite for singular matrices.

    >>> import jitgrad as jg
    >>> jg.linalg.cond(jg.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    x = matrices("linalg.cond", A)
    if p is None or p in (2, -2):
        if not x.type_.numel:
            return x.new_zeros(x.shape[:-2], dtype=dtypes.to_real(x.dtype))  # type: ignore[attr-defined, no-any-return]
        values = apply(SvdVals(), x)
        first, last = values[..., 0], values[..., -1]  # type: ignore[index]
        return last / first if p == -2 else first / last  # type: ignore[no-any-return]
    if (isinstance(p, str) and p not in ("fro", "nuc")) or not isinstance(p, (str, int, float)):
        raise located(OperationError(f"linalg.cond got an invalid norm type: {p}"))
    if not isinstance(p, str) and p not in (1, -1, math.inf, -math.inf):
        raise located(OperationError(f"linalg.cond got an invalid norm type: {p}"))
    square("linalg.cond", x)
    if not x.type_.numel:
        return x.new_zeros(x.shape[:-2], dtype=dtypes.to_real(x.dtype))  # type: ignore[attr-defined, no-any-return]
    inverse, info = inverse_and_info(x)
    singular = apply(Ne(), info, filled(info._data.shape, info.dtype, 0))
    singular = expand(column(column(singular)), tuple(x.shape))
    inverse = apply(Where(), singular, filled(tuple(x.shape), x.dtype, math.inf), inverse)
    sizes = [matrix_norm_of("linalg.cond", t, p, (x.ndim - 2, x.ndim - 1), False) for t in (x, inverse)]
    product = sizes[0] * sizes[1]  # type: ignore[operator]
    shape = tuple(product.shape)
    return apply(Where(), apply(IsNan(), product), filled(shape, product.dtype, math.inf), product)


def limits(name: str, x: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """Absolute and relative tolerances for singular values, each of the shape of the batch.

    The relative one is `max(m, n)` times the dtype's precision, unless it or a positive absolute one is given.
    """
    real, batch = dtypes.to_real(x.dtype), tuple(x.shape[:-2])
    for given in (atol, rtol):
        if isinstance(given, Tensor) and given.dtype.is_complex:
            raise located(DTypeError(f"{name}: atol and rtol tensors must not be complex. Got {given.dtype.name}"))
    default = epsilon(x) * max(x.shape[-2:])
    absolute: Any = 0.0 if atol is None else atol
    if rtol is not None:
        relative: Any = rtol
    elif isinstance(absolute, Tensor):
        zero = filled(tuple(absolute.shape), real, 0)
        relative = apply(Where(), pointwise(Gt(), absolute, 0), zero, filled(tuple(absolute.shape), real, default))
    else:
        relative = 0.0 if absolute > 0 else default
    absolute, relative, _ = broadcast(name, real, absolute, relative, filled(batch, real, 0))
    return absolute, relative


@function
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `max(atol, rtol * the largest)`; `tol` is an `atol` with `rtol` 0.

    >>> import jitgrad as jg
    >>> jg.linalg.matrix_rank(jg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    name = "torch.linalg.matrix_rank"
    x = (square if hermitian else matrices)(name, A)
    if tol is not None:
        atol, rtol = tol, 0.0
    x = x.detach()  # type: ignore[attr-defined]
    absolute, relative = limits(name, x, atol, rtol)
    batch = tuple(absolute.shape)
    if not x.type_.numel:
        return x.new_zeros(batch, dtype=dtypes.int64)  # type: ignore[attr-defined, no-any-return]
    values = apply(Abs(), apply(EighVals(), x)) if hermitian else apply(SvdVals(), x)
    axis = values.ndim - 1
    largest = reduction(Amax, (axis,), False)(values)
    limit = apply(Maximum(), absolute, apply(Mul(), relative, expand(largest, batch)))
    shape = (*batch, values.shape[-1])
    above = apply(Gt(), expand(values, shape), expand(column(limit), shape))
    return reduction(Sum, (len(shape) - 1,), False)(convert(above, dtypes.int64))
