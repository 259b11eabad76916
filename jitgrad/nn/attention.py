"""Multi-head attention as a layer."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, PreconditionError

from ..creation import empty
from ..errors import located
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear`, under the name that PyTorch's attention gives its output projection."""


class MultiheadAttention(Module):
    """Attention of `num_heads` heads between projected queries, keys and values.

    After Vaswani et al. 2017 (arXiv:1706.03762). Inputs are [length, batch, embed_dim], or
    [batch, length, embed_dim] if `batch_first`. Masks that are bool tell what is *not* seen, others are added.

    >>> import jitgrad as jg
    >>> x = jg.zeros(5, 2, 8)
    >>> y, weights = jg.nn.MultiheadAttention(8, num_heads=2)(x, x, x)
    >>> y.shape, weights.shape
    (jitgrad.Size([5, 2, 8]), jitgrad.Size([2, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise located(
                ArgumentError(
                    f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                    f"num_heads={num_heads} instead"
                )
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise located(PreconditionError("embed_dim must be divisible by num_heads"))
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self._add_weights(where)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **where)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        self.bias_k = Parameter(empty(1, 1, embed_dim, **where)) if add_bias_kv else None
        self.bias_v = Parameter(empty(1, 1, embed_dim, **where)) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _add_weights(self, where: dict[str, Any]) -> None:
        n = self.embed_dim
        separate = {"q_proj_weight": n, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        same = self._qkv_same_embed_dim
        for name, columns in separate.items():
            self.register_parameter(name, None if same else Parameter(empty(n, columns, **where)))
        self.register_parameter("in_proj_weight", Parameter(empty(3 * n, n, **where)) if same else None)

    def _reset_parameters(self) -> None:
        """Draw new initial values."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = self._parameters[name]
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The output, shaped like the query, and the weights if `need_weights`, of each head or averaged."""
        swap = self.batch_first and query.ndim == 3
        if swap:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (output.transpose(0, 1) if swap else output), weights  # type: ignore[attr-defined]
