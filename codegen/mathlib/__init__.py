"""Mathematical functions as expressions over the closed scalar core, so that loops calling them vectorise."""

from .registry import expand, order

__all__ = ["expand", "order"]
