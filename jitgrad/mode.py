"""The ambient state of a thread: grad mode, the active tracer, the default dtype.

One attribute look-up (`local.mode`) reaches all of it, because every eager op pays for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.types import Device

if TYPE_CHECKING:
    from .autocasting import AutocastSettings, Casting
    from .autograd.saved import SavedHooks
    from .compiler.tracer import Tracer
    from .levels import Level
    from .overrides import TorchFunctionMode


class Mode:
    """What changes the meaning of ops in this thread."""

    __slots__ = (
        "anomaly",
        "autocast",
        "autocast_settings",
        "autocast_state",
        "begun",
        "check_nan",
        "cuda_device",
        "default_dtype",
        "function_modes",
        "grad",
        "inference",
        "levels",
        "outer_grad",
        "overrides_off",
        "place",
        "places",
        "saved_hooks",
        "saved_hooks_refused",
        "targets_only",
        "tracer",
        "transforms",
        "watches",
    )

    def __init__(self) -> None:
        self.grad: bool = True
        self.inference: bool = False
        self.anomaly: bool = False
        self.check_nan: bool = True
        self.saved_hooks: SavedHooks | None = None  # the innermost functions that pack and unpack what is saved
        self.saved_hooks_refused: str | None = None  # what to say to those who set such functions
        self.targets_only: bool = False  # whether the backward pass under way is for some inputs alone
        self.watches: bool = False  # whether a node that is recorded needs a line, or what it saves is packed
        self.tracer: Tracer | None = None
        self.autocast: Casting | None = None  # the types that listed functions run in, if any device type has one
        self.autocast_state: tuple[Any, ...] | None = None  # the settings by value; None: the usual ones
        self.autocast_settings: AutocastSettings | None = None  # this thread's, from their first use on
        self.default_dtype: DType = dtypes.float32
        self.place: Device | None = None  # where new tensors are made, if not on the CPU
        self.cuda_device = 0  # the number of the current CUDA device
        self.levels: tuple[Level, ...] = ()  # transforms that tensors know of (vmap, forward mode), outermost first
        self.outer_grad: bool = True  # whether recording was on around the innermost gradient taken at this level
        self.transforms = 0  # functional transforms under way
        self.function_modes: tuple[TorchFunctionMode, ...] = ()  # which every public function asks, outermost first
        self.overrides_off = False  # whether functions ask no class of tensors what they mean
        self.begun: set[Any] = set()  # the tape nodes at which gradients being taken by them begin
        self.places: list[Device | None] = []  # what `place` was around `with device`

    def watch(self, hooks: SavedHooks | None) -> SavedHooks | None:
        """Let `hooks` pack what nodes save from now on; those that did so far."""
        before = self.saved_hooks
        self.saved_hooks = hooks
        self.watches = self.anomaly or hooks is not None
        return before


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()


local = _Local()
