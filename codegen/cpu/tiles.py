"""Tile kernels to LLVM, form by form."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from ..loops.tile import CHANNELS, CHANNELS_WEIGHT, FACTOR, PIXELS, PIXELS_WEIGHT, PRODUCT, TURNED, TileKernel
from .tile_factor import emit_factor, emit_turned
from .tile_forward import emit_forward
from .tile_pixels import emit_pixels
from .tile_pixels_weight import emit_pixels_weight
from .tile_product import emit_product
from .tile_weight import emit_weight_gradient

_EMITTERS: Final = {
    CHANNELS: emit_forward, CHANNELS_WEIGHT: emit_weight_gradient,
    PIXELS: emit_pixels, PIXELS_WEIGHT: emit_pixels_weight, FACTOR: emit_factor,
    TURNED: emit_turned, PRODUCT: emit_product,
}  # fmt: skip


def emit_tiles(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add `kernel` to `module` as function `symbol` with the signature of `abi`."""
    return _EMITTERS[kernel.form](module, symbol, kernel)
