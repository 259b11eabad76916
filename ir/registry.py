"""All ops by name: what text is read with."""

from __future__ import annotations

from typing import Final

from . import batching, control
from .op import Op
from .ops import REGISTRY as _PLAIN

_WITH_GRAPHS: tuple[type[Op], ...] = (
    batching.Mapped, control.Cond, control.Scan, control.WhileLoop, control.WhileGradient,
)  # fmt: skip

REGISTRY: Final[dict[str, type[Op]]] = {**_PLAIN, **{cls.name: cls for cls in _WITH_GRAPHS}}
