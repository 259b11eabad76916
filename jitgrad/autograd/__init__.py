"""Gradients: `backward`, `grad`, grad modes, hooks, and custom functions."""

from . import function as function
from . import graph as graph
from . import hooks as hooks
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
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
from .variable import Variable
from .whole import stats as backward_stats

__all__ = [
    "Function",
    "Variable",
    "backward",
    "backward_stats",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
