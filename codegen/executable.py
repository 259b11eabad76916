"""A compiled graph: call it with arrays, get arrays.

    run = compile_graph(graph)
    (y,) = run([x])

A call allocates the outputs, borrows an arena, and enters the driver once per native segment. It may be made from several
threads at once. Inputs of any strides are taken; those that are not C-contiguous and aligned are copied first, and
copied back if an output aliases them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jitgrad.ir.errors import InternalError
from jitgrad.ir.interpreter import apply_reference

from .buffers import pool as buffers
from .cpu import driver
from .cpu.threads import pool as threads
from .encode import HostOperand, HostSegment, NativeSegment, Segment
from .plan import Plan
from .program_text import DumpText

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Stats:
    """What compiling took and what a call does. Times are in milliseconds."""

    kernels: int = 0
    compiled: int = 0
    reused: int = 0
    stages_ms: dict[str, float] = field(default_factory=dict)
    bytes: int = 0
    flops: int = 0
    arena_bytes: int = 0

    @property
    def total_ms(self) -> float:
        """All stages together."""
        return sum(self.stages_ms.values())


class Executable:
    """A plan with its machine code. Made by `compile_graph`."""

    __slots__ = (
        "_arena_bytes", "_back", "_constants", "_inputs", "_outputs", "_run", "_segments", "_text", "_writable",
        "aliases", "kernels", "name", "plan", "stats",
    )  # fmt: skip

    def __init__(
        self, name: str, plan: Plan, segments: Sequence[Segment], kernels: Sequence[Any], stats: Stats, text: DumpText
    ) -> None:
        graph = plan.program.graph
        self.name = name
        self.plan = plan
        self.kernels = tuple(kernels)
        self.stats = stats
        self.aliases: Mapping[int, int] = plan.aliases
        self._segments = tuple(segments)
        self._text = text
        self._inputs = tuple((v.type.shape, v.type.dtype.np) for v in graph.inputs)
        self._outputs = tuple(
            (k, v.type.shape, v.type.dtype.np, v.type.nbytes) for k, v in enumerate(graph.outputs)
        )
        self._writable = tuple(sorted(set(plan.aliases.values())))
        self._constants = [np.array(op.literal.array, order="C") for op in plan.program.constants.values()]
        self._arena_bytes = plan.arena_bytes
        self._run: Callable[..., None] = driver.load_driver()

    @property
    def steps(self) -> tuple[Any, ...]:
        """The plan's steps."""
        return tuple(self.plan.steps)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs. Outputs that alias an input are that input's array itself."""
        given = self._checked(inputs)
        empty, aliases = buffers.empty, self.aliases
        outputs = [
            given[aliases[k]] if k in aliases else empty(shape, dtype, nbytes)
            for k, shape, dtype, nbytes in self._outputs
        ]
        arena = buffers.take(self._arena_bytes)
        try:
            self._enter([*given, *outputs, *self._constants], arena)
        finally:
            buffers.give(arena)
        for k in self._writable:
            if given[k] is not inputs[k]:
                np.copyto(inputs[k], given[k])
        return [inputs[aliases[k]] if k in aliases else x for k, x in enumerate(outputs)]

    def _checked(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs as the kernels need them."""
        if len(inputs) != len(self._inputs):
            raise InternalError(f"{self.name} takes {len(self._inputs)} inputs, {len(inputs)} were given")
        given = []
        for x, (shape, dtype) in zip(inputs, self._inputs):
            if x.shape != shape or x.dtype != dtype:
                raise InternalError(f"{self.name} was compiled for {dtype}{list(shape)}, not {x.dtype}{list(x.shape)}")
            flags = x.flags
            given.append(x if flags.c_contiguous and flags.aligned else np.array(x, order="C"))
        for k in self._writable:
            if not inputs[k].flags.writeable:
                raise InternalError(f"{self.name} writes to input {k}, which is read-only")
        return given

    def _enter(self, arrays: list[Array], arena: Any) -> None:
        """Run all segments."""
        table = np.array([x.__array_interface__["data"][0] for x in arrays] + [_address(arena)], np.int64)
        at, count, entry = table.ctypes.data, threads.num_threads, threads.parallel_for
        for segment in self._segments:
            if isinstance(segment, NativeSegment):
                self._run(segment.address, at, count, entry)
            else:
                _run_host(segment, arrays, arena)

    def dump(self) -> Mapping[str, str]:
        """The stages as text, by name: `groups`, `kernels`, `plan`, `llvm`, `assembly`."""
        return self._text.pieces(self)


def _address(arena: Any) -> int:
    return int(np.frombuffer(arena, np.uint8, 1).__array_interface__["data"][0])


def _run_host(segment: HostSegment, arrays: list[Array], arena: Any) -> None:
    """One op through NumPy."""
    results = apply_reference(segment.op, [_view(o, arrays, arena) for o in segment.operands])
    for place, result in zip(segment.results, results):
        np.copyto(_view(place, arrays, arena), result)


def _view(operand: HostOperand, arrays: list[Array], arena: Any) -> Array:
    """The array at a place."""
    if operand.region < len(arrays):
        return arrays[operand.region].reshape(operand.shape)
    if operand.nbytes == 0:
        return np.empty(operand.shape, operand.dtype)
    return np.ndarray(operand.shape, operand.dtype, arena, operand.offset)
