"""Whether a kernel may write a result over one of its operands."""

from __future__ import annotations

from collections.abc import Iterator

from jitgrad.ir.graph import Value
from jitgrad.ir.scalar import Expr

from ..fuse.element import Element, walk
from ..fuse.groups import Level, Template
from ..fuse.program import KernelStep, Program
from ..fuse.roots import Root
from .group_lowering import GroupLowering
from .row import Phases


def may_overwrite(program: Program, step: KernelStep, operand: Value, result: Value) -> bool:
    """Whether `result`, stored by the group, may be written into `operand`'s memory as the group runs.

    It may if every iteration reads of `operand` only the element that it then overwrites, and nothing reads that
    again in a later phase of the kernel.
    """
    group = step.group
    roots = [r for r in group.roots if r.value is result]
    if not roots or group.levels[roots[0].number] is not Level.FULL:
        return False
    if operand.type != result.type or operand.shape != group.domain:
        return False
    lowering = GroupLowering(program, step)
    stored = roots[0]
    phases = Phases(lowering) if group.template is Template.ROW else None
    for root in group.roots:
        for e in _reads_of(program, operand, lowering.expression(root)):
            streamed = root.reduction is not None or root.number not in lowering.bindings
            if not streamed or e.masked or program.values[e.number] is not operand or e.index != group.index:
                return False
            if phases is not None and _runs(lowering, root) and phases.phase(root) > phases.phase(stored):
                return False
    return True


def _runs(lowering: GroupLowering, root: Root) -> bool:
    """Whether the root is computed for itself, not just as a part of others."""
    return root.reduction is not None or root in lowering.full_stores


def _reads_of(program: Program, operand: Value, expr: Expr) -> Iterator[Element]:
    for e in walk(expr):
        if isinstance(e, Element) and program.memory_of(program.values[e.number]) is operand:
            yield e
