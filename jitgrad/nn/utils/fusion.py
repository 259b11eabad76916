"""A convolution or a linear layer and the batch normalisation behind it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from jitgrad.ir.errors import PreconditionError

from ...errors import located
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that does what it and a batch normalisation behind it do, both in evaluation.

    `transpose` is for transposed convolutions.

    >>> import jitgrad as jg
    >>> conv, bn = jg.nn.Conv2d(3, 4, 3).eval(), jg.nn.BatchNorm2d(4).eval()
    >>> x = jg.randn(1, 3, 8, 8)
    >>> bool(jg.nn.utils.fuse_conv_bn_eval(conv, bn)(x).allclose(bn(conv(x)), atol=1e-5))
    True
    """
    _check_modes(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def _check_modes(layer: Module, bn: Any) -> None:
    if layer.training or bn.training:
        raise located(PreconditionError("Fusion only for eval!"))
    if bn.running_mean is None or bn.running_var is None:
        raise located(PreconditionError("Only support fusing BatchNorm with tracking_running_stats=True"))


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a convolution after folding in a batch normalisation with these statistics."""
    shape = [1, -1] if transpose else [-1, 1]
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape + [1] * (conv_w.ndim - 2))


def _folded(
    weight: Any, bias: Any, mean: Any, variance: Any, eps: float, scale: Any, shift: Any, shape: list[int]
) -> tuple[Parameter, Parameter]:
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    needs = weight.requires_grad, bias is not None and bias.requires_grad
    bias = mean.new_zeros(mean.shape) if bias is None else bias
    scale = mean.new_ones(mean.shape) if scale is None else scale
    shift = mean.new_zeros(mean.shape) if shift is None else shift
    factor = scale * (variance + eps).rsqrt()
    fused = weight * factor.reshape(shape), (bias - mean) * factor + shift
    weight, bias = (Parameter(t.detach().to(d), need) for t, d, need in zip(fused, dtypes, needs, strict=True))
    return weight, bias


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer that does what it and a batch normalisation behind it do, both in evaluation."""
    _check_modes(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise located(PreconditionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1"))
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer after folding in a batch normalisation with these statistics."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
