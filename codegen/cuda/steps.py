"""The steps of a plan, ready to run on a device: each finds its memory by region and offset in a call's pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.op import Op
from jitgrad.ir.ops.arranging import Arranging, arrange_in_places

from ..lower import Launch, Operand, Scratch, nbytes_of
from ..plan import CopyStep, Place, Plan
from .products import BatchedProduct, product_of
from .runtime.gpu import Gpu
from .runtime.protocol import Array, CompiledKernel

Pointers = tuple[int, ...]
Spot = tuple[int, int]  # number of a region, offset in bytes


class Step(Protocol):
    """Something that a call does."""

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Do it; `pointers` are where the regions are."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Numbers of regions in a call's pointers: inputs, outputs, constants, arena."""

    plan: Plan
    inputs: int
    outputs: int
    constants: int

    @classmethod
    def of(cls, plan: Plan) -> Regions:
        """The regions of a plan."""
        graph = plan.program.graph
        return cls(plan, len(graph.inputs), len(graph.outputs), len(plan.program.constants))

    def spot(self, operand: Operand) -> Spot:
        """Where a value or a scratch buffer is."""
        return self.spot_of(self.plan.place(operand))

    def spot_of(self, place: Place) -> Spot:
        """Where a place is."""
        if place.region == "arena":
            return self.inputs + self.outputs + self.constants, place.offset
        first = {"input": 0, "output": self.inputs, "constant": self.inputs + self.outputs}
        return first[place.region] + place.index, place.offset


def _address(pointers: Pointers, spot: Spot) -> int:
    return pointers[spot[0]] + spot[1]


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """One kernel."""

    prepared: Any
    spots: tuple[Spot, ...]

    @classmethod
    def of(cls, launch: Launch, kernel: CompiledKernel, regions: Regions, g: Gpu) -> LaunchedKernel:
        """The launch, with all that does not change from call to call done."""
        lengths = [o.length if isinstance(o, Scratch) else o.type.numel for o in launch.operands]
        prepared = g.runtime.prepare(kernel, lengths, launch.slots, launch.params, g.index)
        return cls(prepared, tuple(regions.spot(o) for o in launch.operands))

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Launch it."""
        g.runtime.launch(self.prepared, [pointers[r] + offset for r, offset in self.spots], stream)


@dataclass(frozen=True, slots=True)
class MultipliedMatrices:
    """A matrix product."""

    product: BatchedProduct
    spots: tuple[Spot, Spot, Spot]
    nbytes: int

    @classmethod
    def of(cls, node: Node, regions: Regions) -> MultipliedMatrices:
        """The product of a `MatMul` node."""
        p = product_of(node)
        factors = p.lhs.source, p.rhs.source, p.result.source
        a, b, c = (regions.spot(v) for v in factors)
        return cls(p, (a, b, c), node.result.type.nbytes)

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Call cuBLAS; a sum of nothing is zero."""
        p = self.product
        lhs, rhs, result = (_address(pointers, s) for s in self.spots)
        if not self.nbytes:
            return
        if not p.shape.inner:
            return g.runtime.fill(result, 0, self.nbytes, stream)
        size = p.shape.dtype.itemsize
        for i, j, k in p.calls:
            g.runtime.multiply(
                p.shape, p.lhs.at(lhs, i, size), p.rhs.at(rhs, j, size), p.result.at(result, k, size), stream
            )


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """A copy within device memory."""

    target: Spot
    source: Spot
    nbytes: int

    @classmethod
    def of(cls, step: CopyStep, regions: Regions) -> CopiedBytes:
        """The copy of a plan's step."""
        return cls(regions.spot_of(step.target), regions.spot(step.source), nbytes_of(step.source))

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Copy."""
        if self.nbytes:
            g.runtime.on_device(_address(pointers, self.target), _address(pointers, self.source), self.nbytes, stream)


@dataclass(frozen=True, slots=True)
class HostValue:
    """A value that an op of the host reads or writes."""

    spot: Spot
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    @classmethod
    def of(cls, value: Value, regions: Regions) -> HostValue:
        """Where a value is, and its type."""
        t = value.type
        return cls(regions.spot(value), t.shape, t.dtype.np, t.nbytes)

    def fetch(self, g: Gpu, pointers: Pointers, stream: int) -> Array:
        """Its numbers."""
        array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            g.runtime.to_host(array, _address(pointers, self.spot), stream, True)
        return array

    def borrow(self, g: Gpu, pointers: Pointers) -> Any:
        """It as an array of the library that runs on the device."""
        return g.runtime.borrow(_address(pointers, self.spot), self.shape, self.dtype, g.index)

    def put(self, array: Array, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Give it numbers."""
        if self.nbytes:
            plain = np.ascontiguousarray(array, self.dtype)
            g.runtime.to_device(_address(pointers, self.spot), plain, stream, True)


def _apply(op: Op, operands: Sequence[Array]) -> Sequence[Array]:
    """One op through NumPy. Equal elements stay in their order, as with the libraries of devices."""
    return op.arranged(arrange_in_places, operands[0]) if isinstance(op, Arranging) else apply_reference(op, operands)


@dataclass(frozen=True, slots=True)
class RunOnHost:
    """An op without a kernel: operands to the host, NumPy, results back."""

    node: Node
    operands: tuple[HostValue, ...]
    results: tuple[HostValue, ...]

    @classmethod
    def of(cls, node: Node, regions: Regions) -> RunOnHost:
        """The call of the host for a node."""
        operands: Sequence[Value] = node.operands
        return cls(
            node,
            tuple(HostValue.of(v, regions) for v in operands),
            tuple(HostValue.of(v, regions) for v in node.results),
        )

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Run it; errors carry the user's line."""
        arrays = [o.fetch(g, pointers, stream) for o in self.operands]
        try:
            found = _apply(self.node.op, arrays)
        except JitgradError as error:
            error.attach_location(str(self.node.location) if self.node.location else None)
            raise
        for place, result in zip(self.results, found, strict=True):
            same = next((o for o, x in zip(self.operands, arrays) if x is result), None)
            if same is None:
                place.put(np.broadcast_to(result, place.shape), g, pointers, stream)
            elif same.nbytes:  # a check hands on what it was given, which is on the device already
                source = _address(pointers, same.spot)
                g.runtime.on_device(_address(pointers, place.spot), source, same.nbytes, stream)
