"""Whether a kernel may write a result over one of its operands."""

from __future__ import annotations

from jitgrad.ir.graph import Value

from ..fuse.groups import Level, Template, outer_index, outer_shape
from ..fuse.program import Program
from ..fuse.roots import Root
from .group_lowering import GroupLowering
from .phases import Phases


def may_overwrite(program: Program, lowering: GroupLowering, operand: Value, result: Value) -> bool:
    """Whether `result`, stored by the group, may be written into `operand`'s memory as the group runs.

    It may if every iteration, of the loops that store it, reads of `operand` only the element that it then overwrites,
    and nothing else in the kernel reads `operand`, nor anything later.
    """
    group = lowering.group
    if group.is_ordered:
        return False
    stored = next((r for r in group.roots if r.value is result), None)
    if stored is None or operand.type != result.type:
        return False
    full = group.levels[stored.number] is Level.FULL
    index = group.index if full else outer_index(group, len(result.shape))
    if result.shape != (group.domain if full else outer_shape(group, len(result.shape))):
        return False
    phases = Phases(lowering) if group.template is Template.ROW else None
    for root in group.roots:
        for e in lowering.reads_of(root, operand):
            streamed = root.reduction is not None or root.number not in lowering.bindings
            if streamed is not full or e.masked or program.values[e.number] is not operand or e.index != index:
                return False
            if phases is not None and _is_later(lowering, phases, root, stored):
                return False
    return True


def _is_later(lowering: GroupLowering, phases: Phases, root: Root, stored: Root) -> bool:
    """Whether `root` is computed, for itself and not just as a part of others, in a phase after that of `stored`."""
    if root.number in lowering.bindings and root.reduction is None:
        return phases.ready[root.number] > phases.ready[stored.number]
    runs = root.reduction is not None or root in lowering.full_stores
    return runs and phases.phase(root) > phases.phase(stored)
