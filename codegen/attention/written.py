"""Attention that is written out as products and a softmax, with its gradients, becomes attention by tiles.

    scores  = matmul(q, kᵀ), times numbers, and at most one mask: added, or put in the place of some scores
    weights = softmax(scores), and dropout of them if there is one
    y       = matmul(weights, v)

Of the gradients what belongs to these is found by its structure. Where anything else needs the weights they stay as
they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.comparison import Ge
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.formula import Term
from jitgrad.ir.ops.linalg import MatMul, transposed
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.ops.select import Convert, Where
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.softmax import Softmax
from jitgrad.ir.rewrite import map_sub_graphs

from ..conv.target import TileTarget
from .ops import TileAttention
from .rules import gradients_by_tiles, is_eligible, stretched

_FLOATS: Final = (dtypes.float32, dtypes.float64)


def find_attention(graph: Graph, target: TileTarget) -> Graph:
    """`graph` with attention by tiles in the place of what is written out."""
    graph = map_sub_graphs(graph, lambda g: find_attention(g, target))
    uses = _uses(graph)
    order = {node: n for n, node in enumerate(graph.nodes)}
    found = [w for node in graph.nodes if (w := _written(node, uses, target)) is not None and _is_ordered(w, order)]
    return _rewritten(graph, found, target) if found else graph


@dataclass(frozen=True, slots=True)
class _Choice:
    """`fill` takes the place of scores where `condition` is as `where` says."""

    condition: Value
    fill: float
    where: bool


@dataclass(frozen=True, slots=True)
class _Dropout:
    """`dropped` is weights times `kept`, which is 0 with probability `p` and else a number, by seed and offset."""

    dropped: Value
    kept: Value
    p: float
    random: tuple[Value, ...]


@dataclass(slots=True)
class _Written:
    """Attention that is written out."""

    y: Value
    q: Value
    k: Value  # transposed
    v: Value
    scale: float = 1.0
    added: Value | None = None
    choice: _Choice | None = None
    dropout: _Dropout | None = None
    g: Value | None = None
    start: Node | None = None  # the first node of the gradients
    dq: Value | None = None
    dk: Value | None = None  # transposed
    dv: Value | None = None

    @property
    def op(self) -> TileAttention:
        """The op that it becomes."""
        p = 0.0 if self.dropout is None else self.dropout.p
        return TileAttention(self.scale, False, 1, self.choice is not None, False, p)


def _uses(graph: Graph) -> dict[Value, list[Node | None]]:
    """The nodes that use each value; None for the graph's results."""
    found: dict[Value, list[Node | None]] = {}
    for node in graph.nodes:
        for v in dict.fromkeys(node.operands):
            found.setdefault(v, []).append(node)
    for v in graph.outputs:
        found.setdefault(v, []).append(None)
    return found


def _made_by(value: Value, *ops: type[Op]) -> Node | None:
    return value.node if value.node is not None and isinstance(value.node.op, ops) else None


def _number(value: Value) -> float | None:
    """The number in all places, if there is one."""
    node = _made_by(value, Full, BroadcastTo)
    while node is not None and isinstance(node.op, BroadcastTo):
        node = _made_by(node.operands[0], Full, BroadcastTo)
    if node is None or not isinstance(node.op, Full) or isinstance(node.op.value, complex):
        return None
    return float(node.op.value)


def _turned(value: Value) -> Value | None:
    """What `value` is the transpose of, in the last two axes."""
    node, n = _made_by(value, Permute), value.ndim
    if node is None or not isinstance(node.op, Permute) or node.op.perm != (*range(n - 2), n - 1, n - 2):
        return None
    return node.operands[0]


def _is_transpose(value: Value, other: Value) -> bool:
    return _turned(value) is other or _turned(other) is value


def _scaled(value: Value) -> tuple[Value, float] | None:
    """A value and a number that it is multiplied by."""
    node = _made_by(value, Mul, Div)
    if node is None:
        return None
    x, y = node.operands
    number = _number(y)
    if number is not None and isinstance(node.op, Mul):
        return x, number
    if number is not None:
        return (x, 1 / number) if number else None
    number = _number(x)
    return (y, number) if number is not None and isinstance(node.op, Mul) else None


def _is_ordered(w: _Written, order: dict[Node, int]) -> bool:
    """Whether the gradients begin behind the result: whoever writes them out may begin before."""
    y = w.y.node
    return w.start is None or (y is not None and order[y] < order[w.start])


def _written(node: Node, uses: dict[Value, list[Node | None]], target: TileTarget) -> _Written | None:
    """What ends in this softmax's product, with the gradients that there are."""
    if (
        not isinstance(node.op, Softmax)
        or node.op.axis != node.result.ndim - 1
        or node.result.type.dtype not in _FLOATS
    ):
        return None
    dropout = _dropout(node.result, uses)
    p = node.result if dropout is None else dropout.dropped
    products = [u for u in uses.get(p, ()) if u is not None and isinstance(u.op, MatMul) and u.operands[0] is p]
    if len(products) != 1 or products[0].operands[1] is p or p.ndim < 2:
        return None
    scores, added, choice = _unmasked(node.operands[0])
    scale = 1.0
    inner = scores
    while (found := _scaled(inner)) is not None:
        inner, scale = found[0], scale * found[1]
    product = _made_by(inner, MatMul)
    if product is None or not math.isfinite(scale):
        return None
    q, k = product.operands
    w = _Written(products[0].result, q, k, products[0].operands[1], scale, added, choice, dropout)
    types = [v.type for v in (w.q, w.k, w.v)]
    types[1] = types[1].with_shape((*w.k.shape[:-2], w.k.shape[-1], w.k.shape[-2]))
    if not is_eligible(w.op, types, target) or not _find_gradients(w, node, scores, uses):
        return None
    return w


def _dropout(weights: Value, uses: dict[Value, list[Node | None]]) -> _Dropout | None:
    """The dropout of weights, if there is one."""
    for node in uses.get(weights, ()):
        if node is None or not isinstance(node.op, Mul):
            continue
        kept = node.operands[0] if node.operands[1] is weights else node.operands[1]
        found = _scaled(kept)
        made = None if found is None else _made_by(found[0], Convert)
        at_least = None if made is None else _made_by(made.operands[0], Ge)
        drawn = None if at_least is None else _made_by(at_least.operands[0], RandomUniform)
        p = None if at_least is None else _number(at_least.operands[1])
        if found is None or drawn is None or p is None or not 0 < p < 1:
            continue
        is_usual = math.isclose(found[1] * (1 - p), 1, rel_tol=1e-6)
        if drawn.result.shape == weights.shape and drawn.result.type.dtype is dtypes.float32 and is_usual:
            return _Dropout(node.result, kept, p, tuple(drawn.operands))
    return None


def _unmasked(value: Value) -> tuple[Value, Value | None, _Choice | None]:
    """Scores before a mask, and what was added to them, or what was put in their place."""
    node = _made_by(value, Add, Where)
    if node is not None and isinstance(node.op, Add):
        for x, y in (node.operands, reversed(node.operands)):
            if _made_by(x, MatMul, Mul, Div) is not None and _made_by(y, MatMul) is None:
                return x, y, None
    if node is not None and isinstance(node.op, Where):
        condition, yes, no = node.operands
        for where, fill, scores in ((True, _number(yes), no), (False, _number(no), yes)):
            if fill is not None and not math.isnan(fill):
                return scores, None, _Choice(condition, fill, where)
    return value, None, None


def _find_gradients(w: _Written, softmax: Node, scores: Value, uses: dict[Value, list[Node | None]]) -> bool:
    """Find the gradients; false if something else uses the weights."""
    p = softmax.result
    own = {w.y.node} if w.dropout is None else {w.y.node, w.dropout.dropped.node}
    others = [u for u in uses[p] if u not in own]
    used = others
    if w.dropout is not None:
        used = [u for u in uses[w.dropout.dropped] if u not in own]
        if not all(u is not None and isinstance(u.op, Permute) for u in used):
            return False
        others = [*others, *used]
    if not others:
        return True
    if len(others) > 3 or None in others:
        return False
    for u in others:
        assert u is not None
        if isinstance(u.op, Permute) and (u not in used or not _find_gradient_of_values(w, u, uses)):
            return False
    cotangent = _cotangent_of_scores(w, p, [u for u in others if u is not None and isinstance(u.op, Mul)], uses)
    if cotangent is None:
        return w.start is None and w.dv is not None and len(others) == 1 and _starts_at(w, w.dv)
    return _find_factors(w, cotangent, softmax, scores, uses)


def _find_gradient_of_values(w: _Written, turned: Node, uses: dict[Value, list[Node | None]]) -> bool:
    """The product of the transposed weights and g."""
    (dv,) = uses[turned.result] if len(uses[turned.result]) == 1 else (None,)
    weights = turned.operands[0]
    if not _is_transpose(turned.result, weights) or dv is None or not isinstance(dv.op, MatMul):
        return False
    if dv.operands[0] is not turned.result:
        return False
    w.dv, w.g = dv.result, dv.operands[1]
    return True


def _starts_at(w: _Written, value: Value) -> bool:
    w.start = value.node
    return True


def _cotangent_of_scores(
    w: _Written, p: Value, multiplications: Sequence[Node], uses: dict[Value, list[Node | None]]
) -> Value | None:
    """`p (dp - sum(dp p))` with `dp = g vᵀ`, dropped as the weights, if that is what the weights are multiplied for."""
    if len(multiplications) != 2:
        return None
    for first, last in (multiplications, reversed(multiplications)):
        dp = first.operands[0] if first.operands[1] is p else first.operands[1]
        centred = last.operands[0] if last.operands[1] is p else last.operands[1]
        made, minus = _made_by(_before_dropout(w, dp, uses), MatMul), _made_by(centred, Sub)
        if made is None or minus is None or minus.operands[0] is not dp or not _is_transpose(made.operands[1], w.v):
            continue
        spread = _made_by(minus.operands[1], BroadcastTo)
        total = None if spread is None else _made_by(spread.operands[0], Sum)
        if total is None or total.operands[0] is not first.result or total.op is not Sum((p.ndim - 1,), True):
            continue
        chain = [first.result, total.result, minus.operands[1], centred]
        alone = all(len(uses[v]) == 1 for v in chain) and len(uses[dp]) == 2
        if alone and (w.g is None or w.g is made.operands[0]):
            w.g, w.start = made.operands[0], made
            return last.result
    return None


def _before_dropout(w: _Written, dp: Value, uses: dict[Value, list[Node | None]]) -> Value:
    """The cotangent of dropped weights, from that of the weights."""
    node = _made_by(dp, Mul)
    if w.dropout is None or node is None or w.dropout.kept not in node.operands:
        return dp
    found = node.operands[0] if node.operands[1] is w.dropout.kept else node.operands[1]
    return found if len(uses[found]) == 1 else dp


def _find_factors(
    w: _Written, ds: Value, softmax: Node, scores: Value, uses: dict[Value, list[Node | None]]
) -> bool:  # fmt: skip
    """From the cotangent of the softmax's operand to those of q and k."""
    if w.choice is not None:
        following = uses[ds][0] if len(uses[ds]) == 1 else None
        if following is None or not isinstance(following.op, Where):
            return False
        condition, *both = following.operands
        nothing, something = both if w.choice.where else reversed(both)
        if condition is not w.choice.condition or something is not ds or _number(nothing) != 0:
            return False
        ds = following.result
    value = scores
    while (found := _scaled(value)) is not None:
        following = uses[ds][0] if len(uses[ds]) == 1 else None
        again = None if following is None or following.op is not value.node.op else _scaled(following.result)  # type: ignore[union-attr]
        if again is None or following is None or again[0] is not ds or again[1] != found[1]:
            return False
        ds, value = following.result, found[0]
    for u in uses[ds]:
        if u is None or not isinstance(u.op, MatMul):
            return False
        if u.operands[0] is ds and _is_transpose(u.operands[1], w.k) and w.dq is None:
            w.dq = u.result
        elif u.operands[1] is ds and _is_transpose(u.operands[0], w.q) and w.dk is None:
            w.dk = u.result
        else:
            return False
    return True


def _rewritten(graph: Graph, found: Sequence[_Written], target: TileTarget) -> Graph:
    ends = {w.y.node: w for w in found}
    starts = {w.start: w for w in found if w.start is not None}
    b, env = Builder(), dict[Value, Value]()
    b.inputs = list(graph.inputs)
    made: dict[Value, tuple[Value, ...]] = {}
    for node in graph.nodes:
        b.location, b.scope = node.location, node.scope
        if node in ends:
            made[node.result] = _forward(b, ends[node], env)
            env[node.result] = made[node.result][0]
            continue
        if node in starts:
            w = starts[node]
            grads = _backward(b, w, made[w.y], env, target)
            for value, grad in zip((w.dq, w.dk, w.dv), grads, strict=True):
                if value is not None:
                    env[value] = grad
        if not any(v in env and env[v] is not None and v.node is node for v in node.results):
            b.copy(node, env)
    return b.build([env.get(v, v) for v in graph.outputs])


def _forward(b: Builder, w: _Written, env: dict[Value, Value]) -> tuple[Value, ...]:
    """The results, the largest scores, the shares, and the operands."""
    q, v = (env.get(x, x) for x in (w.q, w.v))
    turned = _turned(w.k)
    k = env.get(turned, turned) if turned is not None else transposed(b, env.get(w.k, w.k))
    operands = [q, k, v]
    if w.added is not None:
        operands.append(_narrowed(b, w.added, env))
    elif w.choice is not None:
        condition = _narrowed(b, w.choice.condition, env)
        fill, kept = (b(Full(condition.shape, q.type.dtype, x, q.type.device)) for x in (w.choice.fill, math.nan))
        operands.append(b(Where(), condition, *((fill, kept) if w.choice.where else (kept, fill))))
    mask = [stretched(b, m, q, k) for m in operands[3:]]
    rest = mask if w.dropout is None else [*mask, *(env.get(v, v) for v in w.dropout.random)]
    return (*b.emit(w.op, *operands[:3], *rest), *operands[:3], *rest)


def _narrowed(b: Builder, mask: Value, env: dict[Value, Value]) -> Value:
    """A mask before it was repeated, with as many axes."""
    node = _made_by(mask, BroadcastTo)
    if node is None:
        return env.get(mask, mask)
    inner = node.operands[0]
    shape = (*(1,) * (mask.ndim - inner.ndim), *inner.shape)
    inner = env.get(inner, inner)
    return inner if inner.shape == shape else b(Reshape(shape), inner)


def _backward(
    b: Builder, w: _Written, made: Sequence[Value], env: dict[Value, Value], target: TileTarget
) -> tuple[Value, ...]:  # fmt: skip
    """The gradients in q, k transposed, and v."""
    y, largest, share, q, k, v, *rest = made
    assert w.g is not None
    last = y.ndim - 1
    g = Term(b, env.get(w.g, w.g)) * Term(b, share).expand_axis(last, y.shape)  # the weights' shares, for all keys
    delta = (g * Term(b, y)).sum(last).apply(Reshape(largest.shape)).value
    dq, dk, dv = gradients_by_tiles(b, w.op, (q, k, v, g.value, largest, delta, *rest), target)
    return dq, transposed(b, dk), dv
