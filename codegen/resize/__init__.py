"""New sizes of a graph that is known: its plan is computed anew from what was recorded of it, without passes."""

from __future__ import annotations

from .table import Table

__all__ = ["Table"]
