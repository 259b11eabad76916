"""Several compiled graphs as one native call.

    run = join([[Call(a, (0, 1), (2,))], [Call(b, (2, 3), (None,))]], types)
    run(arrays)

The calls run in stages, on numbered arrays that the caller gives: nothing is allocated but the arena, which they share.
The small calls of a stage go to the threads together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.errors import InternalError

from .buffers import pool as buffers
from .cpu import driver
from .cpu.threads import pool as threads
from .encode import Code, Encoder, NativeSegment
from .executable import Executable
from .loops.ir import Kernel
from .lower import AnyKernel, Launch
from .plan import Place, Plan, kernels_of
from .schedule import PORTION, SERIAL_BELOW, grain

Array = np.ndarray[Any, Any]
ArrayType = tuple[tuple[int, ...], Any]  # shape, NumPy dtype


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a compiled graph: the numbers of the arrays that are its inputs and outputs.

    An output that aliases an input has no array of its own: None.
    """

    run: Executable
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.run.running

    @property
    def addresses(self) -> Mapping[AnyKernel, int]:
        """Where the machine code of each kernel is."""
        return {k: n.address for k, n in zip(kernels_of(self.plan), self.run.native, strict=True)}

    @property
    def launches(self) -> list[Launch]:
        """All kernel launches."""
        return [launch for found in self.plan.launches for launch in found]

    @property
    def can_go_together(self) -> bool:
        """Whether it may run in some thread beside others: plain kernels, each on the calling thread, no arena."""
        return (
            not self.plan.arena_bytes
            and len(self.launches) >= len(self.plan.steps)
            and all(isinstance(x.kernel, Kernel) and not grain(x) for x in self.launches)
        )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Regions of a call in the table of all arrays."""

    call: Call
    constants: int
    arena: int

    def number(self, place: Place) -> int:
        """The region of a place."""
        match place.region:
            case "input":
                return self.call.inputs[place.index]
            case "constant":
                return self.constants + place.index
            case "arena":
                return self.arena
        found = self.call.outputs[place.index]
        if found is None:
            raise InternalError(f"{self.call.run.name}: output {place.index} has no array")
        return found


def can_join(run: Executable) -> bool:
    """Whether an executable is native code alone, which `join` asks for."""
    return all(isinstance(s, NativeSegment) for s in run._segments)


def join(
    stages: Sequence[Sequence[Call]], types: Sequence[ArrayType], copies: Sequence[tuple[int, Sequence[int]]] = ()
) -> Joined:
    """One native call that makes all calls, stage by stage, on arrays of the given `types`.

    The calls of one stage must not depend on one another. `copies` are pairs (source, targets) of arrays of equal type,
    copied behind the first stage.
    """
    calls = [call for stage in stages for call in stage]
    constants = [c for call in calls for c in call.run._constants]
    code, first, arena = Code(), len(types), len(types) + len(constants)
    for k, stage in enumerate(stages):
        together: list[tuple[Call, Encoder]] = []
        apart: list[tuple[Call, Encoder]] = []
        for call in stage:
            encoder = Encoder(call.plan, call.addresses, _Numbers(call, first, arena))
            first += len(call.run._constants)
            (together if call.can_go_together else apart).append((call, encoder))
        _together(code, together)
        for _, encoder in apart:
            encoder.into(code)
        if k == 0:
            _copy(code, types, copies)
    written = {call.inputs[i] for call in calls for i in call.run.aliases.values()}
    written |= {t for _, targets in copies for t in targets}
    return Joined(code.finish(), types, constants, sorted(written), max((c.plan.arena_bytes for c in calls), default=0))


def _copy(code: Code, types: Sequence[ArrayType], copies: Sequence[tuple[int, Sequence[int]]]) -> None:
    for source, targets in copies:
        shape, dtype = types[source]
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        for target in targets:
            code.append([driver.COPY, nbytes, target, 0, source, 0], ())


def _together(code: Code, calls: Sequence[tuple[Call, Encoder]]) -> None:
    """Calls that threads may share out, in portions of about equal work; right here if they are little work."""
    works = [sum(launch.work for launch in call.launches) for call, _ in calls]
    if sum(works) < SERIAL_BELOW:
        for _, encoder in calls:
            encoder.into(code)
        return
    parts, part, work = [], Code(), 0.0
    for (_, encoder), own in zip(calls, works, strict=True):
        encoder.into(part)
        work += own
        if work >= PORTION:
            parts.append(part.finish())
            part, work = Code(), 0.0
    if part.steps:
        parts.append(part.finish())
    code.inner += parts
    code.is_shared = True
    code.append([driver.TOGETHER, len(parts), code.pointer([p.address for p in parts])], (2,))


class Joined:
    """Compiled graphs that run as one native call. Made by `join`."""

    __slots__ = ("_arena_bytes", "_code", "_constants", "_run", "types", "written")

    def __init__(
        self, code: NativeSegment, types: Sequence[ArrayType], constants: Sequence[Array], written: Sequence[int],
        arena_bytes: int,
    ) -> None:  # fmt: skip
        self._code = code
        self._constants = list(constants)
        self._arena_bytes = arena_bytes
        self._run = driver.load_driver()
        self.types = tuple(types)
        self.written = tuple(written)  # numbers of the arrays that are written, but for outputs

    def check(self, arrays: Sequence[Array]) -> None:
        """Shapes, dtypes, and that what is written can be: the machine code's only protection, before `__call__`."""
        if len(arrays) != len(self.types):
            raise InternalError(f"{len(self.types)} arrays are needed, {len(arrays)} were given")
        for x, (shape, dtype) in zip(arrays, self.types):
            if x.shape != shape or x.dtype != dtype:
                raise InternalError(f"compiled for {dtype}{list(shape)}, not {x.dtype}{list(x.shape)}")
        for k in self.written:
            if not arrays[k].flags.writeable:
                raise InternalError(f"array {k} is written to, but read-only")

    def __call__(self, arrays: Sequence[Array]) -> None:
        """Run on arrays that have passed `check`."""
        given = [*arrays, *self._constants]
        if self._enter(given):
            return
        plain = [x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C") for x in given]
        self._enter(plain)
        for x, copied in zip(given, plain, strict=True):
            if copied is not x and x.flags.writeable:
                np.copyto(x, copied)

    def _enter(self, arrays: list[Array]) -> int:
        arena = buffers.take(self._arena_bytes) if self._arena_bytes else None
        count, entry, lock = 1, 0, None
        if self._code.is_shared:
            count, entry, lock = threads.num_threads, threads.parallel_for, threads.lock
            if lock is not None and not lock.acquire(blocking=False):
                entry, lock = 0, None
        try:
            return self._run(arrays, self._code.address, ctypes.addressof(arena) if arena else 0, count, entry)
        finally:
            if lock is not None:
                lock.release()
            if arena is not None:
                buffers.give(arena)
