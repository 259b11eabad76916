"""Covariance and correlation of variables."""

from __future__ import annotations

import warnings

from jitgrad.ir.errors import DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.check import CheckWeights
from jitgrad.ir.ops.complex import Imag, MakeComplex, Real
from jitgrad.ir.ops.shape import Reshape

from ..dispatch import apply
from ..errors import located
from ..tensor import Tensor
from .diagonals import diagonal
from .linalg import matmul
from .pointwise import check_tensor
from .registry import public


def _weights(name: str, given: Tensor, count: int) -> Tensor:
    """A weight for each observation, none of them negative."""
    w, is_frequency = check_tensor(given, "cov"), name == "fweights"
    if w.ndim > 1:
        raise located(
            ShapeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions"
            )
        )
    if w.dtype.kind != ("int" if is_frequency else "float"):
        kind = "integral" if is_frequency else "floating point"
        raise located(
            DTypeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {w.dtype.name} dtype")
        )
    if w.type_.numel != count:
        raise located(
            ShapeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{w.type_.numel} != {count}"
            )
        )
    apply(CheckWeights("cov", name), w)
    return w


@public()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows of a matrix, whose columns are observations.

    `fweights` says how often each observation occurs, `aweights` how much it counts; the sums are divided by their
    number less `correction`.

    >>> import jitgrad as jg
    >>> jg.cov(jg.tensor([[0.0, 2.0], [1.0, 1.0]]))
    tensor([[2., 0.],
            [0., 0.]])
    """
    x = check_tensor(input, "cov")
    if x.ndim > 2:
        raise located(
            ShapeError(
                f"cov(): expected input to have two or fewer dimensions but got an input with {x.ndim} dimensions"
            )
        )
    if x.dtype.kind == "bool":
        raise located(DTypeError("cov(): bool dtype is not supported for input"))
    rows = x if x.ndim == 2 else apply(Reshape((1, x.type_.numel)), x)
    count = rows.shape[1]
    w = None if fweights is None else _weights("fweights", fweights, count)
    if aweights is not None:
        importance = _weights("aweights", aweights, count)
        w = importance if w is None else w * importance  # type: ignore[operator]
    total = count if w is None else w.sum()  # type: ignore[attr-defined]
    weighted = rows if w is None else rows * w  # type: ignore[operator]
    centred = rows - (weighted.sum(1) / total).unsqueeze(1)  # type: ignore[attr-defined, operator]
    products = matmul(centred, (centred if w is None else centred * w).mH)
    if w is None:
        divisor = max(count - correction, 0)
        if count - correction <= 0:
            warnings.warn(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                "observations.",
                stacklevel=2,
            )
        return (products / divisor).squeeze()  # type: ignore[no-any-return, operator]
    lost = correction if aweights is None or not correction else correction * (w * aweights).sum() / total
    return (products / (total - lost).clamp(min=0)).squeeze()  # type: ignore[no-any-return, operator]


@public()
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of the rows of a matrix, whose columns are observations.

    >>> import jitgrad as jg
    >>> jg.corrcoef(jg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = check_tensor(input, "corrcoef")
    if x.ndim > 2:
        raise located(
            OperationError(f"corrcoef(): expected input to have two or fewer dimensions but got {x.ndim} dimensions")
        )
    c = cov(x)
    if c.ndim == 0:
        return c / c  # type: ignore[no-any-return, operator]
    variance = diagonal(c)
    spread = (apply(Real(), variance) if c.dtype.is_complex else variance).sqrt()  # type: ignore[attr-defined]
    c = c / spread.unsqueeze(1) / spread
    if not c.dtype.is_complex:
        return c.clamp(-1, 1)  # type: ignore[attr-defined, no-any-return]
    parts = [apply(part, c).clamp(-1, 1) for part in (Real(), Imag())]  # type: ignore[attr-defined]
    return apply(MakeComplex(), *parts)
