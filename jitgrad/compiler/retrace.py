"""Functions that Python runs at each call, because they do more than a replay could do again.

A `Retracer` collects operations until Python needs a value, then runs them together: op by op at first, as machine
code when operations of the same structure come again. So printing, appending and the like happen as in eager code,
and kernels are reused. Where that is slower than eager code, eager code runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.ir.graph import Value
from jitgrad.ir.op import Op
from jitgrad.ir.types import TensorType

from ..arrays import may_share_memory, on_device, on_host
from ..backend import DeviceArray
from ..counters import counters
from ..mode import local
from ..tensor import Tensor, wrap
from .materialise import run_segment
from .surroundings import Surroundings
from .tracer import Tracer

_WARM_UP = 2  # calls before any is timed: structures are met, then compiled
_TIMED = 3  # of each kind
_MOST_TRIED = 24


class _Nothing(Surroundings):
    """What no trace depends on."""

    def add(self, thing: Any) -> None:
        """Nothing."""

    def watch(self, owner: Any, name: str, read: Callable[[], Any]) -> None:
        """Nothing."""


class Retracer(Tracer):
    """A tracer whose segments are run, with their effects, where they end; then it goes on with nothing captured."""

    reruns = True
    cuts_in_place = False

    def __init__(self, name: str = "graph", numerics: str = "default") -> None:
        super().__init__((), name=name)
        self.numerics = numerics
        self.surroundings = _Nothing()

    def flush(self) -> None:
        """Run what was captured."""
        if self.builder.nodes or self.writes or self.grads or self._traced:
            local.mode.tracer = None
            try:
                run_segment(self)
            finally:
                location, scope, arrays = self._location, self.builder.scope, self.arrays
                Tracer.__init__(self, (), name=self.name)  # with nothing captured
                self.surroundings = _Nothing()
                self._location, self.builder.scope, self.arrays = location, scope, arrays
                local.mode.tracer = self

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, code runs eagerly."""
        self.flush()
        local.mode.tracer = None
        try:
            yield
        finally:
            local.mode.tracer = self

    # what Python asks ---------------------------------------------------------------------------------------

    def materialise(self, reason: str) -> None:
        """Make all tensors real."""
        self.flush()

    def outcome(self, t: Tensor, of: Callable[[Any], Any]) -> Any:
        """`of` the elements."""
        self.flush()
        return of(on_host(t._data))

    def computed(self, function: Callable[..., Any], tensors: Sequence[Tensor], fixed: tuple[Any, ...]) -> list[Tensor]:
        """What `function` makes of the elements."""
        self.flush()
        where = self.placement.where
        arrays = function(*[on_host(t._data) for t in tensors], *fixed)
        return [wrap(on_device(np.asarray(x), where)) for x in arrays]

    def read(self, t: Tensor) -> np.ndarray[Any, Any]:
        """The elements."""
        self.flush()
        return on_host(t._data)

    def nested(self, compiled: Callable[..., Any], f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The call of a compiled function, which replays."""
        with self.paused():
            return compiled(*args, **kwargs)

    # what need not be noted, because Python comes by at each call --------------------------------------------

    def touch(self, thing: Any) -> None:
        """Nothing depends on it."""

    def watch_hooks(self, t: Tensor) -> None:
        """Nothing depends on them."""

    def _guard_grad(self, t: Tensor, grad: Tensor | None) -> None:
        """Nothing depends on it."""

    def constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        """A tensor of numbers known to Python: data, which may differ at the next call."""
        return wrap(on_device(np.array(array), self.placement.where))

    def lift(self, x: Any, type: TensorType) -> Value:
        """Saved data of a tape node, which is an array if the node was recorded in an earlier segment."""
        if isinstance(x, (np.ndarray, DeviceArray)):
            return self.value(wrap(x))
        return super().lift(x, type)

    # what runs at once --------------------------------------------------------------------------------------

    def ends_before(self, operands: Sequence[Tensor], op: Op | None = None) -> bool:
        """Run what was captured, and `op` too: if it may refuse values, or reads memory that Python can change."""
        if op is not None and type(op).value_checks is not Op.value_checks and op.value_checks(*_types(operands)):
            self.flush()
            return True
        for array in self.arrays:
            if any(t._data.__class__ is not Value and may_share_memory(t._data, array) for t in operands):
                self.flush()
                return True
        return super().ends_before(operands, op)


def _types(operands: Sequence[Tensor]) -> list[Any]:
    return [t.type_ for t in operands]


class Rerun:
    """A key under which Python runs at each call, and why; by which way is measured."""

    def __init__(self, reason: str, location: str | None, name: str, numerics: str = "default") -> None:
        self.reason = reason
        self.location = location
        self.name = name
        self.numerics = numerics
        self.runs = 0
        self.traced: list[float] = []  # seconds
        self.eager: list[float] = []
        self.is_eager: bool | None = None  # None: not decided yet

    def __call__(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call `f`."""
        self.runs += 1
        if self.is_eager:
            return f(*args, **kwargs)
        if self.is_eager is False:
            return retraced(f, args, kwargs, self.name, self.numerics)
        if self.runs <= _WARM_UP:
            return retraced(f, args, kwargs, self.name, self.numerics)
        return self._timed(f, args, kwargs)

    def _timed(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        is_eager = len(self.eager) < len(self.traced)
        before, start = counters.graphs, time.perf_counter()
        result = f(*args, **kwargs) if is_eager else retraced(f, args, kwargs, self.name, self.numerics)
        taken = time.perf_counter() - start
        if counters.graphs == before:
            (self.eager if is_eager else self.traced).append(taken)
        if len(self.eager) >= _TIMED or self.runs > _MOST_TRIED:
            self.is_eager = not self.traced or not self.eager or min(self.eager) <= min(self.traced)
        return result

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        if self.is_eager is None:
            how = "Python runs at each call"
        elif self.is_eager:
            how = "eager"
        else:
            how = "Python runs at each call, kernels are reused"
        times = ""
        if self.traced and self.eager:
            times = f" (traced anew {min(self.traced) * 1e6:.0f} µs, eager {min(self.eager) * 1e6:.0f} µs)"
        return f"{how}{times}, {self.runs} runs: {self.reason}{where}"


def retraced(f: Callable[..., Any], args: Any, kwargs: Any, name: str, numerics: str) -> Any:
    """Call `f` under a `Retracer`."""
    tracer = Retracer(name, numerics)
    mode = local.mode
    mode.tracer = tracer
    try:
        result = f(*args, **kwargs)
        finish(tracer)
        return result
    except BaseException:
        if mode.tracer is tracer:
            finish(tracer)
        raise
    finally:
        mode.tracer = None


def finish(tracer: Retracer) -> None:
    """Run what is left, and stop tracing."""
    tracer.flush()
    local.mode.tracer = None
