"""Running extremes, and running sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.ir.op import Op
from jitgrad.ir.ops.cumulative import CumMax, CumMin, LogCumSumExp
from jitgrad.ir.ops.shape import Reshape

from ..dispatch import apply, apply_all
from ..tensor import Tensor
from .dims import normalize_dim
from .pointwise import check_tensor
from .reductions import ValuesAndIndices
from .registry import numpy_names, public


def _along(name: str, op: Callable[[int], Op], input: Tensor, dim: int) -> tuple[Tensor, ...]:
    """The results of a scan; a 0-d tensor counts as a vector of one element."""
    x = check_tensor(input, name)
    axis = normalize_dim(dim, x.ndim)
    if x.ndim:
        return apply_all(op(axis), x)
    return tuple([apply(Reshape(()), t) for t in apply_all(op(0), apply(Reshape((1,)), x))])


@public(out=True)
@numpy_names
def cummax(input: Tensor, dim: int) -> ValuesAndIndices:
    """The largest elements up to each one along `dim`, and where they are: the last of equals. NaN stays.

    >>> import jitgrad as jg
    >>> jg.cummax(jg.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    return ValuesAndIndices(*_along("cummax", CumMax, input, dim))


@public(out=True)
@numpy_names
def cummin(input: Tensor, dim: int) -> ValuesAndIndices:
    """The smallest elements up to each one along `dim`, and where they are: the last of equals. NaN stays.

    >>> import jitgrad as jg
    >>> jg.cummin(jg.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return ValuesAndIndices(*_along("cummin", CumMin, input, dim))


@public(out=True)
@numpy_names
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """`log(cumsum(exp(input)))` along `dim`, without overflow, of floats or complex numbers.

    >>> import jitgrad as jg
    >>> jg.logcumsumexp(jg.tensor([1000.0, 1000.0]), 0)
    tensor([1000.0000, 1000.6932])
    """
    return _along("logcumsumexp", LogCumSumExp, input, dim)[0]
