"""What follows a convolution element by element, taken into its kernel: a bias, and `Relu`."""

from __future__ import annotations

import dataclasses
from collections import Counter

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.activation import Relu
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.rewrite import with_operands

from .ops import TileConv, TileTransposed


def with_epilogues(graph: Graph) -> Graph:
    """`graph` with biases and rectifiers inside tile ops, where nothing else needs what they are applied to."""
    if not any(isinstance(node.op, Relu | Add) and any(map(_is_convolved, node.operands)) for node in graph.nodes):
        return graph
    uses = Counter([*graph.outputs, *(v for node in graph.nodes for v in node.operands)])
    b, env = Builder(), dict[Value, Value]()
    b.inputs = list(graph.inputs)
    made: dict[Value, int] = {}  # values in the new graph -> how often the old one uses them
    for node in graph.nodes:
        b.location, b.scope = node.location, node.scope
        found = _taken_in(b, with_operands(node, env), made)
        if found is None:
            b.copy(node, env)
            found = env.get(node.results[0], node.results[0])
        else:
            env[node.result] = found
        made[found] = uses[node.results[0]]
    return b.build([env.get(v, v) for v in graph.outputs])


def _taken_in(b: Builder, node: Node, uses: dict[Value, int]) -> Value | None:
    """The result of `node` by the tile op in front of it, or None."""
    match node.op:
        case Relu():
            maker, bias = _maker(node.operands[0], uses), None
        case Add():
            maker, bias = _maker(node.operands[0], uses), _per_channel(node.operands[1])
            if maker is None or bias is None:
                maker, bias = _maker(node.operands[1], uses), _per_channel(node.operands[0])
            if bias is None or maker is None or len(maker.operands) > 2:
                return None
        case _:
            return None
    if maker is None:
        return None
    op = maker.op
    assert isinstance(op, TileConv | TileTransposed)
    if bias is not None:
        wide = maker.operands[1].type.dtype
        bias = b(Convert(wide), bias) if bias.type.dtype is not wide else bias
        return b(op, *maker.operands, b(Reshape((bias.type.numel,)), bias))
    return b(dataclasses.replace(op, relu=True), *maker.operands)


def _is_convolved(value: Value) -> bool:
    return value.node is not None and isinstance(value.node.op, TileConv | TileTransposed)


def _maker(value: Value, uses: dict[Value, int]) -> Node | None:
    """The convolution that makes `value`, if that is needed here alone and not rectified yet."""
    node = value.node
    if node is None or not isinstance(node.op, TileConv | TileTransposed) or node.op.relu or uses.get(value) != 1:
        return None
    return node


def _per_channel(value: Value) -> Value | None:
    """What is broadcast along all axes but that of channels."""
    node = value.node
    if node is None or not isinstance(node.op, BroadcastTo) or len(value.shape) < 2:
        return None
    (x,) = node.operands
    lengths = (*(1,) * (len(value.shape) - len(x.shape)), *x.shape)
    wanted = (1, value.shape[1], *(1,) * (len(value.shape) - 2))
    return x if lengths == wanted else None
