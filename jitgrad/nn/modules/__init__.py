"""Where PyTorch's scripts look for the base class of modules and for hooks on all modules: `nn.modules.module`."""

from . import module

__all__ = ["module"]
