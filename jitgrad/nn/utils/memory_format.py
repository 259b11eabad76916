"""Names for layouts of weights. There is one layout here; compiled code chooses its own between operations."""

from __future__ import annotations

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module, as it is: layouts of weights make no difference to results here."""
    return module


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module, as it is: layouts of weights make no difference to results here."""
    return module
