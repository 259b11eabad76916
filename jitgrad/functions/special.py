"""Special functions that are made of ops or give several results: polygamma, mvlgamma, frexp."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from jitgrad.ir.errors import ArgumentTypeError, DTypeError, OperationError
from jitgrad.ir.ops.arithmetic import Add, Sub
from jitgrad.ir.ops.float_parts import Frexp
from jitgrad.ir.ops.gamma import Digamma, Lgamma, Polygamma

from ..dispatch import apply, apply_all
from ..errors import located
from ..promotion import float_dtype
from ..tensor import Tensor
from .pointwise import check_tensor, convert, filled, pointwise
from .registry import public


class MantissaAndExponent(NamedTuple):
    """What `frexp` gives."""

    mantissa: Tensor
    exponent: Tensor


@public(method=False, out=True)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The `n`-th derivative of the digamma function, elementwise.

    >>> import jitgrad as jg
    >>> jg.polygamma(1, jg.tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """
    if isinstance(n, Tensor) and isinstance(input, int):  # the method's order
        n, input = input, n
    if isinstance(n, bool) or not isinstance(n, int):
        raise located(ArgumentTypeError(f"polygamma: argument 'n' (position 1) must be int, not {type(n).__name__}"))
    if n < 0:
        raise located(OperationError(f"polygamma(n, x) does not support negative n, but n is {n}."))
    x = check_tensor(input, "polygamma")
    return pointwise(Polygamma(n) if n else Digamma(), x)


@public("polygamma", function=False, inplace=True)
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The `n`-th derivative of the digamma function, elementwise."""
    return polygamma(n, self)


@public("mvlgamma", inplace=True, out=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of dimension `p`, elementwise.

    That is `p (p - 1) / 4 log π` and the sum of `lgamma(input - i / 2)` for `i` from 0 to `p - 1`.

    >>> import jitgrad as jg
    >>> jg.mvlgamma(jg.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    x = check_tensor(input, "mvlgamma")
    if x.dtype.kind == "bool":
        raise located(DTypeError("mvlgamma: The input tensor may not be a boolean tensor."))
    if p < 1:
        raise located(OperationError(f"mvlgamma: p has to be greater than or equal to 1, but is {p}"))
    x = convert(x, float_dtype(x.dtype))
    shape, dtype = x._data.shape, x.dtype
    terms = [apply(Lgamma(), apply(Sub(), x, filled(shape, dtype, i / 2))) for i in reversed(range(p))]
    total = functools.reduce(lambda a, b: apply(Add(), a, b), terms)
    return apply(Add(), total, filled(shape, dtype, p * (p - 1) / 4 * math.log(math.pi)))


@public(out=True)
def frexp(input: Tensor) -> MantissaAndExponent:
    """Mantissas in [0.5, 1) and int32 exponents such that `input = mantissa * 2**exponent`, elementwise, of floats.

    >>> import jitgrad as jg
    >>> jg.frexp(jg.tensor([5.0]))
    MantissaAndExponent(mantissa=tensor([0.6250]), exponent=tensor([3], dtype=jitgrad.int32))
    """
    return MantissaAndExponent(*apply_all(Frexp(), check_tensor(input, "frexp")))
