"""What the functions of linear algebra ask of their arguments, and the small steps that many of them share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError, ShapeError
from jitgrad.ir.ops.check import CheckInfo
from jitgrad.ir.ops.complex import Conj
from jitgrad.ir.ops.shape import Permute, Reshape

from ..autocasting import autocasts
from ..dispatch import apply
from ..errors import located
from ..functions.pointwise import check_tensor, expand
from ..functions.registry import numpy_names, with_out
from ..hot_path import hot
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_FIRST = ("A", "input", "x", "a", "self")

# What is wrong with a matrix if LAPACK's `info` on it is not zero.
NOT_INVERTIBLE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
)
NOT_SOLVABLE = "The solver failed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {info} is not positive-definite)."
)
ZERO_PIVOT = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)
ZERO_BLOCK = "The factorization has a zero block on its diagonal at {info}, and can't be used to solve equations."


def first_named(f: F) -> F:
    """Decorator: the first argument also answers to the names `A`, `input` and `x`, and others to NumPy's names."""
    own = next(iter(inspect.signature(f).parameters))

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not args and own not in kwargs:
            for name in _FIRST:
                if name in kwargs:
                    kwargs[own] = kwargs.pop(name)
                    break
        return f(*args, **kwargs)

    return function  # type: ignore[return-value]


def function(f: F) -> F:
    """Decorator of functions in `jitgrad.linalg`: PyTorch's and NumPy's argument names, and `out`."""
    return hot(autocasts(f"linalg_{f.__name__}")(with_out(first_named(numpy_names(f)))))  # type: ignore[return-value]


def floating(name: str, A: Any, half: bool = False) -> Tensor:
    """`A`, if it is a float or complex tensor, and of single precision at least unless `half`."""
    x = check_tensor(A, name)
    if not x.dtype.is_differentiable:
        raise located(DTypeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}"))
    if x.dtype.itemsize == 2 and not half:
        raise located(DTypeError(f"{name}: Low precision dtypes not supported. Got {x.dtype.name}"))
    return x


def matrices(name: str, A: Any, argument: str = "A") -> Tensor:
    """`A`, if it is a float or complex tensor of two dims or more."""
    x = check_tensor(A, name)
    if x.ndim < 2:
        raise located(ShapeError(f"{name}: The input tensor {argument} must have at least 2 dimensions."))
    return floating(name, x)


def square(name: str, A: Any, argument: str = "A") -> Tensor:
    """`A`, if it holds square matrices."""
    x = matrices(name, A, argument)
    m, n = x.shape[-2:]
    if m != n:
        raise located(
            ShapeError(f"{name}: {argument} must be batches of square matrices, but they are {m} by {n} matrices")
        )
    return x


def same_dtype(name: str, a: Tensor, b: Tensor) -> None:
    """Raise unless both have one dtype."""
    if a.dtype is not b.dtype:
        raise located(
            DTypeError(
                f"{name}: Expected A and B to have the same dtype, but found A of type {a.dtype.name} and B of type "
                f"{b.dtype.name} instead"
            )
        )


def no_batch_mismatch(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two stacks of matrices with their batch dims broadcast to each other."""
    try:
        batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError:
        raise located(
            ShapeError(f"{name}: The batch dimensions of A and B do not broadcast: {list(a.shape)} and {list(b.shape)}")
        ) from None
    return expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))


def mT(x: Tensor) -> Tensor:
    """The last two dims exchanged."""
    n = x.ndim
    return apply(Permute((*range(n - 2), n - 1, n - 2)), x)


def mH(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    return apply(Conj(), mT(x)) if x.dtype.is_complex else mT(x)


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in another shape."""
    return x if tuple(x.shape) == shape else apply(Reshape(shape), x)


def column(x: Tensor) -> Tensor:
    """A last dim of length 1."""
    return reshaped(x, (*x.shape, 1))


def row(x: Tensor) -> Tensor:
    """A dim of length 1 before the last."""
    return reshaped(x, (*x.shape[:-1], 1, x.shape[-1]))


def check_info(name: str, info: Tensor, rule: str) -> None:
    """Raise `LinAlgError` where `info` is not zero: compiled functions do so each time they run."""
    apply(CheckInfo(name, rule), info)


def epsilon(x: Tensor) -> float:
    """The distance from 1 to the next number of the dtype of `x`."""
    return float(np.finfo(dtypes.to_real(x.dtype).np).eps)
