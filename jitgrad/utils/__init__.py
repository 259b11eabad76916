"""Tools around training: `jitgrad.utils.data` and `jitgrad.utils.checkpoint`."""

from . import checkpoint as checkpoint
from . import data as data

__all__ = ["checkpoint", "data"]
