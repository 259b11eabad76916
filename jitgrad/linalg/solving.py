"""Linear equations, inverses, and least squares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jitgrad.ir.errors import OperationError, ShapeError
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.complex import Conj, Real
from jitgrad.ir.ops.solve import Inverse, Lstsq, Solve, SolveTriangular

from ..dispatch import apply, apply_all
from ..errors import located
from ..functions.linalg import matmul
from ..functions.pointwise import check_tensor
from ..functions.reductions import reduction
from ..tensor import Tensor, truth
from .arguments import (
    NOT_INVERTIBLE,
    NOT_SOLVABLE,
    check_info,
    column,
    epsilon,
    function,
    matrices,
    mT,
    no_batch_mismatch,
    reshaped,
    same_dtype,
    square,
)


class SolveEx(NamedTuple):
    """What `solve_ex` gives."""

    result: Tensor
    info: Tensor


class InverseEx(NamedTuple):
    """What `inv_ex` gives."""

    inverse: Tensor
    info: Tensor


class LeastSquares(NamedTuple):
    """What `lstsq` gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def inverse_and_info(x: Tensor) -> tuple[Tensor, Tensor]:
    """The inverses of square matrices, and which have none."""
    inverse, info = apply_all(Inverse(), x)
    return inverse, info


@function
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; raises `LinAlgError` if one is singular.

    >>> import jitgrad as jg
    >>> jg.linalg.inv(jg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    inverse, info = inverse_and_info(square("linalg.inv", A))
    check_info("linalg.inv", info, NOT_INVERTIBLE)
    return inverse


@function
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseEx:
    """`inv` without an error: `info` is the number of the first pivot that is zero, else 0.

    >>> import jitgrad as jg
    >>> jg.linalg.inv_ex(jg.zeros(2, 2)).info
    tensor(1, dtype=jitgrad.int32)
    """
    inverse, info = inverse_and_info(square("linalg.inv", A))
    if check_errors:
        check_info("linalg.inv_ex", info, NOT_INVERTIBLE)
    return InverseEx(inverse, info)


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether `B` holds a vector for each matrix of `A`, and not a matrix."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def _check_rows(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    if a.shape[-2 if left else -1] != b.shape[-2 if left else -1]:
        raise located(
            ShapeError(
                f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
            )
        )


def _solution(name: str, A: Any, B: Any, left: bool) -> SolveEx:
    a, b = square(name, A), check_tensor(B, name)
    same_dtype(name, a, b)
    if is_vector(a, b):
        if not left:
            raise located(
                ShapeError(
                    f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case "
                    f"{name} is equivalent to B / A.squeeze(-1)"
                )
            )
        if a.shape[-1] != b.shape[-1]:
            _check_rows(name, a, column(b), True)
        a, rhs = no_batch_mismatch(name, a, column(b))
        result, info = apply_all(Solve(), a, rhs)
        return SolveEx(reshaped(result, tuple(result.shape[:-1])), info)
    matrices(name, b, "B")
    _check_rows(name, a, b, left)
    a, b = no_batch_mismatch(name, a, b)
    if left:
        return SolveEx(*apply_all(Solve(), a, b))
    result, info = apply_all(Solve(), mT(a), mT(b))
    return SolveEx(mT(result), info)


@function
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """`X` with `A @ X == B`, or with `X @ A == B` unless `left`; `B` holds matrices, or a vector for each of `A`.

    Batch dims broadcast. Raises `LinAlgError` if a matrix is singular.

    >>> import jitgrad as jg
    >>> jg.linalg.solve(jg.tensor([[2.0, 0.0], [0.0, 4.0]]), jg.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    result, info = _solution("linalg.solve", A, B, left)
    check_info("torch.linalg.solve", info, NOT_SOLVABLE)
    return result


@function
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """`solve` without an error: `info` is the number of the first pivot that is zero, else 0.

    >>> import jitgrad as jg
    >>> jg.linalg.solve_ex(jg.zeros(2, 2), jg.ones(2)).info
    tensor(1, dtype=jitgrad.int32)
    """
    found = _solution("linalg.solve", A, B, left)
    if check_errors:
        check_info("torch.linalg.solve_ex", found.info, NOT_SOLVABLE)
    return found


@function
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """`X` with `A @ X == B` (`X @ A == B` unless `left`) for the upper or lower triangle of `A`.

    Batch dims broadcast. Zeros on the diagonal give infinity and NaN; `unitriangular` takes it as ones.

    >>> import jitgrad as jg
    >>> a, b = jg.tensor([[2.0, 1.0], [0.0, 1.0]]), jg.tensor([[4.0], [2.0]])
    >>> jg.linalg.solve_triangular(a, b, upper=True)
    tensor([[1.],
            [2.]])
    """
    name = "linalg.solve_triangular"
    a, b = square(name, A), matrices(name, B, "B")
    same_dtype(name, a, b)
    _check_rows(name, a, b, left)
    a, b = no_batch_mismatch(name, a, b)
    if left:
        return apply(SolveTriangular(bool(upper), bool(unitriangular)), a, b)
    return mT(apply(SolveTriangular(not upper, bool(unitriangular)), mT(a), mT(b)))


# --------------------------------------------------------------------------------------------- least squares

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@function
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """`X` with the least `|A @ X - B|`, and of those the smallest one.

    `driver` is LAPACK's: "gelsy" (the default: QR with pivots), "gels" (full rank), "gelsd" or "gelss" (singular
    values). Residuals are given if there are more rows than columns, of full rank, but not by "gelsy"; the rank not by
    "gels"; singular values by the last two. What is not given is empty.

    >>> import jitgrad as jg
    >>> jg.linalg.lstsq(jg.tensor([[1.0], [1.0]]), jg.tensor([[1.0], [3.0]])).solution.round(decimals=4)
    tensor([[2.]])
    """
    name = "torch.linalg.lstsq"
    if check_tensor(A, name).ndim < 2:
        raise located(ShapeError(f"{name}: input must have at least 2 dimensions."))
    a, b = matrices(name, A), check_tensor(B, name)
    if b.ndim < 1:
        raise located(ShapeError(f"{name}: other must have at least 1 dimension."))
    if a.dtype is not b.dtype:
        raise located(OperationError(f"{name}: Expected input and other to have the same dtype"))
    chosen = "gelsy" if driver is None else driver
    if chosen not in _DRIVERS:
        raise located(
            OperationError(f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)}) but got {driver}")
        )
    vector = is_vector(a, b) if b.ndim < a.ndim else False
    rhs = column(b) if vector else b
    if a.shape[-2] != rhs.shape[-2]:
        which = "-1" if vector else "-2"
        raise located(ShapeError(f"{name}: input.size(-2) should match other.size({which})"))
    a, rhs = no_batch_mismatch(name, a, rhs)
    limit = epsilon(a) * max(a.shape[-2:]) if rcond is None else float(rcond)
    solution, rank, values = apply_all(Lstsq(chosen, limit), a, rhs)
    residuals = _residuals(a, rhs, solution, rank, chosen)
    values = values.detach()  # type: ignore[attr-defined]
    empty = values.new_empty(0) if chosen in ("gels", "gelsy") else values  # type: ignore[attr-defined]
    none = rank.new_empty(0) if chosen == "gels" else rank  # type: ignore[attr-defined]
    if vector:
        solution = reshaped(solution, tuple(solution.shape[:-1]))
    return LeastSquares(solution, residuals, none, empty)


def _residuals(a: Tensor, b: Tensor, solution: Tensor, rank: Tensor, driver: str) -> Tensor:
    """The sums of squares that are left, where they are asked for."""
    m, n = a.shape[-2:]
    given = m > n and driver != "gelsy"
    if given and driver != "gels":  # whether there are any depends on numbers, and so does the shape
        given = truth((rank == n).all())
    if not given:
        return solution.abs().reshape(-1)[:0]  # type: ignore[attr-defined, no-any-return]
    left = matmul(a, solution) - b  # type: ignore[operator]
    squares = apply(Real(), left * apply(Conj(), left)) if left.dtype.is_complex else left * left
    return reduction(Sum, (squares.ndim - 2,), False)(squares)


# --------------------------------------------------------------------------------------------------- tensors


@function
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the linear map from the dims after the first `ind` to those: `tensordot` with it undoes it.

    >>> import jitgrad as jg
    >>> jg.linalg.tensorinv(jg.eye(6).reshape(2, 3, 6)).shape
    jitgrad.Size([6, 2, 3])
    """
    x = check_tensor(A, "linalg.tensorinv")
    if ind <= 0:
        raise located(OperationError("Expected a strictly positive integer for 'ind'"))
    first, last = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise located(
            OperationError(
                f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
                f"{math.prod(last)} != {math.prod(first)}"
            )
        )
    inverse, info = inverse_and_info(square("linalg.inv", reshaped(x, (math.prod(first), math.prod(last)))))
    check_info("linalg.inv", info, NOT_INVERTIBLE)
    return reshaped(inverse, (*last, *first))


@function
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """`X` with `tensordot(A, X, X.ndim) == B`; the dims `dims` of `A` are moved to its end first.

    >>> import jitgrad as jg
    >>> jg.linalg.tensorsolve(jg.eye(6).reshape(2, 3, 6), jg.ones(2, 3)).shape
    jitgrad.Size([6])
    """
    a, b = check_tensor(A, "linalg.tensorsolve"), check_tensor(B, "linalg.tensorsolve")
    if dims is not None:
        a = a.movedim(tuple(dims), tuple(range(a.ndim - len(dims), a.ndim)))  # type: ignore[attr-defined]
    shape = tuple(a.shape[b.ndim :])
    if math.prod(shape) != math.prod(a.shape[: b.ndim]):
        raise located(
            OperationError(
                "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                f"prod(self.shape[:other.ndim]), but got {math.prod(shape)} != {math.prod(a.shape[: b.ndim])}"
            )
        )
    flat = reshaped(a, (math.prod(shape), math.prod(shape)))
    return reshaped(solve(flat, reshaped(b, (math.prod(b.shape),))), shape)
