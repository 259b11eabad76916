"""The launches of tile ops, whichever kernels run them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.tracked import Lookup
from jitgrad.ir.types import TensorType

from .attention.launch import attention_launches
from .attention.ops import TileAttention, TileAttentionGrad
from .conv.launch import launches
from .conv.target import TileTarget
from .loops.tile import TileKernel, TileOp
from .lower import Launch, Operand


def tile_launches(node: Node, target: TileTarget) -> list[Launch]:
    """The launches of a tile op, in order. Their numbers are plain ones, also where those of the node are tracked."""
    now = Lookup(None)
    types = [v.type for v in (*node.operands, *node.results)]
    op, *plain = map(now, (node.op, *types))
    if op is node.op and all(map(operator.is_, plain, types)):
        return _launches(node, target)
    return TileLaunches(target).of(op, plain, node)


class TileLaunches:
    """Those of many nodes: of nodes that are alike, as layers are, they are computed once."""

    def __init__(self, target: TileTarget) -> None:
        self._target = target
        self._known: dict[tuple[Any, ...], tuple[Node, list[Launch]]] = {}

    def of(self, op: Op, types: Sequence[TensorType], node: Node) -> list[Launch]:
        """The launches of `op` on operands and for results of these types, which are those of `node`."""
        key = (op, *types)
        found = self._known.get(key)
        if found is None:
            count = len(node.operands)
            plain = Node(op, list(map(Value, types[:count])), types[count:], node.location, node.scope)
            found = self._known[key] = plain, _launches(plain, self._target)
        plain, launches = found
        memory: dict[Operand, Operand] = dict(zip((*plain.operands, *plain.results), (*node.operands, *node.results)))
        return [
            Launch(x.kernel, tuple([memory.get(o, o) for o in x.operands]), x.slots, x.params, x.extent, x.operations,
                   x.label)
            for x in launches
        ]  # fmt: skip


def _launches(node: Node, target: TileTarget) -> list[Launch]:
    op = node.op
    if isinstance(op, TileAttention | TileAttentionGrad):
        return attention_launches(node, op, target)
    return launches(node, target)


def tile_kernels(graph: Graph, target: TileTarget) -> list[TileKernel]:
    """The kernels of a prepared graph's tile ops."""
    found = [x.kernel for node in graph.nodes if isinstance(node.op, TileOp) for x in tile_launches(node, target)]
    return [kernel for kernel in dict.fromkeys(found) if isinstance(kernel, TileKernel)]
