"""The kernel that packs a convolution's weight: [group][block][depth][width][height][input channel][output channel].

    for each task: a group, a block of output channels, a place of the kernel
        for each input channel
            a register of output channels, zero where there are none

Strides are run-time numbers and may be negative, so that one kernel packs a weight and its transpose, of all sizes.
"""

from __future__ import annotations

from ..loops.tile import TileKernel
from . import emit_convert
from . import llvm_ir as ir
from .emit_types import I32, I64, memory_type, undefined
from .tile_builder import Numbers, TileBuilder


def emit_weight_packing(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: weight, packed weight."""
    return _Packing(module, symbol, kernel).run()


class _Packing(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.n = Numbers(self)

    def run(self) -> ir.Function:
        """The whole function."""
        n, b = self.n, self.b
        source, target = self.buffer(0), self.buffer(1)
        extents = [n[k] for k in ("blocks", "kernel_depth", "kernel_width", "kernel_height")]
        with self.loop(self.end, start=self.begin) as task:
            group, block, kd, kw, kh = self.split(task, *extents)
            channel = self.product(block, self.lanes)
            place = self.sum(
                n["first"], self.product(group, n["group_pitch"]), self.product(channel, n["out_pitch"]),
                self.product(kd, n["weight_depth"]), self.product(kh, n["weight_height"]),
                self.product(kw, n["weight_width"]),
            )  # fmt: skip
            here = self.at(source, place)
            there = self.at(target, self.product(task, n["in_channels"], self.lanes), wide=True)
            count = b.sub(n["out_channels"], channel)
            there_are = self.between(I64(0), count)
            with self.loop(n["in_channels"]) as c:
                value = self._gather(self.at(here, self.product(c, n["in_pitch"])), count)
                self.write(
                    self.at(there, self.product(c, self.lanes), wide=True), b.select(there_are, value, self.zero)
                )
        return self.finish()

    def _gather(self, source: ir.Value, count: ir.Value) -> ir.Value:
        """A register of output channels; behind the last one is that one again."""
        b, element = self.b, memory_type(self.dtype, 1)
        found: ir.Value = undefined(memory_type(self.dtype, self.lanes))
        for lane in range(self.lanes):
            found = b.insert_element(found, b.load(source, typ=element), I32(lane))
            goes_on = b.icmp_signed("<", I64(lane + 1), count)
            source = self.at(source, b.select(goes_on, self.n["out_pitch"], I64(0)))
        return emit_convert.from_memory(b, found, self.dtype, self.lanes)
