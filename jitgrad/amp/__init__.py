"""Mixed precision: `jitgrad.amp.autocast` and `jitgrad.amp.GradScaler`."""

from . import autocast_mode as autocast_mode
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
