"""Lowering: from a fused group to launches of loop-level kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jitgrad.ir.graph import Value

from ..fuse.groups import Template
from ..fuse.program import KernelStep, Program
from .group_lowering import GroupLowering
from .kernel_builder import AnyKernel, Launch, Operand, Scratch, nbytes_of
from .map import lower_map
from .row import lower_column_group, lower_row
from .scan import lower_scan
from .scatter import lower_scatter
from .split import lower_split
from .tuning import CPU_TUNING, GPU_TUNING, Tuning

_LOWERINGS: Final = {
    Template.MAP: lower_map,
    Template.ROW: lower_row,
    Template.SPLIT: lower_split,
    Template.COLUMN: lower_column_group,
    Template.SCAN: lower_scan,
    Template.SCATTER: lower_scatter,
}


def lower(
    program: Program, step: KernelStep, in_place: Mapping[Value, Value], tuning: Tuning = CPU_TUNING
) -> list[Launch]:
    """The launches of one group, to be run in order. `in_place`: stored values that overwrite another value."""
    return _LOWERINGS[step.group.template](GroupLowering(program, step, in_place, tuning))


__all__ = ["CPU_TUNING", "GPU_TUNING", "AnyKernel", "Launch", "Operand", "Scratch", "Tuning", "lower", "nbytes_of"]
