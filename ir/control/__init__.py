"""Control flow: ops whose fields are graphs."""

from __future__ import annotations

from .branch import Cond
from .scan import Scan
from .while_loop import WhileGradient, WhileLoop

__all__ = ["Cond", "Scan", "WhileGradient", "WhileLoop"]
