"""`skip_init`: a module whose parameters have no particular values."""

from __future__ import annotations

import inspect
from typing import Any

from jitgrad.ir.errors import OperationError

from ...errors import located
from ...random import get_rng_state, set_rng_state
from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are about to be set otherwise. No random number is used up.

    >>> import jitgrad as jg
    >>> jg.nn.utils.skip_init(jg.nn.Linear, 5, 1)
    Linear(in_features=5, out_features=1, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise located(OperationError(f"Expected a Module; got {module_cls}"))
    if "device" not in inspect.signature(module_cls).parameters:
        raise located(OperationError("Module must support a 'device' arg to skip initialization"))
    state = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(state)
