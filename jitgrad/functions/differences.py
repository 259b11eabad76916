"""Differences and integrals along a dimension: `diff`, `gradient`, `trapezoid`, `cumulative_trapezoid`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentTypeError, DimError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Sub
from jitgrad.ir.ops.comparison import Ne

from ..dispatch import apply
from ..errors import located
from ..promotion import Number
from ..tensor import Tensor
from .arithmetic import alias_free
from .dims import normalize_dim, normalize_dims
from .joining import cat, stretch
from .pointwise import check_tensor, pointwise, scaled
from .reductions import cumsum, sum
from .registry import numpy_names, public
from .shape import reshape


def _extended(name: str, x: Tensor, axis: int, before: Tensor | None, after: Tensor | None) -> Tensor:
    """`x` with others before and behind it along an axis."""
    for t in (before, after):
        if t is not None and t.ndim != x.ndim:
            raise located(ShapeError(f"{name} expects prepend or append to be the same dimension as input"))
    if before is None and after is None:
        return x
    return cat([t for t in (before, x, after) if t is not None], axis)


@public(out=True)
@numpy_names
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along `dim`, taken `n` times; of bools, where neighbours differ.

    >>> import jitgrad as jg
    >>> jg.diff(jg.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    x = check_tensor(input, "diff")
    if x.ndim == 0:
        raise located(ShapeError("diff expects input to be at least one-dimensional"))
    if n < 0:
        raise located(OperationError(f"diff: order must be non-negative but got {n}"))
    axis = normalize_dim(dim, x.ndim)
    if n == 0:
        return alias_free(x)
    x = _extended("diff", x, axis, prepend, append)
    op = Ne() if x.dtype.kind == "bool" else Sub()
    for _ in range(n):
        left = x.shape[axis] - 1
        if left <= 0:
            return alias_free(stretch(x, axis, 0, 0))
        x = apply(op, stretch(x, axis, 1, left), stretch(x, axis, 0, left))
    return x


def _spacings(x: Tensor, spacing: Any, axes: tuple[int, ...]) -> list[Number | Tensor]:
    """A distance, or coordinates, for each axis."""
    if spacing is None:
        spacing = 1
    if not isinstance(spacing, (tuple, list)):
        return [spacing] * len(axes)
    if len(spacing) != len(axes):
        raise located(
            ShapeError(
                "gradient expected spacing to be unspecified, a scalar or a list of length equal to the number of "
                f"dims ({len(axes)}), but got a list of length {len(spacing)}"
            )
        )
    for axis, s in zip(axes, spacing, strict=True):
        if isinstance(s, Tensor) and s.ndim and (s.ndim != 1 or s.shape[0] != x.shape[axis]):
            raise located(
                ShapeError(
                    f"gradient expected each tensor to have the length of its dimension: {x.shape[axis]} for "
                    f"dimension {axis}, but got shape {list(s.shape)}"
                )
            )
    return list(spacing)


@public(method=False)
@numpy_names
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes along each of `dim` (all of them), by central differences of second order.

    `spacing`: the distance of neighbours, or one for each dim, or coordinates for each. At the edges differences are
    of order `edge_order`, 1 or 2.

    >>> import jitgrad as jg
    >>> jg.gradient(jg.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    x = check_tensor(input, "gradient")
    if edge_order not in (1, 2):
        raise located(OperationError(f"gradient only supports edge_order=1 and edge_order=2, not {edge_order}"))
    axes = tuple(range(x.ndim)) if dim is None else normalize_dims(dim, x.ndim)
    for axis in axes:
        if x.shape[axis] < edge_order + 1:
            raise located(
                ShapeError(
                    "gradient expected each dimension size to be at least edge_order+1, but dimension "
                    f"{axis} has length {x.shape[axis]}"
                )
            )
    return tuple([_slope(x, axis, s, edge_order) for axis, s in zip(axes, _spacings(x, spacing, axes), strict=True)])


def _slope(x: Tensor, axis: int, spacing: Number | Tensor, edge_order: int) -> Tensor:
    if isinstance(spacing, Tensor) and spacing.ndim:
        return _slope_at(x, axis, spacing, edge_order)
    n = x.shape[axis]

    def at(start: int, length: int) -> Tensor:
        return stretch(x, axis, start, length)

    def per(difference: Tensor, distance: Number | Tensor) -> Tensor:
        is_tensor = isinstance(distance, Tensor)
        return pointwise(Div(), difference, distance) if is_tensor else scaled(difference, distance, Div())

    twice = pointwise(Mul(), spacing, 2) if isinstance(spacing, Tensor) else spacing * 2
    inside = per(pointwise(Sub(), at(2, n - 2), at(0, n - 2)), twice)
    if edge_order == 1:
        first = per(pointwise(Sub(), at(1, 1), at(0, 1)), spacing)
        last = per(pointwise(Sub(), at(n - 1, 1), at(n - 2, 1)), spacing)
    else:
        first = per(_weighted((at(0, 1), at(1, 1), at(2, 1)), (-1.5, 2.0, -0.5)), spacing)
        last = per(_weighted((at(n - 3, 1), at(n - 2, 1), at(n - 1, 1)), (0.5, -2.0, 1.5)), spacing)
    return cat([first, inside, last], axis)


def _weighted(tensors: Sequence[Tensor], weights: Sequence[Number | Tensor]) -> Tensor:
    terms = [
        pointwise(Mul(), t, w) if isinstance(w, Tensor) else scaled(t, w) for t, w in zip(tensors, weights, strict=True)
    ]
    return functools.reduce(lambda total, term: pointwise(Add(), total, term), terms)


def _slope_at(x: Tensor, axis: int, coordinates: Tensor, edge_order: int) -> Tensor:
    """The slope by coordinates along an axis, which need not be evenly spaced."""
    n = x.shape[axis]
    steps = reshape(diff(coordinates), [-1 if a == axis else 1 for a in range(x.ndim)])

    def at(start: int, length: int) -> Tensor:
        return stretch(x, axis, start, length)

    def step(start: int, length: int) -> Tensor:
        return stretch(steps, axis, start, length)

    def three(start: int, length: int, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        parts = at(start, length), at(start + 1, length), at(start + 2, length)
        return _weighted(parts, (a, b, c))

    h, k = step(0, n - 2), step(1, n - 2)
    inside = three(0, n - 2, -k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k)))  # type: ignore[operator]
    if edge_order == 1:
        first = pointwise(Div(), pointwise(Sub(), at(1, 1), at(0, 1)), step(0, 1))
        last = pointwise(Div(), pointwise(Sub(), at(n - 1, 1), at(n - 2, 1)), step(n - 2, 1))
    else:
        h, k = step(0, 1), step(1, 1)
        weights = -(2 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))  # type: ignore[operator]
        first = three(0, 1, *weights)
        h, k = step(n - 3, 1), step(n - 2, 1)
        weights = k / (h * (h + k)), -(h + k) / (h * k), (2 * k + h) / (k * (h + k))  # type: ignore[operator]
        last = three(n - 3, 1, *weights)
    return cat([first, inside, last], axis)


def _pairs(name: str, y: Tensor, x: Tensor | None, dim: int) -> tuple[Tensor, int]:
    """The sums of neighbours along a dim, times their distances if there are points, and the axis."""
    t = check_tensor(y, name)
    if t.ndim == 0:
        raise located(DimError(f"{name}: Dimension specified as {dim} but tensor has no dimensions"))
    if t.dtype.kind == "bool":
        raise located(DTypeError(f"{name}: received a bool input for `y`, but bool is not supported"))
    axis = normalize_dim(dim, t.ndim)
    n = t.shape[axis]
    left = n - 1 if n else 0
    sums = pointwise(Add(), stretch(t, axis, 1 if left else 0, left), stretch(t, axis, 0, left))
    if x is None:
        return sums, axis
    return pointwise(Mul(), sums, _distances(name, t, x, axis)), axis


def _distances(name: str, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """The distances of neighbours among the points `x`, shaped to fit the areas."""
    if x.ndim == 0:
        return x - x  # type: ignore[operator]
    if x.ndim == 1:
        if x.shape[0] != y.shape[axis]:
            raise located(ShapeError(f"{name}: There must be one `x` value for each sample point"))
        steps = diff(x)
        return reshape(steps, [steps.shape[0] if a == axis else 1 for a in range(y.ndim)])
    if x.ndim < y.ndim:
        x = reshape(x, (*[1] * (y.ndim - x.ndim), *x.shape))
    return diff(x, dim=axis)


def _check_spacing(name: str, x: Any, dx: Any) -> None:
    if x is not None and dx is not None:
        raise located(ArgumentTypeError(f"{name}: either `x` or `dx` may be given, not both"))


@public("trapezoid", "trapz", method=False)
@numpy_names
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """The integral along `dim` by the trapezoidal rule, over the points `x`, or points `dx` (1) apart.

    >>> import jitgrad as jg
    >>> jg.trapezoid(jg.tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    _check_spacing("trapezoid", x, dx)
    areas, axis = _pairs("trapezoid", y, x, dim)
    scale = (1 if dx is None else dx) if x is None else 1
    return pointwise(Div(), pointwise(Mul(), sum(areas, axis), scale), 2)


@public(method=False)
@numpy_names
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """The integrals up to each point but the first along `dim`, by the trapezoidal rule; see `trapezoid`.

    >>> import jitgrad as jg
    >>> jg.cumulative_trapezoid(jg.tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    _check_spacing("cumulative_trapezoid", x, dx)
    areas, axis = _pairs("cumulative_trapezoid", y, x, dim)
    scale = (1 if dx is None else dx) if x is None else 1
    return pointwise(Div(), pointwise(Mul(), cumsum(areas, axis), scale), 2)
