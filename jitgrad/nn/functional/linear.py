"""Affine maps of the last axis."""

from __future__ import annotations

from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.linear import Linear

from ...autocasting import autocasts
from ...dispatch import apply
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor, pointwise
from ...hot_path import hot
from ...tensor import Tensor


@hot
@autocasts("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`; weight [out, in], input [..., in], bias [out].

    >>> import jitgrad as jg
    >>> jg.nn.functional.linear(jg.ones(1, 2), jg.tensor([[1.0, 2.0]]), jg.tensor([0.5]))
    tensor([[3.5000]])
    """
    x = check_tensor(input, "linear")
    if weight.ndim == 1:
        out = matmul(x, weight)
        return out if bias is None else pointwise(Add(), out, bias)
    return apply(Linear(), x, weight) if bias is None else apply(Linear(), x, weight, bias)


@hot
@autocasts("bilinear")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x1 @ weight[k] @ x2 + bias[k]` for each k; weight [out, in1, in2], inputs [..., in1] and [..., in2]."""
    left = matmul(input1.unsqueeze(-2).unsqueeze(-3), weight)  # type: ignore[attr-defined]
    out = matmul(left, input2.unsqueeze(-1).unsqueeze(-3)).squeeze(-1).squeeze(-1)  # type: ignore[attr-defined]
    return out if bias is None else pointwise(Add(), out, bias)
