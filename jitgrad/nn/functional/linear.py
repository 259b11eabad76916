"""Affine maps of the last axis."""

from __future__ import annotations

from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.linalg import MatMul

from ...dispatch import apply
from ...errors import located
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor, pointwise
from ...tensor import Tensor
from .arguments import transposed


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`; weight [out, in], input [..., in], bias [out].

    >>> import jitgrad as jg
    >>> jg.nn.functional.linear(jg.ones(1, 2), jg.tensor([[1.0, 2.0]]), jg.tensor([0.5]))
    tensor([[3.5000]])
    """
    x = check_tensor(input, "linear")
    if weight.ndim == 1:
        out = matmul(x, weight)
    else:
        if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
            raise located(
                ShapeError(
                    "linear: the input's last axis and the weight's must be equal: "
                    f"input {tuple(x.shape)}, weight {tuple(weight.shape)}{operand_lines([x.type_, weight.type_])}"
                )
            )
        matrix = transposed(weight)
        out = apply(MatMul(), x, matrix) if x.ndim == 2 else matmul(x, matrix)
    return out if bias is None else pointwise(Add(), out, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x1 @ weight[k] @ x2 + bias[k]` for each k; weight [out, in1, in2], inputs [..., in1] and [..., in2]."""
    left = matmul(input1.unsqueeze(-2).unsqueeze(-3), weight)  # type: ignore[attr-defined]
    out = matmul(left, input2.unsqueeze(-1).unsqueeze(-3)).squeeze(-1).squeeze(-1)  # type: ignore[attr-defined]
    return out if bias is None else pointwise(Add(), out, bias)
