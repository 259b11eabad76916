"""From a plan to segments: code for the native driver, and calls of the host between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from jitgrad.ir.control import Scan, WhileLoop
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import Op

from .control import Track, layout_of
from .conv.product_launch import is_by_vector
from .cpu import blas, driver
from .cpu.abi import pack_params
from .cpu.addresses import BLAS, GEMM, INNER, SWITCH, Address, Name
from .fuse.program import ControlStep, HostStep, KernelStep, ProductStep, TileStep
from .lower import AnyKernel, Launch, Operand, nbytes_of
from .plan import CopyStep, Place, Plan, PlannedStep
from .schedule import grain, tile_grain

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class NativeSegment:
    """Consecutive native steps, as the driver's code. `address` is that of `code`, which must stay alive.

    `is_shared` tells whether some step is worth sharing out among threads.
    """

    code: Array
    address: int
    steps: int
    is_shared: bool
    inner: tuple[NativeSegment, ...] = ()  # code that this code runs, kept alive here
    names: tuple[tuple[int, Name], ...] = ()  # cells that hold addresses, and of what


@dataclass(frozen=True, slots=True)
class HostOperand:
    """An array in a region: which one, where, and its type."""

    region: int
    offset: int
    shape: tuple[int, ...]
    dtype: Any
    nbytes: int


@dataclass(frozen=True, slots=True)
class HostSegment:
    """One op run through NumPy."""

    op: Op
    operands: tuple[HostOperand, ...]
    results: tuple[HostOperand, ...]
    node: Node


Segment: TypeAlias = NativeSegment | HostSegment


class HasNumbers(Protocol):
    """What knows where places are."""

    def number(self, place: Place) -> int:
        """The region of a place."""


@dataclass(slots=True)
class Regions:
    """Numbers of regions in the driver's table: inputs, outputs, constants, arena."""

    inputs: int
    outputs: int
    constants: int
    first: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        behind = self.inputs + self.outputs
        self.first = {"input": 0, "output": self.inputs, "constant": behind, "arena": behind + self.constants}

    def number(self, place: Place) -> int:
        """The region of a place."""
        return self.first[place.region] + place.index


@dataclass(slots=True)
class Code:
    """Cells under construction: steps, and data that they point to, which goes behind them."""

    cells: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    relocations: list[int] = field(default_factory=list)  # cells that hold positions within `data`
    steps: int = 0
    is_shared: bool = False
    inner: list[NativeSegment] = field(default_factory=list)

    def pointer(self, values: Sequence[int]) -> int:
        """The position of `values` in the data; the cell that holds it must be relocated."""
        at = len(self.data)
        self.data += values or [0]
        return at

    def append(self, cells: Sequence[int], pointers: Sequence[int]) -> None:
        """One step; `pointers` are the positions of cells that point into the data."""
        base = len(self.cells)
        self.relocations += [base + p for p in pointers]
        self.cells += cells
        self.steps += 1

    def finish(self) -> NativeSegment:
        """The segment."""
        start = len(self.cells) + 1
        cells = [*self.cells, driver.END, *self.data]
        for k in self.relocations:
            cells[k] += start
        code = np.array(cells, np.int64)
        names = tuple([(k, x.name) for k, x in enumerate(cells) if x.__class__ is Address])
        return NativeSegment(code, code.ctypes.data, self.steps, self.is_shared, tuple(self.inner), names)


def encode(plan: Plan, addresses: Mapping[AnyKernel, int]) -> list[Segment]:
    """The segments of a plan, given where each kernel's machine code is."""
    return Encoder(plan, addresses).run()


def encode_steps(plan: Plan, addresses: Mapping[AnyKernel, int]) -> list[list[Segment]]:
    """The segments of each step by itself, so that steps can be timed; none for one that does nothing."""
    return Encoder(plan, addresses).apart()


class Encoder:
    """Encodes the steps of a plan; `regions` says where its places are, if not in a table of its own."""

    def __init__(self, plan: Plan, addresses: Mapping[AnyKernel, int], regions: HasNumbers | None = None) -> None:
        self.plan = plan
        self.addresses = addresses
        graph = plan.program.graph
        self.regions = regions or Regions(len(graph.inputs), len(graph.outputs), len(plan.program.constants))
        self.segments: list[Segment] = []
        self.code = Code()

    def run(self) -> list[Segment]:
        """All steps in order."""
        for step, launches in zip(self.plan.steps, self.plan.launches):
            self.step(step, launches)
        self.flush()
        return self.segments

    def into(self, code: Code) -> None:
        """All steps, which must be native, behind those that `code` has."""
        self.code = code
        for step, launches in zip(self.plan.steps, self.plan.launches):
            self.step(step, launches)
        if self.segments:
            raise InternalError("a step of the host in native code")

    def apart(self) -> list[list[Segment]]:
        """The segments of each step by itself."""
        found = []
        for step, launches in zip(self.plan.steps, self.plan.launches):
            self.segments = []
            self.step(step, launches)
            self.flush()
            found.append(self.segments)
        return found

    def step(self, step: PlannedStep, launches: Sequence[Launch]) -> None:
        """One step."""
        match step:
            case HostStep(node=node):
                self.flush()
                self.segments.append(self.host(node))
            case KernelStep() | TileStep():
                for launch in launches:
                    self.kernel(launch)
                if isinstance(step, TileStep) and is_by_vector(step.node):
                    self.product(step.node)
            case ProductStep(node=node):
                self.product(node)
            case ControlStep() if step.needs_host:
                self.flush()
                self.segments.append(self.host(step.node))
            case ControlStep():
                self.control(step)
            case CopyStep():
                self.copy(step)

    def flush(self) -> None:
        """Close the native segment under way."""
        if self.code.steps:
            self.segments.append(self.code.finish())
        self.code = Code()

    def pair(self, operand: Operand, offset: int = 0) -> tuple[int, int]:
        """Region and byte offset."""
        return self.place_pair(self.plan.place(operand), offset)

    def place_pair(self, place: Place, offset: int = 0) -> tuple[int, int]:
        """Region and byte offset of a place."""
        return self.regions.number(place), place.offset + offset

    def append(self, cells: Sequence[int], pointers: Sequence[int]) -> None:
        """One step; `pointers` are the positions of cells that point into the data."""
        self.code.append(cells, pointers)

    def kernel(self, launch: Launch) -> None:
        """One kernel launch; none if there is nothing to do."""
        if launch.extent == 0:
            return
        kernel = launch.kernel
        if len(launch.operands) > driver.MAX_BUFFERS:
            raise InternalError(f"a kernel of {len(launch.operands)} buffers: {launch.label}")
        params = pack_params(kernel.params, launch.params).tolist() if launch.params else []
        portion = grain(launch)
        self.code.is_shared |= portion > 0
        head = [
            driver.KERNEL, self.addresses[kernel], len(launch.operands), self.code.pointer(launch.slots),
            self.code.pointer(params), launch.extent, portion,
        ]  # fmt: skip
        self.append([*head, *[x for o in launch.operands for x in self.pair(o)]], (3, 4))

    def product(self, node: Node) -> None:
        """One matrix product."""
        p = blas.product_of(node)
        if not node.result.type.numel:
            return
        slots = [Address(blas.gemm_address(p.dtype), (BLAS, p.dtype.name)), *p.cells()]
        portion = tile_grain(p)
        self.code.is_shared |= portion > 0
        head = [
            driver.KERNEL, Address(driver.gemm_kernel(), (GEMM,)), 3, self.code.pointer(slots),
            self.code.pointer(p.block()), len(p.tiles), portion,
        ]  # fmt: skip
        switch = blas.thread_switch()
        if switch is not None:
            self.append([driver.CALL, Address(switch[0], (SWITCH,)), 1], ())
        self.append([*head, *self.pair(p.lhs), *self.pair(p.rhs), *self.pair(node.result)], (3, 4))
        if switch is not None:
            self.append([driver.CALL, *switch], ())

    def copy(self, step: CopyStep) -> None:
        """One copy."""
        self.append([driver.COPY, nbytes_of(step.source), *self.place_pair(step.target), *self.pair(step.source)], ())

    def control(self, step: ControlStep) -> None:
        """A choice or a loop whose inner code is native."""
        layout = layout_of(self.plan, step)
        if isinstance(step.node.op, Scan) and not layout.length:
            for source, target in layout.copies:
                cells = [driver.COPY, nbytes_of(source), *self.place_pair(target), *self.pair(source)]
                self.append(cells, ())
            return
        inner = [self.inner_code(x.plan) for x in layout.inside]
        first = len(self.code.inner)
        self.code.inner += inner
        self.code.is_shared |= any(x.is_shared for x in inner)
        tracks = [c for x in layout.inside for t in x.tracks for c in self.track(t)]
        addresses = [Address(x.address, (INNER, str(k))) for k, x in enumerate(inner, first)]
        counts = [len(x.tracks) for x in layout.inside]
        match step.node.op:
            case Scan():
                head = [driver.SCAN, *addresses, layout.length, *counts]
            case WhileLoop():
                outcome = len(step.node.operands)
                head = [driver.WHILE, *addresses, *counts, outcome, len(layout.carried)]
                tracks += [c for x in layout.carried for c in (x.nbytes, *self.place_pair(x.place))]
            case _:
                head = [driver.BRANCH, *self.pair(step.node.operands[0]), *addresses, *counts]
        self.append([*head, *tracks], ())

    def inner_code(self, plan: Plan) -> NativeSegment:
        """The code of an inner plan, which is one segment."""
        found = Encoder(plan, self.addresses).run() or [Code().finish()]
        (segment,) = found
        assert isinstance(segment, NativeSegment)
        return segment

    def track(self, track: Track) -> list[int]:
        """The cells of a track."""
        places = (track.first, track.odd, track.even)
        return [*(x for p in places for x in self.place_pair(p)), track.stride]

    def host(self, node: Node) -> HostSegment:
        """A call of the host."""
        operands = tuple(self.host_operand(v) for v in node.operands)
        return HostSegment(node.op, operands, tuple(self.host_operand(v) for v in node.results), node)

    def host_operand(self, value: Value) -> HostOperand:
        """Where NumPy finds a value."""
        region, offset = self.pair(value)
        t = value.type
        return HostOperand(region, offset, t.shape, t.dtype.np, t.nbytes)
