"""A captured call whose ops run on the host, as sorting and factorising do: their references, one after the other.

What is saved is what a function does before it comes to its ops: reading its arguments, checking and converting them.
The values are those of eager code to the bit. What views show is copied, as in native code, so that nothing that is
saved shares memory with what the program can write to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.op import Op, View
from jitgrad.ir.ops.arranging import Arranging

from ..backend import arrange
from ..large import OFTEN

_MOST_OPS = 12  # of a call; NumPy takes more of them no faster than the function does


def host_call(graph: Graph) -> HostCall | None:
    """The graph as such a call; None if that would be no faster than the function it was captured from."""
    if len(graph.nodes) > _MOST_OPS:
        return None
    for node in graph.nodes:
        op = node.op
        if op.random or isinstance(op, OFTEN) or type(op).reference is Op.reference:
            return None
    return HostCall(graph)


def _reference(op: Op) -> Callable[..., Any]:
    return functools.partial(op.arranged, arrange) if isinstance(op, Arranging) else op.reference


class HostCall:
    """A function of the list of arrays that the inputs are, which gives those of the outputs; called like `SmallCall`.

    It gives None for arrays that are not contiguous, and where an op refuses a value: the function says why.
    """

    __slots__ = ("enters", "made", "outputs", "steps")

    def __init__(self, graph: Graph) -> None:
        numbers = {v: i for i, v in enumerate([*graph.inputs, *[v for n in graph.nodes for v in n.results]])}
        self.steps: list[tuple[Callable[..., Any], tuple[int, ...], bool]] = [
            (
                _reference(node.op),
                tuple([numbers[v] for v in node.operands]),
                isinstance(node.op, View) or node.op.effect,
            )
            for node in graph.nodes
        ]
        self.outputs = tuple([numbers[v] for v in graph.outputs])
        self.made = graph.outputs
        self.enters = ()

    def __call__(self, arrays: list[Any]) -> list[Any] | None:
        for x in arrays:
            if not x.flags.c_contiguous:
                return None
        values = [*arrays]
        try:
            for reference, operands, shares in self.steps:
                found = reference(*[values[k] for k in operands])
                for x in found if found.__class__ is tuple else (found,):
                    values.append(x.copy() if shares or not x.flags.c_contiguous else x)
        except JitgradError:
            return None
        return [values[k] for k in self.outputs]
