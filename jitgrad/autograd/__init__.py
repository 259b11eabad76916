"""Gradients: `backward`, `grad`, grad modes, hooks, and custom functions."""

from . import functional as functional
from . import hooks as hooks
from .api import backward, grad
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .whole import stats as backward_stats

__all__ = [
    "Function",
    "backward",
    "backward_stats",
    "enable_grad",
    "functional",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
