"""Where PyTorch's scripts look for base classes and hooks on all modules: `nn.modules.module`, `.conv` and others."""

from . import batchnorm, container, conv, linear, loss, module, utils
from .module import Module

__all__ = ["Module", "batchnorm", "container", "conv", "linear", "loss", "module", "utils"]
