"""A compiled graph: call it with arrays, get arrays.

    run = compile_graph(graph)
    (y,) = run([x])

A call allocates the outputs, borrows an arena, and enters the driver once per native segment. It may be made from
several threads at once. Inputs of any strides are taken; those that are not C-contiguous and aligned are copied
first, and copied back if an output aliases them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError, JitgradError
from jitgrad.ir.types import TensorType

from .buffers import pool as buffers
from .cpu import driver
from .cpu.arrange import apply_on_host
from .cpu.threads import pool as threads
from .direct_entry import DirectEntry
from .encode import HostOperand, HostSegment, NativeSegment, Segment
from .plan import Plan
from .program_text import DumpText
from .stats import Stats

Array = np.ndarray[Any, Any]
_CALLS: Final = 16  # before a direct entry is worth making


@dataclass(frozen=True, slots=True)
class Frame:
    """What a call takes of a plan, besides the segments."""

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    aliases: Mapping[int, int]
    constants: tuple[Array, ...]
    arena_bytes: int

    @property
    def nbytes(self) -> int:
        """All memory of a call."""
        return sum(t.nbytes for t in (*self.inputs, *self.outputs)) + self.arena_bytes

    @classmethod
    def of(cls, plan: Plan) -> Frame:
        """That of a plan."""
        graph = plan.program.graph
        types = [tuple(v.type for v in values) for values in (graph.inputs, graph.outputs)]
        constants = tuple(np.array(op.literal.array, order="C") for op in plan.program.constants.values())
        return cls(types[0], types[1], plan.aliases, constants, plan.arena_bytes)


class Executable:
    """A plan with its machine code. Made by `compile_graph`.

    `running` is the plan as far as running takes it, `native` its machine code, kernel by kernel. For what looks at
    the program as well there are `plan` and `kernels`: those of an executable of the same graph that has all of it.
    One that comes from disk has a frame instead of a plan, and both from there.
    """

    __slots__ = (
        "_arena_bytes", "_calls_left", "_constants", "_direct", "_first_output", "_has_host", "_inputs", "_is_shared",
        "_native", "_outputs", "_run", "_running", "_segments", "_text", "_whole", "_writable", "aliases", "frame",
        "name", "stats",
    )  # fmt: skip

    def __init__(
        self, name: str, plan: Plan | Frame, segments: Sequence[Segment], kernels: Sequence[Any], stats: Stats,
        text: DumpText | Callable[[], Executable],
    ) -> None:  # fmt: skip
        frame = plan if isinstance(plan, Frame) else Frame.of(plan)
        self.name = name
        self.frame = frame
        self._running = None if isinstance(plan, Frame) else plan
        self._native = tuple(kernels)
        self.stats = stats
        self.aliases: Mapping[int, int] = frame.aliases
        self._segments = tuple(segments)
        self._has_host = any(isinstance(s, HostSegment) for s in segments)
        self._is_shared = any(isinstance(s, NativeSegment) and s.is_shared for s in segments)
        self._text: DumpText | None = text if isinstance(text, DumpText) else None
        self._whole: Callable[[], Executable] | None = None if isinstance(text, DumpText) else text
        self._inputs = tuple((t.shape, t.dtype.np) for t in frame.inputs)
        self._first_output = len(frame.inputs)
        self._outputs = tuple(
            (self.aliases.get(k, -1), t.shape, t.dtype.np, t.nbytes) for k, t in enumerate(frame.outputs)
        )  # the input that an output aliases, or -1
        self._writable = tuple(sorted(set(frame.aliases.values())))
        self._constants = frame.constants
        self._arena_bytes = frame.arena_bytes
        self._run = driver.load_driver()
        self._direct: DirectEntry | None = None
        self._calls_left = _CALLS if DirectEntry.suits(self._segments, frame.nbytes) else 0

    @property
    def running(self) -> Plan:
        """The plan that calls go by."""
        return self.whole().running if self._running is None else self._running

    @property
    def native(self) -> tuple[Any, ...]:
        """The machine code of its kernels."""
        return self.whole().native if self._running is None else self._native

    @property
    def plan(self) -> Plan:
        """The plan with its program."""
        return self.whole().running

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The machine code of that plan's kernels."""
        return self.whole().native

    def whole(self) -> Executable:
        """An executable with a program: this one, or one that is compiled when first asked for."""
        if self._whole is None:
            return self
        made = self._whole()
        self._whole = lambda: made
        return made

    @property
    def steps(self) -> tuple[Any, ...]:
        """The plan's steps."""
        return tuple(self.running.steps)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs. An output that aliases an input is that input's array itself."""
        self._check(inputs)
        empty = buffers.empty
        outputs = [inputs[i] if i >= 0 else empty(shape, dtype, nbytes) for i, shape, dtype, nbytes in self._outputs]
        arrays = [*inputs, *outputs, *self._constants]
        if self._direct is not None and self._direct.run(arrays):
            return outputs
        if self._calls_left:
            self._count_call()
        if not self._arena_bytes:
            self._enter(arrays, None, 0)
            return outputs
        arena = buffers.lend(self._arena_bytes)
        try:
            self._enter(arrays, arena, ctypes.addressof(arena))
        finally:
            buffers.give(arena)
        return outputs

    def _count_call(self) -> None:
        """Make the direct entry once calls are many."""
        self._calls_left = max(0, self._calls_left - 1)
        if not self._calls_left:
            self._direct = DirectEntry(self._segments[0], self._arena_bytes)

    def _check(self, inputs: Sequence[Array]) -> None:
        """Shapes and dtypes are the machine code's only protection."""
        if len(inputs) != self._first_output:
            raise InternalError(f"{self.name} takes {self._first_output} inputs, {len(inputs)} were given")
        for x, (shape, dtype) in zip(inputs, self._inputs):
            if x.shape != shape or (x.dtype is not dtype and x.dtype != dtype):
                raise InternalError(f"{self.name} was compiled for {dtype}{list(shape)}, not {x.dtype}{list(x.shape)}")
        for k in self._writable:
            if not inputs[k].flags.writeable:
                raise InternalError(f"{self.name} writes to input {k}, which is read-only")

    def _enter(self, arrays: list[Array], arena: Any, address: int) -> None:
        """Run all segments."""
        if self._has_host and not all(map(_is_plain, arrays)):
            return self._enter_with_copies(arrays, arena, address)
        count, entry, lock = 1, 0, None
        if self._is_shared:
            count, entry, lock = threads.num_threads, threads.parallel_for, threads.lock
            if lock is not None and not lock.acquire(blocking=False):
                entry, lock = 0, None
        try:
            for segment in self._segments:
                if isinstance(segment, HostSegment):
                    run_host(segment, arrays, arena)
                elif not self._run(arrays, segment.address, address, count, entry):
                    break
            else:
                return None
        finally:
            if lock is not None:
                lock.release()
        return self._enter_with_copies(arrays, arena, address)

    def _enter_with_copies(self, arrays: list[Array], arena: Any, address: int) -> None:
        """The same on contiguous copies of inputs that are not contiguous or not aligned."""
        n = self._first_output
        plain = [x if _is_plain(x) else np.array(x, order="C") for x in arrays[:n]]
        written = {n + k: i for k, i in self.aliases.items()}
        rest = [plain[written[k]] if k in written else x for k, x in enumerate(arrays[n:], n)]
        self._enter(plain + rest, arena, address)
        for i in self._writable:
            if plain[i] is not arrays[i]:
                np.copyto(arrays[i], plain[i])

    def dump(self, folder: Path | None = None) -> Mapping[str, str]:
        """The stages as text: `graph`, `groups`, `kernels`, `plan`, `llvm`, `assembly`; in files of `folder` too."""
        whole = self.whole()
        assert whole._text is not None
        pieces = whole._text.pieces(whole)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for stage, text in pieces.items():
                (folder / f"{stage}.txt").write_text(text, "utf-8")
        return pieces


def _is_plain(x: Array) -> bool:
    """What machine code takes as it is."""
    return x.flags.c_contiguous and x.flags.aligned


def run_host(segment: HostSegment, arrays: list[Array], arena: Any) -> None:
    """One op through NumPy."""
    try:
        given = [_view(o, arrays, arena) for o in segment.operands]
        results = apply_on_host(segment.op, given)
    except JitgradError as error:
        error.attach_location(str(segment.node.location) if segment.node.location else None)
        raise
    for place, result in zip(segment.results, results, strict=True):
        if not any(result is x and place == at for x, at in zip(given, segment.operands, strict=True)):
            np.copyto(_view(place, arrays, arena), result)


def _view(operand: HostOperand, arrays: list[Array], arena: Any) -> Array:
    """The array at a place."""
    if operand.region < len(arrays):
        return arrays[operand.region].reshape(operand.shape)
    if operand.nbytes == 0:
        return np.empty(operand.shape, operand.dtype)
    return np.ndarray(operand.shape, operand.dtype, arena, operand.offset)
