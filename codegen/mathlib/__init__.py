"""Mathematical functions as expressions over the closed scalar core, so that loops calling them vectorise."""

from .registry import Expansion, expand

__all__ = ["Expansion", "expand"]
