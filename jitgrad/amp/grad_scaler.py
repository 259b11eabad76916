"""`GradScaler`: keeps small gradients from vanishing by scaling the loss, and skips steps whose gradients overflow."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, OperationError, PreconditionError

from ..autograd.grad_mode import no_grad
from ..backend import gpus
from ..creation import full
from ..errors import located
from ..functions.comparison import choose
from ..mode import local
from ..tensor import Tensor


class OptState(Enum):
    """How far an optimizer's step has come since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses and unscales gradients; the scale shrinks after an overflow and grows after many good steps.

    `scale(loss).backward()`, then `step(optimizer)`, which unscales the gradients and skips the step if one is not
    finite, then `update()`. `unscale_(optimizer)` before `step` allows clipping. `enabled=False` makes all of them do
    nothing more than the plain step. Inside a compiled function a skipped step is a choice in the graph.

    >>> import jitgrad as jg
    >>> w = jg.ones(2, requires_grad=True)
    >>> optimizer, scaler = jg.optim.SGD([w], lr=0.5), jg.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.detach(), scaler.get_scale()
    (tensor([0.5000, 0.5000]), 8.0)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled and not gpus().machine.find():
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise located(PreconditionError(f"The growth factor must be > 1.0, not {growth_factor}."))
        if backoff_factor >= 1.0:
            raise located(PreconditionError(f"The backoff factor must be < 1.0, not {backoff_factor}."))
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made where the first loss is
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = {}

    def _started(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise located(
                PreconditionError(
                    f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                    "scaler.scale(loss or outputs) earlier in the iteration."
                )
            )
        return self._scale, self._growth_tracker

    def _start(self, device: Any) -> None:
        self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device=device)

    def _state(self, optimizer: Any) -> dict[str, Any]:
        fresh = {"stage": OptState.READY, "found_inf_per_device": {}}
        return self._per_optimizer_states.setdefault(id(optimizer), fresh)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or the tensors of a list, tuple or other iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._start(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(outputs.device)  # type: ignore[attr-defined]
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes)):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise located(ArgumentError("outputs must be a Tensor or an iterable of Tensors"))

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, once per step; clipping may follow."""
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._state(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise located(
                OperationError("unscale_() has already been called on this optimizer since the last update().")
            )
        if state["stage"] is OptState.STEPPED:
            raise located(OperationError("unscale_() is being called after step()."))
        inverse = scale.double().reciprocal().float()  # type: ignore[attr-defined]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, allow_fp16=False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(self, optimizer: Any, inverse: Tensor, allow_fp16: bool) -> dict[Any, Tensor]:
        """Multiply the gradients by `inverse`; by device, 1.0 if one of its gradients was not finite, else 0.0."""
        found: dict[Any, Tensor] = {}
        with no_grad():
            for p in _parameters(optimizer):
                g = p.grad
                if g is None:
                    continue
                if not allow_fp16 and g.dtype is dtypes.float16:
                    raise located(ArgumentError("Attempting to unscale FP16 gradients."))
                bad = g.isfinite().all().logical_not().float()  # type: ignore[attr-defined]
                device = g.device
                found[device] = bad if device not in found else found[device].maximum(bad)  # type: ignore[attr-defined]
                g.mul_(inverse.to(device))  # type: ignore[attr-defined]
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)` on unscaled gradients, unless one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise located(OperationError("Closure use is not currently supported if GradScaler is enabled."))
        self._started("step")
        state = self._state(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise located(OperationError("step() has already been called since the last update()."))
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise located(PreconditionError("No inf checks were recorded for this optimizer."))
        result = self._step_unless_inf(optimizer, state, args, kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_unless_inf(self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        found = list(state["found_inf_per_device"].values())
        if local.mode.tracer is not None and len(found) == 1:
            done, result = _step_or_keep(optimizer, found[0] > 0, args, kwargs)
            if done:
                return result
            local.mode.tracer.materialise("GradScaler.step meets an optimizer without state, which it may have to skip")
        if sum(t.item() for t in found):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale to `new_scale`, or shrink it after an overflow, or let it grow when its time has come."""
        if not self._enabled:
            return
        scale, tracker = self._started("update")
        with no_grad():
            if new_scale is not None:
                self._set_scale(scale, new_scale)
            else:
                self._adapt(scale, tracker)
        self._per_optimizer_states = {}

    @staticmethod
    def _set_scale(scale: Tensor, new: Any) -> None:
        if not isinstance(new, Tensor):
            scale.fill_(float(new))  # type: ignore[attr-defined]
            return
        if new.dtype is not dtypes.float32 or new.device != scale.device or new.type_.numel != 1 or new.requires_grad:
            raise located(
                PreconditionError(
                    "new_scale should be a float or a 1-element jitgrad.float32 tensor on the scale's device, with "
                    f"requires_grad=False, not {new.type_} on {new.device}"
                )
            )
        scale.copy_(new.reshape(()))  # type: ignore[attr-defined]

    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        found = [t.to(scale.device) for s in self._per_optimizer_states.values()
                 for t in s["found_inf_per_device"].values()]  # fmt: skip
        if not found:
            raise located(PreconditionError("No inf checks were recorded prior to update."))
        total: Any = found[0]
        for t in found[1:]:
            total = total + t
        overflow = total > 0
        count: Any = tracker + 1  # type: ignore[operator]
        is_due = count == self._growth_interval
        grown: Any = scale * self._growth_factor  # type: ignore[operator]
        grown = choose("GradScaler", is_due.logical_and(grown.isfinite()), grown, scale)
        zero = count * 0
        new_scale = choose("GradScaler", overflow, scale * self._backoff_factor, grown)  # type: ignore[operator]
        new_count = choose("GradScaler", overflow.logical_or(is_due), zero, count)
        scale.copy_(new_scale)  # type: ignore[attr-defined]
        tracker.copy_(new_count)  # type: ignore[attr-defined]

    def get_scale(self) -> float:
        """The scale now; 1.0 if not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()  # type: ignore[attr-defined]

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by how much the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps in a row the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())  # type: ignore[attr-defined]

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, the factors and the count of good steps as numbers; empty if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise located(
                OperationError(
                    "The source state dict is empty, possibly because it was saved from a disabled instance of "
                    "GradScaler."
                )
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)  # type: ignore[attr-defined]
            self._growth_tracker.fill_(self._init_growth_tracker)  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise located(
                    PreconditionError(
                        "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end "
                        "after scaler.update()."
                    )
                )
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _parameters(optimizer: Any) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _state_tensors(optimizer: Any) -> dict[int, Tensor]:
    return {id(t): t for values in optimizer.state.values() for t in values.values() if isinstance(t, Tensor)}


def _step_or_keep(optimizer: Any, skip: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
    """While tracing: step, then let parameters and state be what they were where `skip` holds.

    A first step that makes the optimizer's state can't be undone so: then everything is put back, and the first of
    the results is False.
    """
    known = set(optimizer.state)
    with no_grad():
        tensors = [*_parameters(optimizer), *_state_tensors(optimizer).values()]
        before = [t.clone() for t in tensors]  # type: ignore[attr-defined]
    result = optimizer.step(*args, **kwargs)
    fresh = [p for p in optimizer.state if p not in known]
    with no_grad():
        for t, old in zip(tensors, before, strict=True):
            t.copy_(old if fresh else choose("GradScaler", skip, old, t))  # type: ignore[attr-defined]
    for p in fresh:
        del optimizer.state[p]
    return not fresh, result
