"""Tile kernels to LLVM, form by form."""

from __future__ import annotations

from typing import Final

from ..loops.attention import ATTENTION, ATTENTION_GRAD, STRANDS_SUM, AttentionKernel
from ..loops.tile import CHANNELS, CHANNELS_WEIGHT, PIXELS, PIXELS_WEIGHT, PRODUCT, WEIGHT, TileKernel
from . import llvm_ir as ir
from .options import EmitOptions
from .tile_attention import emit_attention
from .tile_attention_grad import emit_attention_grad, emit_sum_of_strands
from .tile_forward import emit_forward
from .tile_pixels import emit_pixels
from .tile_pixels_weight import emit_pixels_weight
from .tile_product import emit_product
from .tile_weight import emit_weight_gradient
from .tile_weight_packing import emit_weight_packing

_EMITTERS: Final = {
    CHANNELS: emit_forward, CHANNELS_WEIGHT: emit_weight_gradient,
    WEIGHT: emit_weight_packing,
    PIXELS: emit_pixels, PIXELS_WEIGHT: emit_pixels_weight,
    PRODUCT: emit_product,
}  # fmt: skip


_ATTENTION_EMITTERS: Final = {
    ATTENTION: emit_attention, ATTENTION_GRAD: emit_attention_grad, STRANDS_SUM: emit_sum_of_strands,
}  # fmt: skip


def emit_tiles(module: ir.Module, symbol: str, kernel: TileKernel, options: EmitOptions) -> ir.Function:
    """Add `kernel` to `module` as function `symbol` with the signature of `abi`."""
    if isinstance(kernel, AttentionKernel):
        return _ATTENTION_EMITTERS[kernel.form](module, symbol, kernel, options.scales)
    return _EMITTERS[kernel.form](module, symbol, kernel)
