"""Tools around training: `jitgrad.utils.data`."""

from . import data

__all__ = ["data"]
