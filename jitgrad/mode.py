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

    __slots__ = (
        "anomaly",
        "check_nan",
        "cuda_device",
        "default_dtype",
        "grad",
        "inference",
        "place",
        "places",
        "tracer",
    )

    def __init__(self) -> None:
        self.grad: bool = True
        self.inference: bool = False
        self.anomaly: bool = False
        self.check_nan: bool = True
        self.tracer: Tracer | None = None
        self.default_dtype: DType = dtypes.float32
        self.place: Device | None = None  # where new tensors are made, if not on the CPU
        self.cuda_device = 0  # the number of the current CUDA device
        self.places: list[Device | None] = []  # what `place` was around `with device`


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()


local = _Local()
