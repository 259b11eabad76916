"""`jitgrad.cpu`: what PyTorch scripts look for there."""

from . import amp as amp

__all__ = ["amp"]
