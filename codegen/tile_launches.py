"""The launches of tile ops, whichever kernels run them."""

from __future__ import annotations

import dataclasses
import operator

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.tracked import Lookup

from .attention.launch import attention_launches
from .attention.ops import TileAttention, TileAttentionGrad
from .conv.launch import launches
from .conv.target import TileTarget
from .loops.tile import TileKernel, TileOp
from .lower import Launch, Operand


def tile_launches(node: Node, target: TileTarget) -> list[Launch]:
    """The launches of a tile op, in order. Their numbers are plain ones, also where those of the node are tracked."""
    plain = _plain(node)
    op = plain.op
    if isinstance(op, TileAttention | TileAttentionGrad):
        found = attention_launches(plain, op, target)
    else:
        found = launches(plain, target)
    if plain is node:
        return found
    memory: dict[Operand, Operand] = dict(zip((*plain.operands, *plain.results), (*node.operands, *node.results)))
    return [dataclasses.replace(x, operands=tuple([memory.get(o, o) for o in x.operands])) for x in found]


def tile_kernels(graph: Graph, target: TileTarget) -> list[TileKernel]:
    """The kernels of a prepared graph's tile ops."""
    found = [x.kernel for node in graph.nodes if isinstance(node.op, TileOp) for x in tile_launches(node, target)]
    return [kernel for kernel in dict.fromkeys(found) if isinstance(kernel, TileKernel)]


def _plain(node: Node) -> Node:
    """The node at the sizes of now."""
    now = Lookup(None)
    types = [v.type for v in (*node.operands, *node.results)]
    op, *plain = map(now, (node.op, *types))
    if op is node.op and all(map(operator.is_, plain, types)):
        return node
    count = len(node.operands)
    return Node(op, list(map(Value, plain[:count])), plain[count:], node.location, node.scope)
