"""What ops with sub-graphs share: checks that a sub-graph takes and gives the types that are handed to it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError, ShapeError
from ..graph import Graph
from ..types import TensorType


def check_inputs(op: str, what: str, graph: Graph, given: Sequence[TensorType]) -> None:
    """Raise unless `graph` takes values of the types `given`."""
    taken = [v.type for v in graph.inputs]
    if len(taken) != len(given):
        raise ArgumentError(f"{op}: {what} takes {len(taken)} values, {len(given)} are given")
    for i, (want, have) in enumerate(zip(taken, given, strict=True)):
        if want != have:
            raise ShapeError(f"{op}: {what} takes {want} as value {i}, {have} is given")


def check_carries(op: str, graph: Graph, carries: int) -> None:
    """Raise unless the first `carries` outputs of `graph` have the types of its first inputs."""
    if len(graph.outputs) < carries or len(graph.inputs) < carries:
        raise ArgumentError(f"{op}: {carries} carries, but the body gives {len(graph.outputs)} values")
    for i in range(carries):
        before, after = graph.inputs[i].type, graph.outputs[i].type
        if before != after:
            raise ShapeError(f"{op}: carry {i} is {before} before a step and {after} after it; they must be equal")


def check_predicate(op: str, what: str, type: TensorType) -> None:
    """Raise unless `type` is that of a 0-d bool."""
    if type.shape != () or type.dtype.kind != "bool":
        raise ShapeError(f"{op}: {what} must be a 0-d bool, not {type}")
