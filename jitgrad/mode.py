"""The ambient state of a thread: grad mode, the active tracer, the default dtype.

One attribute look-up (`local.mode`) reaches all of it, because every eager op pays for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.types import Device

if TYPE_CHECKING:
    from .compiler.tracer import Tracer


class Mode:
    """What changes the meaning of ops in this thread."""

    __slots__ = ("anomaly", "check_nan", "default_dtype", "grad", "inference", "place", "tracer")

    def __init__(self) -> None:
        self.grad: bool = True
        self.inference: bool = False
        self.anomaly: bool = False
        self.check_nan: bool = True
        self.tracer: Tracer | None = None
        self.default_dtype: DType = dtypes.float32
        self.place: Device | None = None  # where new tensors are made, if not on the CPU


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()


local = _Local()
