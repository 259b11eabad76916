"""Tile kernels that a graph will need, compiled by another thread while the graph is traced and prepared.

They take longest of all kernels, and what they are shows from an op and its operands' types. A process has each of them
begun once; those that are on disk are left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node
from jitgrad.ir.op import Op
from jitgrad.ir.ops.attention import Attention, AttentionGrad, AttentionLse
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.types import TensorType

from .cpu.kernels import begin_kernels, tile_target
from .cpu.threads import pool
from .options import CompileOptions
from .prepare import prepare
from .tile_launches import tile_kernels

_TILED: Final = frozenset((Attention, AttentionGrad, AttentionLse, Conv, ConvInputGrad, ConvWeightGrad, MatMul))


class Expected:
    """What has been begun. It takes one compilation at a time."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def begin(self, op: Op, types: Sequence[TensorType], options: CompileOptions) -> None:
        """Begin the kernels of an op on operands of these types, if this is the first of its kind."""
        if op.__class__ not in _TILED or pool.num_threads < 2:
            return
        key = (op.__class__, types[0].dtype, options)
        if key in self._seen:
            return
        self._seen.add(key)
        b, tiles = Builder(), tile_target(options.vector_bits)
        graph = b.build(b.emit(op, *map(b.input, types)))
        begin_kernels(tile_kernels(prepare(graph, options, tiles=tiles), tiles), options.numerics)

    def begin_all(self, graph: Graph, options: CompileOptions) -> None:
        """Begin those of a graph."""
        kinds: dict[type[Op], Node] = {}
        for node in graph.nodes:
            kinds.setdefault(node.op.__class__, node)
        for node in kinds.values():
            self.begin(node.op, [v.type for v in node.operands], options)


EXPECTED: Final = Expected()
