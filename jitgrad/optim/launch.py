"""An eager step as one native call.

The first step with a structure (which parameters have gradients, what their states hold) runs op by op. When it comes
again, the update of each kind of parameter is captured, compiled, and joined with those of all others; from then on a
step fetches arrays and enters native code once. Options that are numbers are read at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.config import config

from ..aliasing import storage_of
from ..backend import join
from ..compiler.memory import overlaps, overlaps_itself, owner
from ..mode import Mode, local
from ..tensor import Tensor, rebinding
from .capture import Role, Update, capture

if TYPE_CHECKING:
    from .by_parameter import ByParameter

_MOST = 32  # structures kept
_ndarray = np.ndarray


class Launcher:
    """Runs the steps of one optimizer, as long as its options, states and parameters are what they were."""

    __slots__ = ("_arrays", "_columns_of", "_epoch", "_kept", "_rebound", "members", "params")

    def __init__(self, optimizer: ByParameter) -> None:
        self._epoch = optimizer._epoch
        self._rebound = rebinding.count
        self.members = [(n, group, p) for n, group in enumerate(optimizer.param_groups) for p in group["params"]]
        self.params = [p for _, _, p in self.members]
        self._arrays = self._find_arrays(optimizer)
        self._kept: dict[Any, Launch | _Never | None] = {}
        self._columns_of: dict[tuple[bool, ...], list[list[Any]] | None] = {}

    def holds(self, optimizer: ByParameter) -> bool:
        """Whether nothing has changed that a launch depends on."""
        if self._epoch != optimizer._epoch:
            return False
        count = rebinding.count
        if self._rebound != count:  # of some tensor or other
            now = self._find_arrays(optimizer)
            if len(now) != len(self._arrays) or any(x is not y for x, y in zip(now, self._arrays, strict=True)):
                return False
            self._rebound = count
        return True

    def _find_arrays(self, optimizer: ByParameter) -> list[Any]:
        states = [dict.get(optimizer.state, p) or {} for p in self.params]
        held = [t for state in states for t in state.values() if isinstance(t, Tensor)]
        return [t._data for t in (*self.params, *held)]

    def step(self, optimizer: ByParameter) -> bool:
        """Take one step, if that can be one native call by now."""
        mask = tuple([p._grad is not None for p in self.params])
        if mask not in self._columns_of:
            self._columns_of[mask] = self._columns(optimizer, mask)
        columns = self._columns_of[mask]
        if columns is None:
            return False
        cohorts = _cohorts(columns)
        key = mask, cohorts
        if key not in self._kept:  # seen for the first time
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[key] = None
            return False
        launch = self._kept[key]
        if launch is None:
            active = [m for m, is_there in zip(self.members, mask, strict=True) if is_there]
            launch = self._kept[key] = build(optimizer, active, cohorts) or _Never()
        return launch.run()

    def _columns(self, optimizer: ByParameter, mask: tuple[bool, ...]) -> list[list[Any]] | None:
        """The arrays of the numbers in the states, a list for each name; None if states are missing or unusual."""
        found: dict[str, list[Any]] = {}
        for (_, group, p), is_there in zip(self.members, mask, strict=True):
            if not is_there:
                continue
            state = dict.get(optimizer.state, p)
            if not state and optimizer.needs_state(group):
                return None
            for name, t in (state or {}).items():
                if t.__class__ is not Tensor or t._data.__class__ is not _ndarray:
                    return None
                if name in optimizer.shared_state:
                    found.setdefault(name, []).append(t._data)
        count = sum(mask)
        if not count or any(len(column) != count for column in found.values()):
            return None
        return list(found.values())


class _Never:
    """What has turned out not to be one native call."""

    def run(self) -> bool:
        return False


def _cohorts(columns: list[list[Any]]) -> tuple[int, ...] | None:
    """Which parameters have equal numbers in their states: a number for each, None if all do."""
    values = [[x.item() for x in column] for column in columns]
    if all(len(set(v)) == 1 for v in values):
        return None
    numbers: dict[Any, int] = {}
    return tuple([numbers.setdefault(row, len(numbers)) for row in zip(*values, strict=True)])


def can_launch(optimizer: ByParameter, mode: Mode) -> bool:
    """Whether ops would just run, here and now, without a record."""
    if mode.tracer is not None or mode.levels or mode.anomaly or mode.autocast is not None or mode.place is not None:
        return False
    return config.compile and not any(dict.get(g, "differentiable") for g in optimizer.param_groups)


def build(
    optimizer: ByParameter, members: Sequence[tuple[int, dict[str, Any], Tensor]], cohorts: tuple[int, ...] | None
) -> Launch | None:
    """A launch for these parameters with their groups; None if there can't be one."""
    table = _Table([p for _, _, p in members])
    updates: dict[Any, Update | None] = {}
    for k, (number, group, p) in enumerate(members):
        state = dict.get(optimizer.state, p) or {}
        arrays = [p._data, _gradient(p), *[t._data for t in state.values()]]
        if any(x.__class__ is not _ndarray for x in arrays):
            return None
        kind = (number, *[(x.shape, x.dtype) for x in arrays], tuple(state))
        if kind not in updates:
            updates[kind] = capture(optimizer, group, p)
        update = updates[kind]
        if update is None:
            return None
        table.add(update, number, 0 if cohorts is None else cohorts[k], k, p, state)
    return table.launch()


def _gradient(p: Any) -> Any:
    return p._grad._data


class _Table:
    """Numbers the arrays of a launch, gradients first, and lists the calls."""

    def __init__(self, params: list[Any]) -> None:
        self.params = params
        self.numbers: dict[Any, int] = {}
        self.holders: list[Any] = []  # behind the gradients: a tensor, or an array of the launch's own
        self.reads: list[tuple[Any, Any]] = []
        self.first: list[tuple[Any, ...]] = []
        self.rest: list[tuple[Any, ...]] = []
        self.results: dict[Any, list[int]] = {}
        self.copies: dict[int, list[int]] = {}
        self.written: list[Tensor] = []

    def add(
        self, update: Update, group: int, cohort: int, k: int, p: Tensor, state: dict[str, Any]
    ) -> None:  # fmt: skip
        """The update of parameter `k` of the launch."""
        tensors: dict[Role, Tensor] = {("param",): p, **{("state", name): t for name, t in state.items()}}

        def place(role: Role) -> int:
            match role[0]:
                case "grad":
                    return k
                case "number":
                    return self._number((group, role[1]), update.reads[role[1]])
                case "tensor":
                    return self._holder(id(role[1]), role[1])
            return self._holder(id(tensors[role]), tensors[role])

        taken = self._shared_results(update, (group, cohort), place)
        part = update.elements
        own = len(part.inputs) - len(update.taken)
        inputs = [place(role) if role else -1 for role in part.inputs]
        for at, result in enumerate(update.taken):
            if result >= 0:
                inputs[own + at] = taken[result]
        self.rest.append((part.run, tuple(inputs), (None,) * len(part.outputs)))
        self.written += [tensors[role] for role in part.outputs if role is not None]

    def _shared_results(self, update: Update, cohort: Any, place: Any) -> list[int]:
        """The places of what the update takes from numbers alone, which are computed once for a cohort."""
        part = update.numbers
        if part is None:
            return []
        inputs = tuple([place(role) for role in part.inputs])
        key = (part.run, cohort)
        found = self.results.get(key)
        written = [place(role) if role is not None else None for role in part.outputs]
        if found is None:
            types = [v.type for v in part.run.running.program.graph.outputs]
            own = [
                self._holder((key, i), np.empty((), t.dtype.np)) if at is None else at
                for i, (at, t) in enumerate(zip(written, types, strict=True))
            ]
            outputs = tuple([None if at is not None else i for at, i in zip(written, own, strict=True)])
            self.first.append((part.run, inputs, outputs))
            found = self.results[key] = own
        for at, source in zip(written, found, strict=True):
            if at is not None:
                self.written.append(self.holders[at - len(self.params)])
                if at != source:
                    self.copies.setdefault(source, []).append(at)
        return found

    def _holder(self, key: Any, holder: Any) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.params) + len(self.holders)
            self.holders.append(holder)
        return found

    def _number(self, key: Any, read: Any) -> int:
        if key not in self.numbers:
            array = np.zeros((), np.float64)
            self.reads.append((array, read))
        else:
            array = None
        return self._holder(key, array)

    def launch(self) -> Launch | None:
        """The launch, if nothing that is written shares memory with anything else."""
        fixed = [x._data if isinstance(x, Tensor) else x for x in self.holders]
        grads = list(map(_gradient, self.params))
        written = list({id(t): t for t in self.written}.values())
        owned = {id(t) for t in written}
        if len(owned) != len(self.written) or any(overlaps_itself(t._data) for t in written):
            return None
        if not all(t._data.flags.writeable for t in written) or overlaps(list(enumerate(fixed))):
            return None
        types = [(x.shape, x.dtype) for x in (*grads, *fixed)]
        joined = join([self.first, self.rest], types, tuple(self.copies.items()))
        joined.check([*grads, *fixed])
        return Launch(joined, self.params, fixed, self.reads, written)


class Launch:
    """One step of some parameters as one native call."""

    __slots__ = ("_fixed", "_joined", "_owners", "_params", "_reads", "_storages", "_types")

    def __init__(
        self, joined: Any, params: list[Any], fixed: list[Any], reads: list[tuple[Any, Any]], written: list[Tensor]
    ) -> None:
        self._joined = joined
        self._params = params
        self._fixed = fixed
        self._reads = reads
        self._types = [(p._data.shape, p._data.dtype) for p in params]
        self._storages = list({id(s): s for s in map(storage_of, written)}.values())
        self._owners = frozenset([owner(t._data) for t in written])

    def run(self) -> bool:
        """Take the step; False, with nothing done, if a gradient is not what it was."""
        grads = [p._grad._data for p in self._params]
        owners = self._owners
        for x, (shape, dtype) in zip(grads, self._types):
            if x.__class__ is not _ndarray or x.dtype != dtype or x.shape != shape or owner(x) in owners:
                return False
        for array, read in self._reads:
            array[()] = read()
        self._joined(grads + self._fixed)
        for storage in self._storages:
            storage._version += 1
        return True


def launched(optimizer: ByParameter) -> bool:
    """Take a step as one native call; False, with nothing done, where it has to run op by op."""
    if not can_launch(optimizer, local.mode):
        return False
    launcher = optimizer.__dict__.get("_launcher")
    if launcher is None or not launcher.holds(optimizer):
        launcher = optimizer.__dict__["_launcher"] = Launcher(optimizer)
    return launcher.step(optimizer)
